import Foundation
import Testing

extension EndToEnd {
  /// Called by the name of `iproxy`. The environment variable IPROXY runs these tests with the real one.
  @Suite(.serialized) struct Iproxy {
    let mux: FakeMux

    init() throws { mux = try FakeMux() }

    /// Runs a symbolic link with that name.
    func run(_ arguments: [String]) throws -> ChildProcess {
      let directory = try temporaryDirectory()
      let link = "\(directory)/iproxy"
      try FileManager.default.createSymbolicLink(
        atPath: link, withDestinationPath: Tunnel.iproxy ?? Tunnel.binary)
      defer { try? FileManager.default.removeItem(atPath: directory) }
      let child = try ChildProcess(
        executable: link, arguments: ["iproxy"] + arguments,
        environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      // The link must not go before it has been followed.
      _ = eventually(within: 2) {
        !child.isRunning
          || (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(child.pid)/exe")) != nil
      }
      return child
    }

    func comesUp(_ port: UInt16, _ host: String = "127.0.0.1") -> Bool {
      eventually(within: 5) {
        guard let client = try? Client(.ipv4(host, port)) else { return false }
        return echoes(client, within: 2)
      }
    }

    @Test func pairs() throws {
      mux.attach(phone)
      mux.setPort(21, .open(.echo))
      let (first, second) = (try freePort(), try freePort())
      let iproxy = try run(["\(first):7", "\(second):21"])
      #expect(comesUp(first), "\(iproxy.log)")
      #expect(comesUp(second), "\(iproxy.log)")
      #expect(mux.connects.map(\.port) == [7, 21])
    }

    @Test func theOldForm() throws {
      mux.attach(phone)
      let port = try freePort()
      let iproxy = try run(["\(port)", "7"])
      #expect(comesUp(port), "\(iproxy.log)")
    }

    @Test(.enabled(if: Tunnel.iproxy == nil, "iproxy 2.0.2 ignores the third argument"))
    func theOldFormWithUDID() throws {
      mux.attach(otherPhone)
      let id = mux.attach(phone)
      let port = try freePort()
      let iproxy = try run(["\(port)", "7", phone])
      #expect(comesUp(port), "\(iproxy.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    @Test(arguments: [["-u", phone], ["--udid", phone], ["-u\(phone)"], ["--udid=\(phone)"]])
    func aNamedPhone(options: [String]) throws {
      mux.attach(otherPhone)
      let id = mux.attach(phone)
      let port = try freePort()
      let iproxy = try run(options + ["\(port):7"])
      #expect(comesUp(port), "\(iproxy.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    /// Options may stand behind the ports.
    @Test func optionsBehindThePorts() throws {
      mux.attach(otherPhone)
      let id = mux.attach(phone)
      let port = try freePort()
      let iproxy = try run(["\(port):7", "-u", phone])
      #expect(comesUp(port), "\(iproxy.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    /// Several phones and no name: the first one, as ever.
    @Test func theFirstOneFound() throws {
      let id = mux.attach(otherPhone)
      mux.attach(phone)
      let port = try freePort()
      let iproxy = try run(["-l", "\(port):7"])
      #expect(comesUp(port), "\(iproxy.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    @Test func aSourceAddress() throws {
      mux.attach(phone)
      let port = try freePort()
      let iproxy = try run(["-s", "127.0.0.9", "\(port):7"])
      #expect(comesUp(port, "127.0.0.9"), "\(iproxy.log)")
      #expect((try? Client(.loopback(port))) == nil)
    }

    @Test func wiFiOnRequest() throws {
      let port = try freePort()
      let devicePort = try mux.servePlainly(.echo)
      mux.attach(phone, kind: NetworkPhones.wifi)
      let iproxy = try run(["-n", "\(port):\(devicePort)"])
      #expect(comesUp(port), "\(iproxy.log)")
    }

    /// What Flutter, Appium and others look for.
    @Test(.enabled(if: Tunnel.iproxy == nil, "the real one keeps it in a buffer"))
    func theLinesOfIproxy() throws {
      mux.attach(phone)
      let port = try freePort()
      let iproxy = try run(["\(port):7"])
      #expect(iproxy.waitForOutput { $0.contains("waiting for connection") }, "\(iproxy.output)")
      #expect(iproxy.outputLines.first == "Creating listening port \(port) for device port 7")
      #expect(!iproxy.output.contains("ready:"))
      iproxy.signal(SIGTERM)
      #expect(iproxy.waitForExit() == .exited(0))
    }

    @Test(arguments: ["-h", "--help", "-v", "--version"])
    func information(option: String) throws {
      let iproxy = try run([option])
      #expect(iproxy.waitForExit() == .exited(0))
      #expect(iproxy.output.contains("iproxy"))
    }

    @Test(arguments: [[], ["--bogus", "1:1"], ["abc:7"], ["-u"]])
    func wrongArguments(arguments: [String]) throws {
      let iproxy = try run(arguments)
      let status = try #require(iproxy.waitForExit(within: 5))
      #expect(status != .exited(0))
      if Tunnel.iproxy == nil { #expect(status == .exited(2)) }
    }

    /// Here the real one is wrong: it forwards 70000 as 4464.
    @Test(.enabled(if: Tunnel.iproxy == nil))
    func portsAreNotCutToSixteenBits() throws {
      let iproxy = try run(["70000:7"])
      #expect(iproxy.waitForExit(within: 5) == .exited(2))
      #expect(iproxy.logLines.count == 1, "\(iproxy.log)")
    }

    /// The first argument's last path component decides, in whatever directory.
    @Test(.enabled(if: Tunnel.iproxy == nil))
    func theNameIsTheLastComponent() throws {
      mux.attach(phone)
      let port = try freePort()
      let child = try ChildProcess(
        executable: Tunnel.binary, arguments: ["/opt/some/where/iproxy", "\(port):7"],
        environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      #expect(child.waitForOutput { $0.contains("waiting for connection") }, "\(child.output)\(child.log)")
    }
  }
}
