internal import EventLoop

/// A running forward: its listeners, and what its connections need to know. Lives on the loop's thread.
final class ForwardState: ListenerOwner {
  let identifier: UInt64
  let local: ListenAddress
  let devicePort: DevicePort
  let options: ForwardOptions
  /// What the log calls it.
  let name: String
  private(set) var addresses: [SocketAddress] = []
  private unowned let hub: Hub
  private var listeners: [Listener] = []
  private var socketFile: (path: String, identity: UnixSocketFile.Identity?)?

  /// Binds and listens, or throws and leaves nothing bound.
  init(
    _ identifier: UInt64, _ local: ListenAddress, to devicePort: DevicePort, _ options: ForwardOptions,
    hub: Hub
  ) throws(MuxError) {
    self.identifier = identifier
    self.local = local
    self.devicePort = devicePort
    self.options = options
    self.hub = hub
    var bound = try BoundSockets(local)
    addresses = bound.addresses
    name = (addresses.first?.description ?? local.description) + " -> \(devicePort)"
    if case .unix(let path) = local { socketFile = (path, UnixSocketFile.identity(path)) }
    do throws(SystemError) {
      for (index, address) in addresses.enumerated() {
        guard let socket = bound.take(index) else { continue }
        listeners.append(try Listener(socket, at: address, on: hub.loop, owner: self))
      }
    } catch {
      close()
      throw .system("\(error)")
    }
  }

  /// Stops to listen. The connections go on.
  func close() {
    for listener in listeners { listener.close() }
    listeners = []
    if let socketFile { UnixSocketFile.remove(socketFile.path, if: socketFile.identity) }
    socketFile = nil
  }

  // MARK: Listeners

  var mayAccept: Bool { hub.mayAccept }

  func accepted(_ client: consuming Descriptor, isUnix: Bool) {
    hub.accepted(client, isUnix: isUnix, by: self)
  }

  func cannotAccept(_ error: SystemError) { hub.cannotAccept(error) }

  func acceptAgain() {
    for listener in listeners { listener.acceptAgain() }
  }
}
