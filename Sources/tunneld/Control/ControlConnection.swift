import CSystem
import EventLoop
import JSON

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// Why a running tunneld could not be asked, or did not do what it was asked for. One line for a person.
struct ControlFailure: Error, Equatable, CustomStringConvertible {
  let description: String

  init(_ description: String) { self.description = description }
}

/// A connection to the control socket of a running tunneld, for a command that has nothing else to do: it waits.
struct ControlConnection: ~Copyable {
  private let socket: Descriptor
  private let path: String
  private var received: [UInt8] = []
  private var hasAnswered = false
  /// Where in it no line end has been looked for yet.
  private var searched = 0

  /// For an answer, nanoseconds.
  static let patience: Int64 = 10_000_000_000
  private static let timeout = CInt(patience / 1_000_000)
  /// Bytes of an answer.
  private static let maximumAnswer = 64 << 20

  init(path: String) throws(ControlFailure) {
    self.path = path
    socket = Descriptor(owning: try Self.connect(path))
  }

  private static func connect(_ path: String) throws(ControlFailure) -> CInt {
    var address = sockaddr_storage()
    let length = unsafe cs_address_unix(path, &address)
    guard length > 0 else { throw ControlFailure("\(path.quoted) is no path for a socket") }
    #if canImport(Darwin)
      let number = cs_socket(AF_UNIX, SOCK_STREAM)
    #else
      let number = cs_socket(AF_UNIX, CInt(SOCK_STREAM.rawValue))
    #endif
    guard number >= 0 else { throw ControlFailure("\(SystemError.last("socket"))") }
    let status = unsafe withUnsafePointer(to: &address) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { unsafe systemConnect(number, $0, length) }
    }
    guard status != 0 else { return number }
    let error = SystemError.last("connect")
    _ = close(number)
    let advice =
      error.isPermission
      ? "you must be in the socket's group" : "is tunneld running with this control socket?"
    throw ControlFailure("no answer at \(path) (\(error.message)): \(advice)")
  }

  /// The socket's descriptor, for who waits in a loop.
  var number: CInt { socket.number }

  /// Sends a request and waits for its result.
  mutating func ask(_ command: String, _ members: [JSONValue.Member] = []) throws(ControlFailure) -> JSONValue
  {
    try send(command, members)
    while true {
      if let answer = try nextAnswer() { return answer }
      try take(try receive(timeout: Self.timeout))
    }
  }

  /// Sends a request; its result comes later.
  func send(_ command: String, _ members: [JSONValue.Member] = []) throws(ControlFailure) {
    try send(text: JSONValue.object([JSONValue.Member("command", .string(command))] + members).text + "\n")
  }

  /// The result of the earliest request whose result has not been taken, or nil when it is not there yet. Does
  /// not wait.
  mutating func answerNow() throws(ControlFailure) -> JSONValue? {
    while true {
      if let answer = try nextAnswer() { return answer }
      guard let bytes = read() else { return nil }
      try take(bytes)
    }
  }

  /// The result in what has been received.
  private mutating func nextAnswer() throws(ControlFailure) -> JSONValue? {
    guard let end = received[searched...].firstIndex(of: 0x0a) else {
      searched = received.count
      guard received.count <= Self.maximumAnswer else { throw ControlFailure("the answer is too long") }
      return nil
    }
    hasAnswered = true
    let line = Array(received[..<end])
    received.removeFirst(end + 1)
    searched = 0
    var limits = JSONReader.Limits()
    limits.bytes = Self.maximumAnswer
    limits.values = Self.maximumAnswer
    let answer: JSONValue
    do throws(JSONError) {
      answer = try JSONReader.read(line.span, limits: limits)
    } catch {
      throw ControlFailure("the answer from \(path) is no JSON: \(error)")
    }
    guard answer["ok"]?.boolean == true, let result = answer["result"] else {
      throw ControlFailure(answer["error"]?["message"]?.string ?? "the answer from \(path) is none")
    }
    return result
  }

  /// Waits until the other side ends.
  mutating func waitForEnd() {
    while let more = try? receive(timeout: -1), !more.isEmpty {}
  }

  private func send(text: String) throws(ControlFailure) {
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let sent = unsafe rest.withUnsafeBytes { bytes in
        guard let start = bytes.baseAddress else { return 0 }
        return unsafe systemWrite(socket.number, start, bytes.count)
      }
      if sent > 0 {
        rest = rest.dropFirst(sent)
      } else if errno == EAGAIN {
        guard cs_poll_writable(socket.number, Self.timeout) == 1 else { throw tooSlow }
      } else if errno != EINTR {
        throw hasEnded
      }
    }
  }

  private mutating func take(_ bytes: [UInt8]) throws(ControlFailure) {
    guard !bytes.isEmpty else { throw hasEnded }
    received += bytes
  }

  /// What comes next; nothing at the end.
  private func receive(timeout: CInt) throws(ControlFailure) -> [UInt8] {
    while true {
      var entry = pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0)
      let ready = unsafe poll(&entry, 1, timeout)
      if ready == 0 { throw tooSlow }
      if ready < 0 && errno != EINTR { throw ControlFailure("\(SystemError.last("poll"))") }
      if ready > 0, let bytes = read() { return bytes }
    }
  }

  /// What is there; nothing at the end, and nil when there is nothing yet.
  private func read() -> [UInt8]? {
    while true {
      var count = 0
      let bytes = unsafe [UInt8](unsafeUninitializedCapacity: 65536) { buffer, filled in
        guard let start = buffer.baseAddress else { return }
        count = unsafe systemRead(socket.number, start, buffer.count)
        filled = max(0, count)
      }
      if count >= 0 { return bytes }
      if errno == EAGAIN { return nil }
      if errno != EINTR { return [] }
    }
  }

  private var hasEnded: ControlFailure {
    // Those who may not ask are told nothing.
    let advice = hasAnswered ? "" : ": are you in the socket's group?"
    return ControlFailure("tunneld at \(path) has ended the connection\(advice)")
  }

  var tooSlow: ControlFailure { ControlFailure("tunneld at \(path) does not answer") }
}

/// connect(2), which has a namesake above.
private func systemConnect(_ socket: CInt, _ address: UnsafePointer<sockaddr>, _ length: socklen_t) -> CInt {
  #if canImport(Darwin)
    unsafe Darwin.connect(socket, address, length)
  #else
    unsafe Glibc.connect(socket, address, length)
  #endif
}
