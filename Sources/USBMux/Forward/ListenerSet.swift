internal import EventLoop

/// The listeners of one local address, which may be several sockets, and the file where it is a Unix socket.
struct ListenerSet {
  private var listeners: [Listener] = []
  private var file: (path: String, identity: UnixSocketFile.Identity?)?

  /// Nobody listens.
  init() {}

  /// Accepts on sockets that are bound. Nothing stays bound when it throws.
  ///
  /// - Throws: ``MuxError/system(_:)`` when they cannot be watched.
  init(
    _ bound: inout BoundSockets, at local: ListenAddress, on loop: EventLoop, owner: any ListenerOwner
  ) throws(MuxError) {
    if case .unix(let path) = local { file = (path, UnixSocketFile.identity(path)) }
    do throws(SystemError) {
      for (index, address) in bound.addresses.enumerated() {
        guard let socket = bound.take(index) else { continue }
        listeners.append(try Listener(socket, at: address, on: loop, owner: owner))
      }
    } catch {
      close()
      throw .system("\(error)")
    }
  }

  var isEmpty: Bool { listeners.isEmpty }

  /// Stops to listen, and removes the file unless it is another one by now.
  mutating func close() {
    for listener in listeners { listener.close() }
    listeners = []
    if let file { UnixSocketFile.remove(file.path, if: file.identity) }
    file = nil
  }

  /// There may be room for connections again.
  func acceptAgain() {
    for listener in listeners { listener.acceptAgain() }
  }
}
