internal import EventLoop
internal import SimulatedPhone

/// Joins a session of a simulated phone to a server on this machine, as the phone's own daemon joins it to an
/// app.
final class LoopbackBridge: ReadinessHandler {
  private static let chunk = 16384

  private let session: PhoneSessionID
  private let loop: EventLoop
  private unowned let phone: PhoneBox
  private var connector: SocketConnector?
  private var socket: Descriptor?
  private var watcher: Watcher?
  private var hangsUp = false
  private var isOver = false
  /// Read from the server and not yet taken by the phone.
  private var held: ContiguousArray<UInt8> = []
  /// Set when the session is over: what the server has still to get.
  private var rest: ContiguousArray<UInt8>?
  private var restSent = 0

  init(_ session: PhoneSessionID, to server: SocketAddress, on loop: EventLoop, phone: PhoneBox) {
    self.session = session
    self.loop = loop
    self.phone = phone
    connector = SocketConnector(to: [server], on: loop, timeout: 5_000_000_000) { [weak self] socket, _ in
      guard let self else { return }
      connector = nil
      if let socket = consume socket { connected(socket) } else { refuse() }
    }
  }

  func stop() {
    isOver = true
    connector?.cancel()
    watcher.drop()
    socket = nil
  }

  /// The host has ended the session; the server gets what came before that, and then the end.
  func finish(_ unread: ContiguousArray<UInt8>) {
    rest = unread
    sendRest()
  }

  private func sendRest() {
    if let bytes = rest, let number = socket?.number {
      while restSent < bytes.count {
        let moved = unsafe bytes.span.extracting(droppingFirst: restSent).withUnsafeBytes {
          buffer -> Transfer in
          guard let start = buffer.baseAddress else { return .wouldBlock }
          return unsafe Socket.send(number, from: start, count: buffer.count)
        }
        switch moved {
        case .bytes(let count): restSent += count
        case .wouldBlock, .end:
          watcher?.wait(for: .write)
          return
        case .failed: restSent = bytes.count
        }
      }
    }
    stop()
    phone.left(session)
  }

  private func refuse() {
    // The answer comes later than the question, also where the system refused at once.
    loop.resume(
      Later { [weak self] in
        guard let self, !isOver else { return }
        isOver = true
        phone.refuse(session)
      })
  }

  private final class Later: Resumable {
    private let body: () -> Void
    init(_ body: @escaping () -> Void) { self.body = body }
    func resume() { body() }
  }

  private func connected(_ socket: consuming Descriptor) {
    do throws(SystemError) {
      watcher = try Watcher(socket.number, on: loop, handler: self)
    } catch {
      return refuse()
    }
    self.socket = consume socket
    loop.resume(
      Later { [weak self] in
        guard let self, !isOver else { return }
        phone.accept(session)
        phoneHasBytes()
      })
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    if rest != nil {
      // A server that has closed takes nothing more: writing says so.
      return sendRest()
    }
    if readiness.contains(.hangUp) { hangsUp = true }
    if readiness.contains(.write) { phoneHasBytes() }
    if readiness.contains(.read) { phoneHasRoom() }
  }

  /// The host's bytes go to the server, as far as it takes them.
  func phoneHasBytes() {
    guard let number = socket?.number, !isOver else { return }
    var failed = false
    phone.read(session) { bytes in
      var sent = 0
      while sent < bytes.count {
        let moved = unsafe bytes.extracting(sent..<bytes.count).withUnsafeBytes { buffer -> Transfer in
          guard let start = buffer.baseAddress else { return .wouldBlock }
          return unsafe Socket.send(number, from: start, count: buffer.count)
        }
        switch moved {
        case .bytes(let count): sent += count
        case .wouldBlock, .end:
          watcher?.wait(for: .write)
          return sent
        case .failed:
          failed = true
          return sent
        }
      }
      return sent
    }
    if failed { close() }
  }

  /// The server's bytes go to the host, as far as the phone takes them.
  func phoneHasRoom() {
    guard let number = socket?.number else { return }
    while !isOver {
      if !held.isEmpty {
        let taken = phone.write(session, held.span)
        held.removeFirst(taken)
        if !held.isEmpty { return }
      }
      var outcome = Transfer.wouldBlock
      held = unsafe ContiguousArray<UInt8>(unsafeUninitializedCapacity: Self.chunk) { buffer, count in
        count = 0
        guard let start = buffer.baseAddress else { return }
        outcome = unsafe Socket.receive(number, into: start, count: buffer.count)
        if case .bytes(let received) = outcome { count = received }
      }
      switch outcome {
      case .bytes: break
      case .wouldBlock:
        watcher?.wait(for: .read)
        return
      case .end, .failed: return close()
      }
    }
  }

  /// The server closed: the session ends behind what it said.
  private func close() {
    guard !isOver else { return }
    stop()
    phone.close(session)
  }
}
