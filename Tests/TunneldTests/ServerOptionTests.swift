import MuxProtocol
import Testing

@testable import tunneld

@Suite("The socket that is served")
struct ServerOptionTests {
  @Test("A path, with or without a scheme, and no forward needed")
  func paths() throws {
    for text in ["/run/mux", "UNIX:/run/mux", "unix:/run/mux"] {
      let options = try runOptions("--usbmuxd-socket \(text)")
      #expect(options.server == ServerOptions(location: .endpoint(.unix(path: "/run/mux"))))
      #expect(options.forwards.isEmpty)
    }
    #expect(try runOptions("--usbmuxd-socket=mux 1:2").forwards == [.localhost(1, 2)])
    #expect(try runOptions("1:2").server == nil)
    #expect(usageError("").contains("nothing to forward"))
  }

  @Test("The longest path: at the limit, one above")
  func pathLimit() throws {
    let longest = "/" + String(repeating: "a", count: DaemonAddress.maximumPathLength - 1)
    #expect(try runOptions("--usbmuxd-socket \(longest)").server?.location == .endpoint(.unix(path: longest)))
    #expect(usageError("--usbmuxd-socket \(longest)a").contains("no usable path"))
    #expect(usageError(["--usbmuxd-socket", ""]).contains("no usable path"))
    #expect(usageError("--usbmuxd-socket UNIX:").contains("no usable path"))
  }

  @Test("TCP on loopback addresses only")
  func tcp() throws {
    #expect(
      try runOptions("--usbmuxd-socket 127.0.0.1:27015").server?.location
        == .endpoint(.tcp(.address("127.0.0.1"), port: 27015)))
    #expect(
      try runOptions("--usbmuxd-socket [::1]:0").server?.location == .endpoint(.tcp(.address("::1"), port: 0))
    )
    #expect(
      try runOptions("--usbmuxd-socket localhost:1").server?.location == .endpoint(.tcp(.localhost, port: 1)))
    for text in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:7f00:1]:1"] {
      #expect(usageError("--usbmuxd-socket \(text)").contains("is no loopback address"))
    }
    for text in ["127.0.0.1:65536", "example.org:1", ":1", "127.0.0.1:"] {
      usageError("--usbmuxd-socket \(text)")
    }
  }

  @Test("Mode and group", arguments: [("660", 0o660), ("0666", 0o666), ("000", 0), ("777", 0o777)])
  func modes(text: String, mode: UInt16) throws {
    let options = try runOptions(
      "--usbmuxd-socket /m --usbmuxd-socket-mode \(text) --usbmuxd-socket-group plugdev --lockdown-dir /l")
    #expect(
      options.server
        == ServerOptions(
          location: .endpoint(.unix(path: "/m")), mode: mode, group: "plugdev", lockdownDirectory: "/l"))
  }

  @Test("What is no mode", arguments: ["", "66", "1777", "668", "rw-", "0o660", "-660", "06660", "+666"])
  func badModes(text: String) {
    #expect(
      usageError(["--usbmuxd-socket=/m", "--usbmuxd-socket-mode=\(text)"]).contains("three octal digits"))
  }

  @Test("Options that make no sense together")
  func conflicts() {
    for option in ["--usbmuxd-socket-mode 660", "--usbmuxd-socket-group x", "--lockdown-dir /l"] {
      #expect(usageError("\(option) 1:2").contains("add --usbmuxd-socket PATH"))
    }
    #expect(
      usageError("--usbmuxd-socket localhost:1 --usbmuxd-socket-mode 660").contains("neither mode nor group"))
    #expect(usageError("--usbmuxd-socket /a --usbmuxd-socket /b").contains("given twice"))
    #expect(usageError("devices --usbmuxd-socket /a").contains("no meaning for devices"))
    #expect(
      usageError("--usbmuxd-socket /a --local unix:/a --device-port 1").contains("a forward's local end"))
    #expect(usageError("--usbmuxd-socket localhost:5 5:6").contains("a forward's local end"))
    #expect(usageError(["--usbmuxd-socket=/m", "--usbmuxd-socket-group="]).contains("is no group"))
    #expect(usageError(["--usbmuxd-socket=/m", "--lockdown-dir="]).contains("is empty"))
  }

  @Test("tunneld is not its own usbmuxd")
  func ownSocket() throws {
    for path in ["/var/run/usbmuxd", "/run/usbmuxd"] {
      #expect(try runOptions("--usbmuxd-socket \(path)").transport == .usb)
      #expect(usageError("--transport usbmuxd --usbmuxd-socket \(path)").contains("serve another socket"))
      #expect(try runOptions("--usbmuxd-socket \(path)", environment: "/run/other").transport != .usb)
    }
    #expect(try runOptions("--usbmuxd-socket /m").transport == .auto(usbmuxd: nil))
    #expect(try runOptions("--usbmuxd-socket /m", environment: "UNIX:/m").transport == .usb)
    #expect(try runOptions("--usbmuxd-socket localhost:5 --usbmuxd 127.0.0.1:5").transport == .usb)
    #expect(try runOptions("--usbmuxd-socket localhost:5 --usbmuxd 127.0.0.1:6").transport != .usb)
    #expect(
      try runOptions("--usbmuxd-socket /m --transport simulated").transport == .simulated(SimulationOptions())
    )
  }

  @Test("systemd's socket, whose mode is systemd's")
  func activated() throws {
    #expect(try runOptions("--usbmuxd-socket systemd").server?.location == .activated)
    #expect(usageError("--usbmuxd-socket systemd --usbmuxd-socket-mode 660").contains("set SocketMode"))
    // None was passed to the process that runs these tests.
    #expect(throws: UsageError.self) { try runOptions("--usbmuxd-socket systemd").resolved() }
  }

  @Test("iproxy knows none of it")
  func iproxy() {
    usageError("--usbmuxd-socket /m 1:2", as: "iproxy")
  }
}
