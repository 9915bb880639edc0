import Testing

@testable import tunneld

/// The invocation that a command line means, the name of the program left out.
func parse(_ words: [String], as program: String = "tunneld", environment: String? = nil) throws -> Invocation
{
  try Invocation(
    arguments: [program] + words,
    environment: CommandEnvironment(usbmuxdSocketAddress: environment)
  )
}

/// The options of a command line that forwards, its words separated by single spaces.
func runOptions(
  _ line: String,
  as program: String = "tunneld",
  environment: String? = nil,
  sourceLocation: SourceLocation = #_sourceLocation
) throws -> RunOptions {
  let words = line.split(separator: " ").map(String.init)
  guard case .run(let options) = try parse(words, as: program, environment: environment) else {
    Issue.record("\(line) does not forward", sourceLocation: sourceLocation)
    throw CancellationError()
  }
  return options
}

/// The options of a command line that lists phones.
func devicesOptions(
  _ line: String,
  environment: String? = nil,
  sourceLocation: SourceLocation = #_sourceLocation
) throws -> DevicesOptions {
  let words = line.split(separator: " ").map(String.init)
  guard case .devices(let options) = try parse(words, environment: environment) else {
    Issue.record("\(line) does not list phones", sourceLocation: sourceLocation)
    throw CancellationError()
  }
  return options
}

/// Expects a mistake and returns its line, which is checked to be one.
@discardableResult
func usageError(
  _ words: [String],
  as program: String = "tunneld",
  environment: String? = nil,
  sourceLocation: SourceLocation = #_sourceLocation
) -> String {
  do {
    let invocation = try parse(words, as: program, environment: environment)
    Issue.record("\(words) means \(invocation)", sourceLocation: sourceLocation)
    return ""
  } catch let error as UsageError {
    let line = error.description
    #expect(!error.cause.isEmpty && !error.fix.isEmpty, sourceLocation: sourceLocation)
    #expect(line.unicodeScalars.allSatisfy { $0.value >= 0x20 }, "one line", sourceLocation: sourceLocation)
    #expect(line.count <= 300, sourceLocation: sourceLocation)
    return line
  } catch {
    Issue.record("\(error)", sourceLocation: sourceLocation)
    return ""
  }
}

/// As above, the words separated by single spaces.
@discardableResult
func usageError(
  _ line: String,
  as program: String = "tunneld",
  environment: String? = nil,
  sourceLocation: SourceLocation = #_sourceLocation
) -> String {
  usageError(
    line.split(separator: " ").map(String.init),
    as: program,
    environment: environment,
    sourceLocation: sourceLocation
  )
}

extension ForwardOptions {
  /// A forward from a TCP port on both loopback addresses.
  static func localhost(_ port: UInt16, _ devicePort: UInt16) -> ForwardOptions {
    ForwardOptions(local: .tcp(.localhost, port: port), devicePort: devicePort)
  }

  /// A forward from a TCP port on one address.
  static func address(_ address: String, _ port: UInt16, _ devicePort: UInt16) -> ForwardOptions {
    ForwardOptions(local: .tcp(.address(address), port: port), devicePort: devicePort)
  }
}
