internal import CSystem
internal import EventLoop

/// Who gets the connections of a listener, on the loop's thread.
protocol ListenerOwner: AnyObject {
  /// Whether there are descriptors for another connection.
  var mayAccept: Bool { get }
  func accepted(_ client: consuming Descriptor, isUnix: Bool)
  /// The system has no descriptor for a connection that waits; ``Listener/acceptAgain()`` is to be called
  /// when there is one.
  func cannotAccept(_ error: SystemError)
}

/// Accepts connections on one listening socket, and pauses while there is no room for more: they wait in the
/// kernel's queue.
final class Listener: ReadinessHandler, Resumable {
  /// Connections that are accepted before others get their turn.
  private static let slice = 16

  let address: SocketAddress
  private let socket: Descriptor
  private let loop: EventLoop
  private unowned let owner: any ListenerOwner
  private var watcher: Watcher?
  private var mayBeReady = false

  init(
    _ socket: consuming Descriptor, at address: SocketAddress, on loop: EventLoop, owner: any ListenerOwner
  ) throws(SystemError) {
    self.address = address
    self.loop = loop
    self.owner = owner
    let number = socket.number
    self.socket = socket
    watcher = try Watcher(number, on: loop, handler: self)
  }

  /// Takes no more connections. Those in the kernel's queue are refused when the listener goes.
  func close() { watcher.drop() }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    mayBeReady = true
    accept()
  }

  func resume() { accept() }

  /// There may be room again.
  func acceptAgain() {
    if mayBeReady { accept() }
  }

  private func accept() {
    guard watcher != nil else { return }
    for _ in 0..<Self.slice {
      guard owner.mayAccept else { return }
      let number = cs_accept(socket.number)
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
      if error.isExhaustion { return owner.cannotAccept(error) }
      // A connection that died in the queue, or a signal: the next one.
    }
    loop.resume(self)
  }
}
