/// How important a line of the log is.
public enum LogLevel: Int, Comparable, Sendable, CaseIterable {
  /// Something cannot be done at all.
  case error
  /// Something went wrong that a user will want to mend.
  case warning
  /// What an operator wants to see: forwards, devices that come and go.
  case notice
  /// Each connection.
  case info
  /// What helps to find a fault.
  case debug

  /// More important comes first.
  public static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}

/// One line of the log. It never holds payload or a secret.
public struct LogRecord: Sendable {
  /// How important it is.
  public let level: LogLevel
  /// The number of the connection that it is about; it stands in all of that connection's lines.
  public let connection: UInt64?
  /// One line of text.
  public let message: String

  package init(level: LogLevel, connection: UInt64?, message: String) {
    self.level = level
    self.connection = connection
    self.message = message
  }
}

/// Receives the log, on the loop's thread: it must not block.
public typealias LogHandler = @Sendable (LogRecord) -> Void
