internal import EventLoop

/// The log of one engine. Lives on its loop thread.
final class Log {
  private let loop: EventLoop
  var level: LogLevel
  private let handler: LogHandler?
  private var limiter = LogLimiter()

  init(level: LogLevel, on loop: EventLoop, handler: LogHandler?) {
    self.loop = loop
    self.level = level
    self.handler = handler
  }

  /// Writes a line when the level asks for it; the text is made only then.
  @inline(__always)
  func write(_ level: LogLevel, connection: UInt64? = nil, _ message: @autoclosure () -> String) {
    guard level <= self.level, let handler else { return }
    handler(LogRecord(level: level, connection: connection, message: message()))
  }

  /// Writes a line, but not the same line again and again: `topic` names what repeats itself. What was left
  /// out is counted in the next line that is written.
  func limited(
    _ level: LogLevel, topic: String, connection: UInt64? = nil, _ message: @autoclosure () -> String
  ) {
    guard level <= self.level, let handler else { return }
    switch limiter.decide(topic, at: Instant(nanoseconds: loop.now)) {
    case .suppress: return
    case .write(let suppressed):
      let note = suppressed > 0 ? " (and \(suppressed) more times since)" : ""
      handler(LogRecord(level: level, connection: connection, message: message() + note))
    }
  }
}
