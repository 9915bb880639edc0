import CSystem
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// systemd's journal, where standard error leads to it.
///
/// Lines go to its socket with fields of their own. That is done here and not by sd_journal_send(3), which waits for
/// a journal that is busy, and with it would every connection: a line that the journal does not take at once is lost.
/// Format: https://systemd.io/JOURNAL_NATIVE_PROTOCOL, `FIELD=value` and a line break for each field.
struct Journal: Sendable {
  /// The journal that reads this process's standard error; nil when something else does.
  static let ofStandardError: Journal? = {
    #if os(Linux)
      guard let named = Console.environment("JOURNAL_STREAM") else { return nil }
      var status = stat()
      // The variable is inherited by processes whose standard error is another one: only the numbers count.
      guard unsafe fstat(STDERR_FILENO, &status) == 0, named == "\(status.st_dev):\(status.st_ino)" else {
        return nil
      }
      return Journal(socketPath: "/run/systemd/journal/socket")
    #else
      return nil
    #endif
  }()

  let socketPath: String
  private let socket: CInt

  init(socketPath: String) {
    self.socketPath = socketPath
    #if canImport(Darwin)
      socket = cs_socket(AF_UNIX, SOCK_DGRAM)
    #else
      socket = cs_socket(AF_UNIX, CInt(SOCK_DGRAM.rawValue))
    #endif
  }

  /// Writes a line, or loses it when the journal is busy.
  ///
  /// - Returns: Whether the journal's socket was there.
  func write(_ record: LogRecord, program: String) -> Bool {
    send(Self.fields(of: record, program: program))
  }

  static func fields(of record: LogRecord, program: String) -> String {
    // With a line break in it the value would have to be written with its length.
    let message = record.message.split(whereSeparator: \.isNewline).joined(separator: " ").prefix(2000)
    var text = "MESSAGE=\(message)\nPRIORITY=\(record.level.priority)\nSYSLOG_IDENTIFIER=\(program)\n"
    if let connection = record.connection { text += "TUNNELD_CONNECTION=\(connection)\n" }
    return text
  }

  private func send(_ text: String) -> Bool {
    var address = sockaddr_storage()
    let length = unsafe socketPath.withCString { unsafe cs_address_unix($0, &address) }
    guard socket >= 0, length > 0 else { return false }
    let sent = unsafe withUnsafePointer(to: &address) { address in
      unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
        unsafe Array(text.utf8).withUnsafeBytes { bytes in
          unsafe sendto(socket, bytes.baseAddress, bytes.count, 0, address, length)
        }
      }
    }
    return sent >= 0 || errno == EAGAIN || errno == ENOBUFS
  }
}

extension LogLevel {
  /// The syslog priority.
  var priority: Int {
    switch self {
    case .error: 3
    case .warning: 4
    case .notice: 5
    case .info: 6
    case .debug: 7
    }
  }
}
