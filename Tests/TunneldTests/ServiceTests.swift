import Testing

@testable import USBMux
@testable import tunneld

@Suite("Sockets that systemd passes")
struct PassedSocketTests {
  private func passed(_ number: Int32, _ name: String, _ endpoint: LocalEndpoint) -> PassedSockets.Passed {
    PassedSockets.Passed(descriptor: number, name: name, endpoint: endpoint)
  }
  private let four = LocalEndpoint.tcp(.address("127.0.0.1"), port: 8765)
  private let six = LocalEndpoint.tcp(.address("::1"), port: 8765)

  @Test("A forward takes those of its port's name, wherever they listen")
  func byPort() {
    let sockets = PassedSockets(all: [
      passed(3, "forward-8765", four), passed(4, "usbmuxd", .unix(path: "/run/usbmuxd")),
      passed(5, "forward-8765", six), passed(6, "forward-876", .tcp(.address("127.0.0.1"), port: 876)),
    ])
    #expect(sockets.forward(.tcp(.localhost, port: 8765)).map(\.descriptor) == [3, 5])
    #expect(sockets.forward(.tcp(.localhost, port: 87)).isEmpty)
    #expect(sockets.forward(.tcp(.localhost, port: 0)).isEmpty)
    #expect(sockets.server.map(\.descriptor) == [4])
    #expect(
      sockets.unclaimed(by: [.tcp(.localhost, port: 8765)], servesPrograms: true).map(\.descriptor) == [6])
    #expect(sockets.unclaimed(by: [], servesPrograms: false).count == 4)
  }

  @Test("A Unix socket is told by its path")
  func byPath() {
    let path = LocalEndpoint.unix(path: "/run/app")
    let sockets = PassedSockets(all: [
      passed(3, "forward-app", path), passed(4, "forward-b", .unix(path: "/run/b")), passed(5, "app", path),
    ])
    #expect(sockets.forward(path).map(\.descriptor) == [3])
    #expect(sockets.forward(.unix(path: "/run/c")).isEmpty)
  }

  @Test("A unit without names serves programs on what is for no forward")
  func unnamed() {
    let unnamed = passed(3, "tunneld.socket", .unix(path: "/run/usbmuxd"))
    let sockets = PassedSockets(all: [unnamed, passed(4, "forward-1", four)])
    #expect(sockets.server == [unnamed])
    #expect(!sockets.namesServer)
    #expect(PassedSockets(all: [passed(3, "usbmuxd", four), unnamed]).server.map(\.name) == ["usbmuxd"])
  }

  @Test("A socket of the server's name is served unasked")
  func implied() throws {
    func options(_ words: [String], hasServerSocket: Bool) throws -> RunOptions? {
      let environment = CommandEnvironment(usbmuxdSocketAddress: nil, hasServerSocket: hasServerSocket)
      guard case .run(let options) = try Invocation(arguments: ["tunneld"] + words, environment: environment)
      else { return nil }
      return options
    }
    #expect(try options([], hasServerSocket: true)?.server?.location == .activated)
    #expect(try options(["1:2"], hasServerSocket: true)?.server?.location == .activated)
    #expect(try options(["1:2"], hasServerSocket: false)?.server == nil)
    #expect(
      try options(["--usbmuxd-socket", "/m"], hasServerSocket: true)?.server?.location
        == .endpoint(.unix(path: "/m")))
    #expect(
      try options(["--lockdown-dir", "/l"], hasServerSocket: true)?.server?.lockdownDirectory == "/l")
    #expect(throws: UsageError.self) { try options([], hasServerSocket: false) }
  }

  @Test("Its own socket is no usbmuxd to ask, on whichever of the sockets")
  func ownSocket() throws {
    let sockets = PassedSockets(all: [
      passed(3, "usbmuxd", .unix(path: "/run/other")), passed(4, "usbmuxd", .unix(path: "/run/usbmuxd")),
    ])
    let options = RunOptions(forwards: [], server: ServerOptions(location: .activated))
    #expect(try options.resolved(sockets).transport == .usb)
  }
}

@Suite("What is told to systemd")
struct ServiceTextTests {
  @Test("The status line", arguments: [0, 1, 2, 6, 7, 9])
  func status(count: Int) {
    var status = ServiceStatus()
    status.forwards = (0..<count).map { "127.0.0.1:\($0) -> 7" }
    status.phones = ["A (USB)"]
    let expected =
      switch count {
      case 0: "1 phone: A (USB); no forward"
      case 1: "1 phone: A (USB); 1 forward: 127.0.0.1:0 -> 7"
      default:
        "1 phone: A (USB); \(count) forwards: " + status.forwards.prefix(6).joined(separator: ", ")
          + (count > 6 ? " and \(count - 6) more" : "")
      }
    #expect(status.line == expected)
  }

  @Test("A line break in a name begins no assignment")
  func oneLine() {
    let status = ServiceStatus(forwards: ["unix:/a\nREADY=1 -> 7"], phones: [], servers: ["/run/usbmuxd"])
    #expect(status.line == "no phone; 1 forward: unix:/a READY=1 -> 7; usbmuxd socket at /run/usbmuxd")
  }

  @Test("A journal entry has its fields")
  func journal() {
    let record = LogRecord(level: .warning, connection: 7, message: "refused\nPRIORITY=0 by \u{e4}")
    #expect(
      Journal.fields(of: record, program: "tunneld")
        == "MESSAGE=refused PRIORITY=0 by \u{e4}\nPRIORITY=4\nSYSLOG_IDENTIFIER=tunneld\nTUNNELD_CONNECTION=7\n"
    )
    let plain = LogRecord(level: .debug, connection: nil, message: "x")
    #expect(
      Journal.fields(of: plain, program: "iproxy") == "MESSAGE=x\nPRIORITY=7\nSYSLOG_IDENTIFIER=iproxy\n")
    #expect(!Journal(socketPath: "/nowhere/journal").write(plain, program: "tunneld"))
  }
}
