internal import EventLoop

/// A running forward: its listeners, and what its connections need to know. Lives on the loop's thread.
final class ForwardState: ListenerOwner {
  let identifier: UInt64
  let local: ListenAddress
  private(set) var devicePort: DevicePort
  private(set) var options: ForwardOptions
  /// Connections that are open, or on their way to it.
  private(set) var connectionCount = 0
  private(set) var acceptedCount: UInt64 = 0
  private(set) var addresses: [SocketAddress] = []
  private unowned let hub: Hub
  private var listeners = ListenerSet()

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
    listeners = try ListenerSet(&bound, at: local, on: hub.loop, owner: self)
  }

  /// What the log calls it.
  var name: String { "\(addresses.first?.description ?? local.description) -> \(devicePort)" }

  /// Leads elsewhere from now on. Connections that have their stream keep it.
  func change(to devicePort: DevicePort, _ options: ForwardOptions) {
    self.devicePort = devicePort
    self.options = options
    acceptAgain()
  }

  /// Stops to listen. The connections go on.
  func close() { listeners.close() }

  // MARK: Listeners

  private var isFull: Bool { connectionCount >= options.maximumConnections ?? .max }

  var mayAccept: Bool {
    guard isFull else { return hub.mayAccept }
    hub.log.limited(
      .warning, topic: "\(identifier) limit",
      "\(name): \(connectionCount) connections are open, which is its limit: others wait until one ends")
    return false
  }

  /// A connection of this forward has ended.
  func connectionEnded() {
    let wasFull = isFull
    connectionCount -= 1
    if wasFull { acceptAgain() }
  }

  func accepted(_ client: consuming Descriptor, isUnix: Bool) {
    connectionCount += 1
    acceptedCount &+= 1
    hub.accepted(client, isUnix: isUnix, by: self)
  }

  func cannotAccept(_ error: SystemError) { hub.cannotAccept(error) }

  func acceptAgain() { listeners.acceptAgain() }
}
