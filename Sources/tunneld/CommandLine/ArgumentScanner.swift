/// The options of one command line form: an enum with one case for each.
protocol CommandOption: CaseIterable, Hashable, Sendable {
  /// Names without the two dashes, the one shown to people first.
  var longNames: [String] { get }
  /// The letter after a single dash.
  var shortName: Character? { get }
  /// What the option's value is called in messages; nil for an option that takes none.
  var valueName: String? { get }
}

extension CommandOption {
  /// The option as people know it, `--udid`.
  var spelling: String { "--" + (longNames.first ?? "") }

  /// The long names of all options of this form.
  static var allLongNames: [String] { allCases.flatMap(\.longNames) }
}

/// One element of a command line, told apart but not yet understood.
enum ScannedArgument<Option: CommandOption>: Equatable {
  /// An option and its value, which is empty for an option that takes none.
  case option(Option, value: String)
  /// An argument that is no option.
  case positional(String)
}

/// Cuts an argument list into options, values and positional arguments, as getopt_long does:
/// `--name value`, `--name=value`, `-n value`, `-nvalue`, several letters behind one dash, options and
/// positional arguments in any order, and `--` before arguments that only look like options.
struct ArgumentScanner<Option: CommandOption> {
  private var remaining: ArraySlice<String>
  /// Letters behind the dash that was read last, `vv` after the first letter of `-vvv`.
  private var letters: Substring = ""
  private var optionsEnded = false
  /// The name of the program for hints at its `--help`.
  private let program: String
  /// Whether the unambiguous beginning of a long name stands for it. iproxy's callers may rely on it; our own
  /// form does not offer it, since a later option would break such a command line.
  private let allowsAbbreviations: Bool

  /// Reads `arguments`, the argument list without the name of the program.
  init(_ arguments: ArraySlice<String>, program: String, allowsAbbreviations: Bool) {
    self.remaining = arguments
    self.program = program
    self.allowsAbbreviations = allowsAbbreviations
  }

  /// The next element, or nil at the end.
  mutating func next() throws(UsageError) -> ScannedArgument<Option>? {
    if let letter = letters.popFirst() { return try short(letter) }
    guard let argument = remaining.popFirst() else { return nil }
    if optionsEnded || argument == "-" || !argument.hasPrefix("-") { return .positional(argument) }
    if argument == "--" {
      optionsEnded = true
      return try next()
    }
    if argument.hasPrefix("--") { return try long(argument.dropFirst(2)) }
    letters = argument.dropFirst()
    return try next()
  }

  private mutating func long(_ text: Substring) throws(UsageError) -> ScannedArgument<Option> {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    let name = parts.first.map(String.init) ?? ""
    let attached = parts.count > 1 ? String(parts[1]) : nil
    let option = try option(named: name)
    guard let valueName = option.valueName else {
      if attached != nil {
        throw UsageError("--\(name) takes no value", fix: "write --\(name) alone")
      }
      return .option(option, value: "")
    }
    if let attached { return .option(option, value: attached) }
    return .option(option, value: try nextValue(of: "--\(name)", called: valueName))
  }

  private mutating func short(_ letter: Character) throws(UsageError) -> ScannedArgument<Option> {
    guard let option = Option.allCases.first(where: { $0.shortName == letter }) else {
      throw UsageError("unknown option \("-\(letter)".quoted)", fix: "see \(program) --help")
    }
    guard let valueName = option.valueName else { return .option(option, value: "") }
    if !letters.isEmpty {
      defer { letters = "" }
      return .option(option, value: String(letters))
    }
    return .option(option, value: try nextValue(of: "-\(letter)", called: valueName))
  }

  private mutating func nextValue(of spelling: String, called name: String) throws(UsageError) -> String {
    // A value never begins with two dashes: this is an option whose value was forgotten.
    guard let value = remaining.popFirst(), !value.hasPrefix("--") else {
      throw UsageError("\(spelling) needs a value", fix: "write \(spelling) \(name)")
    }
    return value
  }

  private func option(named name: String) throws(UsageError) -> Option {
    if let option = Option.allCases.first(where: { $0.longNames.contains(name) }) { return option }
    if allowsAbbreviations, !name.isEmpty {
      let begun = Option.allCases.filter { $0.longNames.contains { $0.hasPrefix(name) } }
      if begun.count == 1, let option = begun.first { return option }
    }
    let cause = "unknown option \("--\(name)".quoted)"
    guard let nearest = nearestName(to: name, among: Option.allLongNames) else {
      throw UsageError(cause, fix: "see \(program) --help")
    }
    throw UsageError(cause, fix: "did you mean --\(nearest)?")
  }
}
