import Foundation

/// `POSIX_SPAWN_SETSID`, which not every version of the import has.
#if canImport(Darwin)
  let newSession: Int16 = 0x0400
#else
  let newSession: Int16 = 0x80
#endif

/// A terminal for a program under test, with all that was written to it.
final class PseudoTerminal: @unchecked Sendable {
  /// Its path, for whom it is to be the terminal of.
  let path: String
  private let main: Int32
  private let monitor = Monitor()
  private var written: [UInt8] = []

  init(columns: Int, rows: Int) throws {
    #if canImport(Darwin)
      main = posix_openpt(O_RDWR | O_NOCTTY)
      guard main >= 0, grantpt(main) == 0, unlockpt(main) == 0, let name = ptsname(main) else {
        throw SystemFailure("posix_openpt")
      }
      path = String(cString: name)
    #else
      // What those calls do, which are not in this system's import.
      main = open("/dev/ptmx", O_RDWR | O_NOCTTY)
      var (lock, number): (Int32, UInt32) = (0, 0)
      let (setLock, getNumber): (UInt, UInt) = (0x4004_5431, 0x8004_5430)
      guard main >= 0, ioctl(main, setLock, &lock) == 0, ioctl(main, getNumber, &number) == 0 else {
        throw SystemFailure("/dev/ptmx")
      }
      path = "/dev/pts/\(number)"
    #endif
    _ = fcntl(main, F_SETFD, FD_CLOEXEC)
    resize(columns: columns, rows: rows)
    let descriptor = main
    Thread { [weak self, monitor] in
      var piece = [UInt8](repeating: 0, count: 16384)
      while true {
        let count = Foundation.read(descriptor, &piece, piece.count)
        // Nobody has it open: before the program starts, or after its end.
        if count < 0 && errno == EIO { usleep(5000) } else if count <= 0 && errno != EINTR { return }
        guard let self else { return }
        if count > 0 { monitor.changing { self.written += piece[..<count] } }
      }
    }.start()
  }

  deinit { close(main) }

  func resize(columns: Int, rows: Int) {
    var size = winsize(ws_row: UInt16(rows), ws_col: UInt16(columns), ws_xpixel: 0, ws_ypixel: 0)
    #if canImport(Darwin)
      let setSize: UInt = 0x8008_7467
    #else
      let setSize = UInt(TIOCSWINSZ)
    #endif
    _ = ioctl(main, setSize, &size)
  }

  func type(_ keys: String) {
    _ = Array(keys.utf8).withUnsafeBytes { Foundation.write(main, $0.baseAddress, $0.count) }
  }

  /// Whether what is typed is shown, as it is where nobody has changed it.
  var echoes: Bool {
    var settings = termios()
    return tcgetattr(main, &settings) == 0 && settings.c_lflag & tcflag_t(ECHO) != 0
  }

  var output: String { monitor.reading { String(decoding: written, as: UTF8.self) } }

  func waitForOutput(within seconds: Double = 10, _ condition: (String) -> Bool) -> Bool {
    monitor.wait(within: seconds) { condition(String(decoding: written, as: UTF8.self)) }
  }

  /// What is to be seen after all that was written, when the terminal has this size.
  static func screen(_ output: String, columns: Int, rows: Int) -> [String] {
    var lines = [[Character]](repeating: [], count: rows)
    var (row, column) = (0, 0)
    var rest = Array(output.unicodeScalars)[...]
    while let scalar = rest.popFirst() {
      switch scalar {
      case "\u{1b}":
        guard rest.popFirst() == "[" else { continue }
        let parameters = rest.prefix { !("@"..."~").contains($0) }
        rest = rest.dropFirst(parameters.count)
        switch rest.popFirst() {
        case "H": (row, column) = (0, 0)
        case "K": lines[row] = Array(lines[row].prefix(column))
        case "J":
          lines[row] = Array(lines[row].prefix(column))
          for below in lines.indices.dropFirst(row + 1) { lines[below] = [] }
        default: break
        }
      case "\r": column = 0
      case "\n":
        row += 1
        // A terminal would scroll, which a picture must not do.
        if row == rows { return ["it scrolls"] }
      default:
        if column == columns { return ["it wraps"] }
        while lines[row].count <= column { lines[row].append(" ") }
        lines[row][column] = Character(scalar)
        column += 1
      }
    }
    return lines.map { String($0) }
  }
}
