import JSON
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// Runs the commands that ask a running tunneld.
enum ControlRunner {
  /// Returns the exit status.
  static func run(_ command: ControlCommand, program: String) -> Int32 {
    do throws(ControlFailure) {
      try perform(command)
      return Tunneld.ExitStatus.success
    } catch {
      Console.complain("\(program): \(error)")
      return Tunneld.ExitStatus.failure
    }
  }

  private static func perform(_ command: ControlCommand) throws(ControlFailure) {
    var connection = try ControlConnection(path: command.socket)
    switch command.action {
    case .status(let format): try status(format, connection)
    case .reload: Console.print(StatusText.reload(try connection.ask(ControlRequest.Command.reload.rawValue)))
    case .list(let json):
      let forwards = try connection.ask(ControlRequest.Command.forwards.rawValue)["forwards"]?.array ?? []
      if json { return forwards.forEach { Console.print($0.text) } }
      Console.print(StatusText.forwards(forwards))
    case .add(let additions, let lease, let json): try add(additions, lease: lease, json: json, &connection)
    case .remove(let targets):
      for target in targets {
        _ = try connection.ask(
          ControlRequest.Command.remove.rawValue, [JSONValue.Member("forward", .string(target))])
      }
    case .removeAll(let udid):
      let removed = try connection.ask(
        ControlRequest.Command.removeAll.rawValue, [JSONValue.Member("udid", .string(udid.description))])
      Console.print("removed \(removed["removed"]?.array?.count ?? 0)")
    }
  }

  private static func add(
    _ additions: [ForwardAddition], lease: Bool, json: Bool, _ connection: inout ControlConnection
  ) throws(ControlFailure) {
    for addition in additions {
      var members = addition.settings.map { setting in
        // An option without a value is a yes.
        JSONValue.Member(
          setting.option.member, setting.option.valueName == nil ? true : .string(setting.value))
      }
      if lease { members.append(JSONValue.Member("lease", true)) }
      let forward = try connection.ask(ControlRequest.Command.add.rawValue, members)["forward"] ?? .null
      Console.print(json ? forward.text : StatusText.added(forward))
    }
    guard lease else { return }
    connection.waitForEnd()
    throw ControlFailure("tunneld has ended the connection, and with it the forwards")
  }

  private static func status(
    _ format: ControlCommand.Format, _ connection: consuming ControlConnection
  ) throws(ControlFailure) {
    let name = ControlRequest.Command.status.rawValue
    switch format {
    case .text: Console.print(StatusText.table(try connection.ask(name), before: nil))
    case .json: Console.print(try connection.ask(name).text)
    case .prometheus: Console.write(PrometheusText.metrics(try connection.ask(name)), to: STDOUT_FILENO)
    case .watch: try StatusWatch.run(connection)
    }
  }
}
