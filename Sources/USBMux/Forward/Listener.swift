internal import CSystem
internal import EventLoop

/// Who gets the connections of a listener, on the loop's thread.
protocol ListenerOwner: AnyObject {
  /// Whether there are descriptors for another connection.
  var mayAccept: Bool { get }
  func accepted(_ client: consuming Descriptor, isUnix: Bool)
  /// The system has no descriptor for a connection that waits, or gives none away for another reason; ``Listener/acceptAgain()`` is to be called
  /// when there is one.
  func cannotAccept(_ error: SystemError)
}

/// Accepts connections on one listening socket, and pauses while there is no room for more: they wait in the
/// kernel's queue.
final class Listener: ReadinessHandler, Resumable {
  /// Connections that are accepted before others get their turn.
  private static let slice = 16

  let address: SocketAddress
  private var socket: Descriptor?
  private let loop: EventLoop
  private unowned let owner: any ListenerOwner
  private var watcher: Watcher?
  private var mayBeReady = false
  private var isScheduled = false

  init(
    _ socket: consuming Descriptor, at address: SocketAddress, on loop: EventLoop, owner: any ListenerOwner
  ) throws(SystemError) {
    self.address = address
    self.loop = loop
    self.owner = owner
    let number = socket.number
    self.socket = consume socket
    watcher = try Watcher(number, on: loop, handler: self)
  }

  /// Takes no more connections; those in the kernel's queue are refused, and the address is free.
  func close() {
    watcher.dropBeforeClose()
    socket = nil
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    mayBeReady = true
    accept()
  }

  func resume() {
    isScheduled = false
    accept()
  }

  /// There may be room again. Not at once: the connection that made room may have ended while it was accepted.
  func acceptAgain() {
    if mayBeReady { schedule() }
  }

  private func schedule() {
    guard !isScheduled else { return }
    isScheduled = true
    loop.resume(self)
  }

  private func accept() {
    var failures = 0
    for _ in 0..<Self.slice {
      guard let listener = socket?.number, owner.mayAccept else { return }
      let number = cs_accept(listener)
      if number >= 0 {
        owner.accepted(Descriptor(owning: number), isUnix: address.isUnix)
        continue
      }
      let error = SystemError.last("accept")
      if error.isWouldBlock {
        mayBeReady = false
        watcher?.wait(for: .read)
        return
      }
      // A connection that died in the queue, or one that a firewall forbids: the next one. Where each fails, it is not
      // the connections.
      failures += 1
      if error.isExhaustion || failures == Self.slice { return owner.cannotAccept(error) }
    }
    schedule()
  }
}
