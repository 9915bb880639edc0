import CSystem
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// Standard output and error, and what else comes from the process's surroundings.
enum Console {
  /// Writes a line to standard output, at once: whoever spawned tunneld waits for it.
  static func print(_ line: String) { write(line + (line.hasSuffix("\n") ? "" : "\n"), to: STDOUT_FILENO) }

  /// Writes a line to standard error, which the journal takes for an error.
  static func complain(_ line: String) {
    let priority = Journal.ofStandardError == nil ? "" : "<\(LogLevel.error.priority)>"
    write(priority + line + "\n", to: STDERR_FILENO)
  }

  /// A line of the log. A reader that does not read costs lines, never time: a pipe or terminal that takes
  /// nothing now is not written to.
  static func log(_ record: LogRecord, program: String) {
    let journal = Journal.ofStandardError
    if journal?.write(record, program: program) == true { return }
    let prefix =
      switch record.level {
      case .error: "error: "
      case .warning: "warning: "
      case .notice, .info: ""
      case .debug: "debug: "
      }
    let connection = record.connection.map { "[\($0)] " } ?? ""
    // A pipe that is writable takes this much without blocking.
    let line = "\(program): \(prefix)\(connection)\(record.message)".prefix(2000)
    guard cs_poll_writable(STDERR_FILENO, 0) == 1 else { return }
    // sd-daemon(3): the journal takes a priority from the beginning of a line.
    let priority = journal == nil ? "" : "<\(record.level.priority)>"
    write("\(priority)\(line)\n", to: STDERR_FILENO)
  }

  static func programName(_ arguments: [String]) -> String {
    let path = arguments.first ?? "tunneld"
    return path.split(separator: "/").last.map(String.init) ?? "tunneld"
  }

  static func environment(_ name: String) -> String? {
    guard let value = unsafe getenv(name) else { return nil }
    return unsafe String(cString: value)
  }

  static func ignoreBrokenPipes() { cs_ignore_sigpipe() }

  private static func write(_ text: String, to descriptor: Int32) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let written = unsafe rest.withUnsafeBytes { bytes in
        guard let start = bytes.baseAddress else { return 0 }
        return unsafe Self.posixWrite(descriptor, start, bytes.count)
      }
      if written > 0 { rest = rest.dropFirst(written) } else if errno != EINTR { return }
    }
  }

  private static func posixWrite(_ descriptor: Int32, _ bytes: UnsafeRawPointer, _ count: Int) -> Int {
    #if canImport(Darwin)
      unsafe Darwin.write(descriptor, bytes, count)
    #else
      unsafe Glibc.write(descriptor, bytes, count)
    #endif
  }
}
