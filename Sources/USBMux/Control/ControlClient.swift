internal import EventLoop

/// One connection of a ``ControlSocket``.
final class ControlClient: ReadinessHandler {
  let identifier: UInt64
  private let loop: EventLoop
  private unowned let owner: ControlSocket
  private var socket: Descriptor?
  private var watcher: Watcher?
  private var input = LineBuffer(limit: ControlSocket.maximumLine)
  private var output = OutputQueue()
  /// A line is with the handler.
  private var isWorking = false
  /// The client has ended its sending side.
  private var hasEnded = false
  private var isReading = false

  private static let readSize = 4096

  init(_ identifier: UInt64, _ socket: consuming Descriptor, on loop: EventLoop, owner: ControlSocket) {
    self.identifier = identifier
    self.loop = loop
    self.owner = owner
    self.socket = consume socket
  }

  func start() {
    guard let number = socket?.number else { return }
    watcher = try? Watcher(number, on: loop, handler: self)
    if watcher == nil { end() }
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    // A Unix socket is broken both ways when the program is gone; nobody waits for an answer then.
    if readiness.contains(.broken) { return end() }
    if readiness.contains(.write) { flush() }
    if readiness.contains(.read) { read() }
  }

  /// Lines, one at a time, as long as there is nothing to be taken by the client first.
  private func read() {
    // A handler may answer at once, from within this loop.
    guard !isReading else { return }
    isReading = true
    defer { isReading = false }
    var hasTaken = false
    while let number = socket?.number, !isWorking, output.isEmpty {
      switch input.next() {
      case .line(let line):
        isWorking = true
        hasTaken = true
        owner.received(line, from: self)
        continue
      case .tooLong: return end()
      case .needsMore: break
      }
      if hasEnded { return end() }
      var moved = Transfer.end
      let bytes = unsafe [UInt8](unsafeUninitializedCapacity: Self.readSize) { buffer, count in
        guard let start = buffer.baseAddress else { return }
        unsafe moved = Socket.receive(number, into: start, count: Self.readSize)
        if case .bytes(let got) = moved { count = got }
      }
      switch moved {
      case .bytes: input.append(bytes)
      case .wouldBlock:
        watcher?.wait(for: .read)
        return
      case .end: hasEnded = true
      case .failed: return end()
      }
    }
    // While its line is answered nothing more is read; that it leaves must be told all the same. Asked for once only:
    // where more lines are there to be read, a level-triggered set would tell of them without end.
    if hasTaken && !hasEnded { watcher?.wait(for: .read) }
  }

  func reply(_ line: String) {
    guard isWorking, socket != nil else { return }
    isWorking = false
    output.append(Array(line.utf8) + [0x0a])
    flush()
    read()
  }

  private func flush() {
    guard let number = socket?.number, !output.isEmpty else { return }
    switch output.send(to: number) {
    case .done: read()
    case .waits: watcher?.wait(for: .write)
    case .failed: end()
    }
  }

  func end() {
    guard socket != nil else { return }
    watcher.dropBeforeClose()
    socket = nil
    owner.ended(self)
  }
}

/// Cuts what comes in into lines that end with LF, perhaps after a CR.
struct LineBuffer {
  enum Step: Equatable {
    case line([UInt8])
    case needsMore
    /// The line exceeds the limit, wherever it will end.
    case tooLong
  }

  /// Bytes of a line, its end not counted.
  let limit: Int
  private var rest: [UInt8] = []
  /// Where no line end has been looked for yet.
  private var searched = 0

  init(limit: Int) { self.limit = limit }

  mutating func append(_ bytes: some Sequence<UInt8>) { rest.append(contentsOf: bytes) }

  mutating func next() -> Step {
    guard let end = rest[searched...].firstIndex(of: 0x0a) else {
      searched = rest.count
      return rest.count > limit + 1 ? .tooLong : .needsMore
    }
    var line = Array(rest[..<end])
    if line.last == 0x0d { line.removeLast() }
    rest.removeFirst(end + 1)
    searched = 0
    return line.count <= limit ? .line(line) : .tooLong
  }
}
