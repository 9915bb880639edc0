import CSystem
import EventLoop
import JSON
import Synchronization
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// Where the log goes: standard error. A reader that does not read costs lines, which are counted, never time.
final class LogSink: Sendable {
  /// Bytes of a line, its end included: a pipe takes so many whole or not at all (PIPE_BUF on Linux).
  static let maximumLine = 4096
  /// Bytes of a message.
  static let maximumMessage = 2000

  private let program: String
  private let channel: Channel
  /// Where standard error leads to it.
  private let journal: Journal?
  private let state: Mutex<State>

  private struct State {
    var options: LogOptions
    var dropped: UInt64 = 0
    /// Since the last line that was written.
    var droppedNow: UInt64 = 0
    /// The end of a line of which a terminal or socket took the beginning.
    var rest: ArraySlice<UInt8> = []

    mutating func drop() {
      dropped &+= 1
      droppedNow &+= 1
    }
  }

  /// How a descriptor is written to without waiting.
  private enum Channel {
    /// It never waits: a file of its own on the same pipe or terminal, since the flag of the descriptor that we
    /// were given is shared with others, or an ordinary file.
    case plain(CInt)
    case socket(CInt)
    /// It is asked before each line.
    case polled(CInt)
  }

  init(program: String, options: LogOptions = LogOptions(), descriptor: CInt = STDERR_FILENO) {
    self.program = program
    state = Mutex(State(options: options))
    channel = Self.channel(descriptor)
    journal = descriptor == STDERR_FILENO ? Journal.ofStandardError : nil
  }

  deinit { if case .plain(let number) = channel, number > STDERR_FILENO { _ = close(number) } }

  private static func channel(_ descriptor: CInt) -> Channel {
    var status = stat()
    guard unsafe fstat(descriptor, &status) == 0 else { return .polled(descriptor) }
    switch status.st_mode & S_IFMT {
    case S_IFREG: return .plain(descriptor)
    case S_IFSOCK: return .socket(descriptor)
    case S_IFIFO, S_IFCHR:
      #if os(Linux)
        let own = unsafe open(
          "/proc/self/fd/\(descriptor)", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)
        if own >= 0 { return .plain(own) }
      #endif
      return .polled(descriptor)
    default: return .polled(descriptor)
    }
  }

  /// Lines that nobody took.
  var dropped: UInt64 { state.withLock { $0.dropped } }

  func configure(_ options: LogOptions) { state.withLock { $0.options = options } }

  func write(_ level: LogLevel, _ message: String) {
    write(LogRecord(level: level, connection: nil, message: message))
  }

  func write(_ record: LogRecord) {
    state.withLock { state in
      if state.options.format == .text, let journal {
        if journal.write(LogText.shown(record, state.options), program: program) { return }
      }
      guard finish(&state) else { return state.drop() }
      var text = LogText.line(record, program: program, state.options)
      // sd-daemon(3): the journal takes a priority from the beginning of a line.
      if journal != nil { text = "<\(record.level.priority)>" + text }
      if state.droppedNow > 0 {
        // In one piece with the line, since there may be room for the note alone, again and again.
        let note = "\(state.droppedNow) lines of the log were dropped, since nobody read them"
        let warning = LogRecord(level: .warning, connection: nil, message: note)
        text = LogText.line(warning, program: program, state.options) + "\n" + text
      }
      guard put(text, &state) else { return state.drop() }
      state.droppedNow = 0
    }
  }

  /// Writes the rest of a line that was begun; false when that is not possible now.
  private func finish(_ state: inout State) -> Bool {
    guard !state.rest.isEmpty else { return true }
    state.rest = state.rest.dropFirst(put(state.rest))
    return state.rest.isEmpty
  }

  /// False when nothing of the line was taken.
  private func put(_ line: String, _ state: inout State) -> Bool {
    guard finish(&state) else { return false }
    let bytes = Array(line.utf8.prefix(Self.maximumLine - 1)) + [0x0a]
    let written = put(bytes[...])
    if written > 0 { state.rest = bytes[written...] }
    return written > 0
  }

  /// How many bytes were taken.
  private func put(_ bytes: ArraySlice<UInt8>) -> Int {
    unsafe bytes.withUnsafeBytes { buffer in
      guard let start = buffer.baseAddress else { return 0 }
      while true {
        let written =
          switch channel {
          case .plain(let number): unsafe systemWrite(number, start, buffer.count)
          case .socket(let number): unsafe send(number, start, buffer.count, Self.sendFlags)
          case .polled(let number):
            cs_poll_writable(number, 0) == 1 ? unsafe systemWrite(number, start, buffer.count) : -1
          }
        if written >= 0 { return written }
        if errno != EINTR { return 0 }
        if case .polled = channel { return 0 }
      }
    }
  }

  #if canImport(Darwin)
    private static let sendFlags = MSG_DONTWAIT
  #else
    private static let sendFlags = CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL)
  #endif
}

/// Lines of the log as text.
enum LogText {
  /// One line without its end. `time` is for JSON, which has it; whoever reads text knows it.
  static func line(
    _ record: LogRecord, program: String, _ options: LogOptions, time: @autoclosure () -> String = now()
  ) -> String {
    let record = shown(record, options)
    switch options.format {
    case .text:
      let prefix =
        switch record.level {
        case .error: "error: "
        case .warning: "warning: "
        case .notice, .info: ""
        case .debug: "debug: "
        }
      return "\(program): \(prefix)\(record.connection.map { "[\($0)] " } ?? "")\(record.message)"
    case .json:
      return JSONValue.object(of: [
        "time": .string(time()), "level": .string(record.level.name),
        "connection": record.connection.map(JSONValue.count),
        "message": .string(record.message),
      ]).text
    }
  }

  /// What of a record may be shown.
  static func shown(_ record: LogRecord, _ options: LogOptions) -> LogRecord {
    var message = record.message
    if message.utf8.count > LogSink.maximumMessage { message = cut(message) }
    if options.redactsUDIDs { message = redacted(message) }
    return LogRecord(level: record.level, connection: record.connection, message: message)
  }

  /// As much of a message as fits, without half a character.
  private static func cut(_ message: String) -> String {
    var text = ""
    var left = LogSink.maximumMessage
    for scalar in message.unicodeScalars {
      left -= UTF8.width(scalar)
      guard left >= 0 else { break }
      text.unicodeScalars.append(scalar)
    }
    return text
  }

  /// The time of day in UTC, to a millisecond.
  static func now() -> String {
    let bytes = unsafe [CChar](unsafeUninitializedCapacity: 25) { buffer, count in
      guard let start = buffer.baseAddress else { return }
      unsafe cs_utc_time(start)
      count = 24
    }
    return String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// With `...` and the last four digits in place of each UDID, so that phones can still be told apart.
  static func redacted(_ text: String) -> String {
    var result = ""
    var word = ""
    for character in text {
      if character.isASCII && (character.isHexDigit || character == "-") {
        word.append(character)
      } else {
        result += isUDID(word) ? "..." + word.suffix(4) : word
        result.append(character)
        word = ""
      }
    }
    return result + (isUDID(word) ? "..." + word.suffix(4) : word)
  }

  /// 40 or 24 hexadecimal digits, or 8, a dash and 16.
  private static func isUDID(_ word: String) -> Bool {
    switch word.utf8.count {
    case 24, 40: !word.contains("-")
    case 25: word.filter { $0 == "-" }.count == 1 && word.dropFirst(8).first == "-"
    default: false
    }
  }
}
