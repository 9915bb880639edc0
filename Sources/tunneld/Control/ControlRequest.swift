import JSON
import USBMux

/// What is answered instead of a result.
struct ControlError: Error, Equatable {
  enum Kind: String {
    case badRequest = "bad_request"
    case unknownCommand = "unknown_command"
    case notFound = "not_found"
    case exists
    case cannotListen = "cannot_listen"
    case invalidConfiguration = "invalid_configuration"
  }

  let kind: Kind
  let message: String
  /// Of the request, where it could be read that far.
  var identifier: JSONValue?

  init(_ kind: Kind, _ message: String) {
    self.kind = kind
    self.message = message
  }

  func with(_ identifier: JSONValue?) -> ControlError {
    var error = self
    error.identifier = identifier
    return error
  }

  func reply() -> String {
    JSONValue.object(of: [
      "id": identifier, "ok": false,
      "error": .object(of: ["kind": .string(kind.rawValue), "message": .string(message)]),
    ]).text
  }
}

/// One line that a client sends: `{"id": 1, "command": "status"}`, with what the command needs beside it.
struct ControlRequest {
  enum Command: String, CaseIterable {
    case status
    case devices
    case forwards = "forward-list"
    case add = "forward-add"
    case remove = "forward-remove"
    case removeAll = "forward-remove-all"
    case reload
  }

  /// Repeated in the answer; any string or integer.
  let identifier: JSONValue?
  let command: Command
  private let members: [JSONValue.Member]

  init(line: Span<UInt8>) throws(ControlError) {
    let value: JSONValue
    do throws(JSONError) {
      value = try JSONReader.read(line)
    } catch {
      throw ControlError(.badRequest, "this is no JSON: \(error)")
    }
    guard case .object(let members) = value else {
      throw ControlError(.badRequest, "a request is an object")
    }
    self.members = members
    switch value["id"] {
    case nil: identifier = nil
    case .string(let text)?: identifier = .string(text)
    case .integer(let number)?: identifier = .integer(number)
    default: throw ControlError(.badRequest, "id is neither a string nor an integer")
    }
    do throws(ControlError) {
      command = try Self.command(value["command"])
    } catch {
      throw error.with(identifier)
    }
  }

  private static func command(_ value: JSONValue?) throws(ControlError) -> Command {
    guard let name = value?.string else {
      throw ControlError(.badRequest, "command is missing, or no string")
    }
    guard let command = Command(rawValue: name) else {
      let near = nearestName(to: name, among: Command.allCases.map(\.rawValue))
      throw ControlError(
        .unknownCommand, "there is no command \(name.quoted)" + (near.map { ": did you mean \($0)?" } ?? ""))
    }
    return command
  }

  func reply(_ result: JSONValue) -> String {
    JSONValue.object(of: ["id": identifier, "ok": true, "result": result]).text
  }

  /// - Throws: when there is a member besides these.
  func allow(_ names: Set<String>) throws(ControlError) {
    for member in members
    where member.name != "id" && member.name != "command" && !names.contains(member.name) {
      let near = nearestName(to: member.name, among: Array(names))
      throw ControlError(
        .badRequest,
        "\(command.rawValue) has no \(member.name.quoted)" + (near.map { ": did you mean \($0)?" } ?? ""))
    }
  }

  func string(_ name: String) throws(ControlError) -> String {
    switch members.first(where: { $0.name == name })?.value {
    case .string(let text)?: return text
    case .integer(let number)?: return "\(number)"
    case nil: throw ControlError(.badRequest, "\(name) is missing")
    default: throw ControlError(.badRequest, "\(name) is no string")
    }
  }

  func boolean(_ name: String) throws(ControlError) -> Bool? {
    guard let member = members.first(where: { $0.name == name }) else { return nil }
    guard let truth = member.value.boolean else {
      throw ControlError(.badRequest, "\(name) is neither true nor false")
    }
    return truth
  }

  /// The forward that is to be added: the keys of the configuration file with `_` for `-`, and `name`.
  func forward() throws(ControlError) -> ForwardOptions {
    let options = TunneldOption.forwardKeys
    try allow(Set(options.map(\.member)).union(["name", "lease"]))
    var arguments = ForwardArguments()
    var name: String?
    for member in members {
      if member.name == "name" {
        let text = try string("name")
        // A number would be taken for a forward's.
        guard ConfigurationFile.isName(text), UInt64(text) == nil else {
          throw ControlError(.badRequest, "\(text.quoted) is no name for a forward")
        }
        name = text
      }
      guard let option = options.first(where: { $0.member == member.name }) else { continue }
      do throws(UsageError) {
        try arguments.take(option, Self.text(member.value), as: member.name)
      } catch {
        throw ControlError(.badRequest, error.description)
      }
    }
    do throws(UsageError) {
      return try arguments.options(name: name, bind: .localhost)
    } catch {
      throw ControlError(.badRequest, error.description)
    }
  }

  /// A value as one would write it in the configuration file.
  private static func text(_ value: JSONValue) -> String {
    switch value {
    case .string(let text): text
    case .boolean(let truth): truth ? "yes" : "no"
    case .null, .integer, .number, .array, .object: value.text
    }
  }
}

extension TunneldOption {
  /// The option as a member of a request.
  var member: String { String(key.map { $0 == "-" ? "_" : $0 }) }
}
