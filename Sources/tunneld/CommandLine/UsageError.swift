/// A command line that cannot be obeyed. Shown as one line on stderr; the exit status is 2.
struct UsageError: Error, Equatable, CustomStringConvertible {
  /// What is wrong, naming the argument.
  let cause: String
  /// What to write instead.
  let fix: String

  init(_ cause: String, fix: String) {
    self.cause = cause
    self.fix = fix
  }

  /// One line without the program's name: `cause: fix`.
  var description: String { "\(cause): \(fix)" }
}

extension StringProtocol {
  /// The text between single quotes, fit for one line of a terminal or log.
  ///
  /// What is quoted comes from a command line or the environment, so it may hold line breaks and
  /// terminal sequences, and may be long: control characters are escaped, the rest is cut at 80 characters.
  var quoted: String {
    let limit = 80
    var text = "'"
    for (index, scalar) in unicodeScalars.enumerated() {
      if index == limit {
        text += "..."
        break
      }
      switch scalar.properties.generalCategory {
      case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .unassigned, .privateUse:
        text += scalar.escaped(asASCII: true)
      default:
        text.unicodeScalars.append(scalar)
      }
    }
    return text + "'"
  }
}
