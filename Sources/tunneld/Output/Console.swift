import CSystem
import EventLoop
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

  /// Whether a line can be printed without waiting for a reader.
  static var takesOutput: Bool { cs_poll_writable(STDOUT_FILENO, 0) == 1 }

  /// Writes a line to standard error, which the journal takes for an error.
  static func complain(_ line: String) {
    let priority = Journal.ofStandardError == nil ? "" : "<\(LogLevel.error.priority)>"
    write(priority + line + "\n", to: STDERR_FILENO)
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

  /// Signals that end or reload a service reach it, whatever the thread that started it had blocked.
  static func unblockSignals() { cs_unblock_signals() }

  /// Writes all of the text, however long that takes.
  ///
  /// - Returns: false when the other side takes no more.
  @discardableResult
  static func write(_ text: String, to descriptor: Int32) -> Bool {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let written = unsafe rest.withUnsafeBytes { bytes in
        guard let start = bytes.baseAddress else { return 0 }
        return unsafe systemWrite(descriptor, start, bytes.count)
      }
      if written > 0 {
        rest = rest.dropFirst(written)
      } else if errno == EAGAIN {
        // Whoever had the terminal before may have left it so.
        guard cs_poll_writable(descriptor, 5000) == 1 else { return false }
      } else if errno != EINTR {
        return false
      }
    }
    return true
  }
}
