import CSystem

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// A screen of its own on the terminal at standard output, for a picture that is drawn again and again.
///
/// What stood there before comes back at the end, and so does the cursor. Keys are not shown.
struct Terminal {
  private var keys: termios?

  /// Nil where standard output is no terminal, or one that knows no sequences.
  init?() {
    guard isatty(STDOUT_FILENO) == 1 else { return nil }
    if let kind = Console.environment("TERM"), kind.isEmpty || kind == "dumb" { return nil }
  }

  /// Whether keys that are pressed can be read from standard input, each at once.
  var hasKeys: Bool { keys != nil }

  private static var isInForeground: Bool {
    isatty(STDIN_FILENO) == 1 && tcgetpgrp(STDIN_FILENO) == getpgrp()
  }

  /// Columns and rows; the usual ones where the terminal does not say.
  var size: (columns: Int, rows: Int) {
    var columns: CInt = 0
    var rows: CInt = 0
    guard unsafe cs_terminal_size(STDOUT_FILENO, &columns, &rows) == 0, columns > 0, rows > 0 else {
      return (80, 24)
    }
    return (Int(columns), Int(rows))
  }

  /// Turns to the screen of its own, without a cursor, and stops to show keys.
  mutating func enter() {
    var settings = termios()
    // Only the foreground may change it; in the background the attempt would stop the process.
    if Self.isInForeground, unsafe tcgetattr(STDIN_FILENO, &settings) == 0 {
      keys = settings
      settings.c_lflag &= ~tcflag_t(ECHO | ICANON)
      _ = unsafe tcsetattr(STDIN_FILENO, TCSANOW, &settings)
    }
    Console.write("\u{1b}[?1049h\u{1b}[?25l", to: STDOUT_FILENO)
  }

  /// Puts everything back.
  mutating func leave() {
    Console.write("\u{1b}[?25h\u{1b}[?1049l", to: STDOUT_FILENO)
    if var settings = keys, Self.isInForeground { _ = unsafe tcsetattr(STDIN_FILENO, TCSANOW, &settings) }
    keys = nil
  }

  /// Draws over what was drawn before. Each line erases what stood behind it, and nothing is erased before, so the
  /// picture does not flicker.
  ///
  /// - Returns: false when nobody is there to look at it.
  func draw(_ lines: [String]) -> Bool {
    let columns = size.columns
    let picture = lines.map { line in
      // In a full line the cursor stands on the last character, which must stay.
      line.count < columns ? line + "\u{1b}[K" : line
    }
    return Console.write(
      "\u{1b}[H" + picture.joined(separator: "\r\n") + "\u{1b}[J", to: STDOUT_FILENO)
  }
}
