import JSON
import MuxProtocol
import Testing

@testable import tunneld

func controlCommand(_ line: String) throws -> ControlCommand {
  guard case .control(let command) = try parse(line.split(separator: " ").map(String.init)) else {
    Issue.record("\(line) asks nobody")
    throw CancellationError()
  }
  return command
}

@Suite("Commands for a running tunneld")
struct ControlCommandTests {
  @Test("Status, in its formats")
  func status() throws {
    #expect(
      try controlCommand("status")
        == ControlCommand(socket: "/run/tunneld/control.sock", action: .status(.text)))
    #expect(try controlCommand("status --json").action == .status(.json))
    #expect(try controlCommand("status --prometheus").action == .status(.prometheus))
    #expect(try controlCommand("--watch status --control-socket /tmp/c").action == .status(.watch))
    #expect(try controlCommand("status --control-socket unix:/tmp/c").socket == "/tmp/c")
    #expect(usageError("status --json --watch").contains("exclude each other"))
    #expect(usageError("status --udid 00").contains("has no meaning for status"))
    #expect(usageError("statsu").contains("did you mean status?"))
    #expect(usageError("status now").contains("unexpected argument"))
    #expect(usageError("status --control-socket none").contains("there is no control socket"))
  }

  @Test("Forwards")
  func forwards() throws {
    #expect(try controlCommand("forward list").action == .list(json: false))
    #expect(try controlCommand("forward remove 3 web").action == .remove(["3", "web"]))
    #expect(
      try controlCommand("forward remove --udid 00008110").action
        == .removeAll(UDIDPrefix(parsing: "00008110")))
    guard
      case .add(let additions, let lease, _) = try controlCommand(
        "forward add 0:8765 --local unix:/tmp/s --device-port 22 --any --wait 3 --bind 127.0.0.1 --lease"
      ).action
    else { return #expect(Bool(false)) }
    #expect(lease)
    #expect(
      additions.map { $0.settings.map { "\($0.option.member)=\($0.value)" } } == [
        ["local=unix:/tmp/s", "device_port=22", "any=", "wait=3"],
        ["local=127.0.0.1:0", "device_port=8765", "any=", "wait=3"],
      ])
    for line in [
      "forward", "forward ad", "forward add", "forward add 1", "forward remove", "forward remove 1 --udid 00",
      "forward add 1:2 --any --udid 00", "forward list x", "reload x", "--lease 1:2", "--ready-fd 0 1:2",
      "--ready-fd x 1:2", "--log-format xml 1:2", "--control-socket-mode 600 1:2",
    ] { usageError(line) }
  }

  @Test("A capture is of a run, and there is one at most")
  func capture() throws {
    #expect(try runOptions("--capture a.pcapng 1:2").capture == "a.pcapng")
    #expect(try runOptions("1:2").capture == nil)
    for line in ["--capture a --capture b 1:2", "--capture", "devices --capture a", "status --capture a"] {
      usageError(line)
    }
    usageError(["--capture", "", "1:2"])
    #expect(usageError("--captrue a 1:2").contains("did you mean --capture?"))
    var other = try runOptions("--capture a 1:2")
    other.capture = "b"
    #expect(try runOptions("--capture a 1:2").settingsForRestart(besides: other) == ["capture"])
  }

  @Test("For programs that start it")
  func spawning() throws {
    let options = try runOptions("--ready-fd 3 --ready-json --exit-with-parent --log-format json 1:2")
    #expect(options.ready == ReadyOptions(descriptor: 3, json: true))
    #expect(options.exitsWithParent && options.log.format == .json)
    #expect(options.control == nil && options.configuration == nil)
    #expect(try runOptions("--control-socket /tmp/c").control?.isStandard == false)
  }
}

@Suite("Requests of the control socket")
struct ControlRequestTests {
  private func request(_ text: String) throws(ControlError) -> ControlRequest {
    try ControlRequest(line: Array(text.utf8).span)
  }

  private func error(_ text: String) -> String {
    do throws(ControlError) {
      let request = try request(text)
      _ = try request.forward()
      return ""
    } catch {
      return "\(error.kind.rawValue): \(error.message)"
    }
  }

  @Test("A forward with all that it may have")
  func forward() throws {
    let request = try request(
      """
      {"id":"x","command":"forward-add","local":"127.0.0.1:0","device_port":8765,"name":"web","lease":true,
       "udid":"00008110","network":true,"wait":1.5,"max_connections":3}
      """.replacing("\n", with: ""))
    let options = try request.forward()
    #expect(options.local == .tcp(.address("127.0.0.1"), port: 0) && options.devicePort == 8765)
    #expect(options.name == "web" && options.settings.maximumConnections == 3)
    #expect(options.settings.wait == .milliseconds(1500) && options.settings.connections == .usbPreferred)
    #expect(try request.boolean("lease") == true)
    #expect(request.reply(.object([])) == "{\"id\":\"x\",\"ok\":true,\"result\":{}}")
  }

  @Test(
    "What is not accepted",
    arguments: [
      ("", "bad_request: this is no JSON"), ("[]", "bad_request: a request is an object"),
      ("{}", "command is missing"), ("{\"command\":1}", "command is missing"),
      ("{\"command\":\"forward-ad\"}", "unknown_command: there is no command 'forward-ad': did you mean"),
      ("{\"id\":[],\"command\":\"status\"}", "id is neither"),
      ("{\"command\":\"forward-add\"}", "it has no local end"),
      ("{\"command\":\"forward-add\",\"local\":\"1\"}", "it has no port on the phone"),
      ("{\"command\":\"forward-add\",\"device-port\":1}", "did you mean device_port?"),
      (
        "{\"command\":\"forward-add\",\"local\":\"1\",\"device_port\":70000}",
        "'70000' in device_port is no port"
      ),
      ("{\"command\":\"forward-add\",\"local\":\"1\",\"device_port\":null}", "is no port"),
      ("{\"command\":\"forward-add\",\"local\":\"1\",\"device_port\":1,\"name\":\"7\"}", "is no name"),
      (
        "{\"command\":\"forward-add\",\"local\":\"1\",\"device_port\":1,\"any\":\"perhaps\"}",
        "neither yes nor no"
      ),
    ])
  func refusals(text: String, message: String) {
    #expect(error(text).contains(message), "\(error(text))")
  }
}

@Suite("From forwards that are there to those that are wanted")
struct ForwardPlanTests {
  private func options(_ name: String, _ local: UInt16, _ port: UInt16) -> ForwardOptions {
    ForwardOptions(local: .tcp(.localhost, port: local), devicePort: port, name: name)
  }

  @Test("Those with the same local end stay")
  func plan() {
    let present = [options("a", 1, 1), options("b", 2, 2), options("c", 0, 3), options("d", 0, 4)]
      .enumerated().map { ForwardEntry(UInt64($0 + 1), $1, from: .file) }
    let plan = ForwardPlan(
      from: present,
      to: [options("a", 1, 1), options("renamed", 2, 7), options("d", 0, 4), options("e", 5, 5)])
    #expect(plan.unchanged == 2)
    #expect(plan.remove.map(\.number) == [3])
    #expect(plan.change.map(\.entry.number) == [2] && plan.change.map(\.options.devicePort) == [7])
    #expect(plan.add.map(\.name) == ["e"])
    #expect(ForwardPlan(from: [], to: []).add.isEmpty)
  }

  @Test("A forward is named by its number, its name or its local end")
  func naming() {
    let entry = ForwardEntry(12, options("web", 8765, 1), from: .file)
    for text in ["12", "web", "localhost:8765"] { #expect(entry.isMeant(by: text)) }
    for text in ["1", "8765", "we", ""] { #expect(!entry.isMeant(by: text)) }
    #expect((0..<7).map { _ in entry.nextPause() / 1_000_000_000 } == [1, 2, 4, 8, 16, 30, 30])
  }
}
