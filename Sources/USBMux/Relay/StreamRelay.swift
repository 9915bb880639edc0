internal import EventLoop

/// A client's socket joined to a stream to a device, by the relay that suits the stream.
///
/// The one place that knows which relay that is, and on which thread it runs, for whoever accepted the client.
/// Where the stream itself does not tell how it ended, the transport is asked.
final class StreamRelay: RelayOwner {
  private let identifier: UInt64
  private let device: Device
  private unowned let hub: Hub
  private let ended: (RelaySummary) -> Void
  private var place: Place
  /// Set when the end of the stream must be verified with the daemon.
  private var epoch: UInt64?
  private var clientWatcher: Watcher?
  private var deviceWatcher: Watcher?
  /// When it went to the worker.
  private var deliveredBefore: (sent: UInt64, received: UInt64) = (0, 0)
  /// What the worker was told: the relay may have been on its way back by then.
  private var toldWorker = (deviceLost: false, stop: false)

  private enum Place {
    case sockets(SocketRelay)
    case session(SessionRelay)
    /// Between two sockets, on the worker's thread.
    case worker(BulkWorker)
    case over
  }

  /// Joins the two; nothing moves before ``start()``. The client's watcher goes over to the relay.
  ///
  /// `ended` is called once, when both sides are closed, perhaps from within ``start()`` or ``stop()``. It must
  /// not keep this object's owner alive.
  init(
    _ identifier: UInt64, client: consuming Descriptor, clientIsUnix: Bool, clientWatcher: Watcher?,
    to device: Device, over channel: consuming DeviceChannel, times: RelayTimes, tap: StreamTap?, hub: Hub,
    ended: @escaping (RelaySummary) -> Void
  ) {
    self.identifier = identifier
    self.device = device
    self.hub = hub
    self.ended = ended
    self.clientWatcher = clientWatcher
    place = .over
    switch consume channel {
    case .socket(let socket, let watcher, let epoch):
      self.epoch = epoch
      deviceWatcher = watcher
      place = .sockets(
        SocketRelay(
          identifier: identifier, client: client, clientIsUnix: clientIsUnix, device: socket,
          needsVerdict: epoch != nil, times: times, tap: tap, resources: hub.resources, owner: self))
    case .session(let opened):
      let relay = SessionRelay(
        identifier: identifier, client: client, clientIsUnix: clientIsUnix, link: opened.link,
        session: opened.session, times: times, tap: tap, resources: hub.resources, owner: self)
      opened.hand(over: relay)
      place = .session(relay)
    }
  }

  func start() {
    switch place {
    case .sockets(let relay):
      relay.attach(
        to: hub.resources, owner: self, clientWatcher: clientWatcher.take(),
        deviceWatcher: deviceWatcher.take())
    case .session(let relay): relay.start(clientWatcher.take())
    case .worker, .over: break
    }
  }

  /// Bytes delivered so far; `moved` is what the worker has told.
  func delivered(_ moved: MovedBytes) -> (sent: UInt64, received: UInt64) {
    switch place {
    case .sockets(let relay): relay.delivered
    case .session(let relay): relay.delivered
    case .worker: moved[identifier] ?? deliveredBefore
    case .over: (0, 0)
    }
  }

  /// The device is gone.
  func deviceLost() {
    switch place {
    case .sockets(let relay): relay.deviceLost()
    case .session(let relay): relay.deviceLost()
    case .worker(let worker):
      toldWorker.deviceLost = true
      worker.deviceLost(identifier)
    case .over: break
    }
  }

  /// Ends it now.
  func stop() {
    switch place {
    case .sockets(let relay): relay.stop()
    case .session(let relay): relay.stop()
    case .worker(let worker):
      toldWorker.stop = true
      worker.stop(identifier)
    case .over: break
    }
  }

  // MARK: The relay

  func relayNeedsVerdict(_ relay: SocketRelay) {
    askForVerdict { [weak relay] end in relay?.deviceEndVerified(end) }
  }

  private func askForVerdict(_ done: @escaping (DeviceEnd) -> Void) {
    guard let epoch else { return done(.clean) }
    hub.transport.verdict(on: device.id, epoch: epoch, done)
  }

  func relayIsBulk(_ relay: SocketRelay) {
    guard let worker = hub.bulkWorker() else { return relay.goOn() }
    relay.detach()
    deliveredBefore = relay.delivered
    place = .worker(worker)
    hub.moved(self, identifier)
    worker.adopt(BulkWorker.Transit(relay: relay))
  }

  func relayEnded(_ relay: any Relay, _ summary: RelaySummary) { finish(summary) }

  // MARK: The worker

  func workerNeedsVerdict() {
    guard case .worker(let worker) = place else { return }
    let identifier = identifier
    askForVerdict { worker.verified(identifier, $0) }
  }

  /// The relay is this thread's again.
  func workerReturns(_ relay: SocketRelay) {
    place = .sockets(relay)
    relay.attach(to: hub.resources, owner: self)
    if toldWorker.deviceLost { relay.deviceLost() }
    if toldWorker.stop { relay.stop() }
  }

  func finish(_ summary: RelaySummary) {
    if case .over = place { return }
    place = .over
    ended(summary)
  }
}
