internal import CSystem
internal import EventLoop

/// The root of all that lives on one loop thread: the transport, the forwards, their connections.
final class Hub: TransportObserver {
  let loop: EventLoop
  let log: Log
  let transport: any Transport
  let resources: RelayResources
  /// Follows the streams; nil: none does.
  let capture: Capture?
  private(set) var forwards: [UInt64: ForwardState] = [:]
  private(set) var connections: [UInt64: ClientConnection] = [:]
  private(set) var servers: [UInt64: ServerState] = [:]
  var statistics = Statistics()
  private var lastIdentifier: UInt64 = 0
  private let maximumConnections: Int
  private var acceptPause: LoopTimer?
  private var stage = Stage.running
  private var stopTimer: LoopTimer?
  private var drainDeadline: Int64 = 0
  private var whenStopped: [() -> Void] = []
  private var subscribers: [UInt64: (DeviceEvent) -> Void] = [:]
  private var readyWaiters: [() -> Void] = []
  private var bridges: [UInt64: StreamBridge] = [:]
  private(set) var worker: BulkWorker?
  private var movedRelays: [UInt64: StreamRelay] = [:]
  /// When a worker may be tried to be made again.
  private var nextWorkerTry: Int64 = 0
  /// Brings a report of the worker to ``take(_:)`` on this thread.
  private let reportFromWorker: @Sendable (BulkWorker.Report) -> Void

  /// Descriptors that are not connections': the loop's own, listeners, the Listen connection, questions.
  private static let reservedDescriptors: UInt64 = 32
  /// Descriptors of one connection: the client's and the device's.
  private static let descriptorsPerConnection: UInt64 = 2
  /// How long accepting pauses when the system is out of descriptors and no connection ends.
  private static let acceptPauseTime: Int64 = 100_000_000

  /// For the worker's thread to end its relays, nanoseconds. It takes no time unless that thread hangs.
  private static let workerGrace: Int64 = 1_000_000_000
  /// After a worker could not be made, nanoseconds. Not with each connection: some versions of libuv (1.44)
  /// leave a descriptor behind when there are too few for a loop.
  private static let workerPause: Int64 = 60_000_000_000

  init(
    loop: EventLoop, log: Log, transport: any Transport, maximumConnections: Int?, capture: Capture? = nil,
    reportFromWorker: @escaping @Sendable (BulkWorker.Report) -> Void
  ) {
    self.reportFromWorker = reportFromWorker
    self.loop = loop
    self.log = log
    self.transport = transport
    self.capture = capture
    resources = RelayResources(loop: loop)
    let limit = cs_raise_descriptor_limit()
    let room =
      limit > Self.reservedDescriptors
      ? (limit - Self.reservedDescriptors) / Self.descriptorsPerConnection : 1
    self.maximumConnections = min(maximumConnections ?? .max, Int(clamping: max(room, 1)))
    transport.observer = self
  }

  func start() { transport.start() }

  /// Whether nothing new may be begun.
  var isStopped: Bool { stage > .running }

  /// For a forward, a server or a connection; in the log it names the latter.
  func nextIdentifier() -> UInt64 {
    lastIdentifier &+= 1
    return lastIdentifier
  }

  // MARK: Forwards

  func addForward(
    _ local: ListenAddress, to port: DevicePort, _ options: ForwardOptions
  ) throws(MuxError) -> ForwardState {
    guard !isStopped else { throw .closed }
    let forward = try ForwardState(nextIdentifier(), local, to: port, options, hub: self)
    forwards[forward.identifier] = forward
    log.write(.info, "listening: \(forward.name)")
    return forward
  }

  /// Lets new connections of a forward lead elsewhere.
  func changeForward(_ identifier: UInt64, to port: DevicePort, _ options: ForwardOptions) {
    forwards[identifier]?.change(to: port, options)
  }

  /// Stops to listen, and ends the forward's connections.
  func removeForward(_ identifier: UInt64) {
    guard let forward = forwards.removeValue(forKey: identifier) else { return }
    forward.close()
    for connection in connections.values where connection.forward === forward { connection.stop() }
  }

  // MARK: Servers

  func addServer(_ local: ListenAddress, _ options: ServerOptions) throws(MuxError) -> ServerState {
    guard !isStopped else { throw .closed }
    let server = try ServerState(nextIdentifier(), local, options, hub: self)
    servers[server.identifier] = server
    log.write(.info, "listening: \(server.name)")
    return server
  }

  /// Stops to listen, and ends the server's connections.
  func removeServer(_ identifier: UInt64) {
    guard let server = servers[identifier] else { return }
    server.close()
    server.stop()
    // The end of a relay on another thread takes a little longer.
    if server.clientCount == 0 { servers[identifier] = nil }
  }

  /// A client of a server has ended; it may have been one that kept others waiting.
  func clientEnded(of server: ServerState, wasFull: Bool) {
    if server.isClosed && server.clientCount == 0 { servers[server.identifier] = nil }
    connectionsChanged(wasFull: wasFull)
  }

  // MARK: Connections

  /// Connections of forwards and of servers, which cost the same.
  private var openConnections: Int { servers.values.reduce(connections.count) { $0 + $1.clientCount } }

  /// Whether a connection that ends makes room for one that waits.
  var isFull: Bool { openConnections >= maximumConnections || acceptPause != nil }

  var mayAccept: Bool {
    let open = openConnections
    if open < maximumConnections { return acceptPause == nil }
    log.limited(
      .warning, topic: "limit",
      "\(open) connections are open, which is the limit: others wait until one ends")
    return false
  }

  func accepted(_ client: consuming Descriptor, isUnix: Bool, by forward: ForwardState) {
    let connection = ClientConnection(
      nextIdentifier(), client: client, isUnix: isUnix, forward: forward, hub: self)
    connections[connection.identifier] = connection
    statistics.accepted &+= 1
    connection.proceed()
  }

  func cannotAccept(_ error: SystemError) {
    if error.isExhaustion {
      log.limited(
        .warning, topic: "descriptors",
        "no descriptor for another connection (\(error.message)): accepting pauses until one is free")
    } else {
      log.limited(
        .warning, topic: "accepting", "connections cannot be accepted (\(error.message)): this is tried again"
      )
    }
    guard acceptPause == nil else { return }
    acceptPause = LoopTimer(on: loop) { [unowned self] in acceptAgain() }
    acceptPause?.set(after: Self.acceptPauseTime)
  }

  private func acceptAgain() {
    acceptPause = nil
    for forward in forwards.values { forward.acceptAgain() }
    for server in servers.values { server.acceptAgain() }
  }

  func connectionEnded(_ connection: ClientConnection) {
    let wasFull = isFull
    connections[connection.identifier] = nil
    connection.forward.connectionEnded()
    connectionsChanged(wasFull: wasFull)
  }

  private func connectionsChanged(wasFull: Bool) {
    if openConnections == 0 {
      switch stage {
      case .draining: return endConnections()
      case .awaitingWorker: return hasEnded()
      case .running, .closed, .ending, .ended: break
      }
    }
    if wasFull { acceptAgain() }
  }

  /// The thread for bulk relays; nil where there can be none, so that they stay on this one.
  func bulkWorker() -> BulkWorker? {
    if let worker { return worker }
    guard loop.now >= nextWorkerTry else { return nil }
    worker = try? BulkWorker(report: reportFromWorker)
    nextWorkerTry = loop.now + Self.workerPause
    return worker
  }

  /// Calls `body` when the worker's thread, where there is one, answers as this one does.
  func whenAnswering(_ body: @escaping @Sendable () -> Void) {
    if let worker { worker.whenAnswering(body) } else { body() }
  }

  /// The relay runs on the worker's thread from now on; reports about it go to `stream`.
  func moved(_ stream: StreamRelay, _ identifier: UInt64) { movedRelays[identifier] = stream }

  func take(_ report: BulkWorker.Report) {
    switch report {
    case .needsVerdict(let identifier): movedRelays[identifier]?.workerNeedsVerdict()
    case .ended(let identifier, let summary): movedRelays.removeValue(forKey: identifier)?.finish(summary)
    case .quiet(let identifier, let transit):
      movedRelays.removeValue(forKey: identifier)?.workerReturns(transit.relay)
    }
  }

  // MARK: Devices

  func attached(_ device: Device) {
    log.write(.notice, "device \(device.udid) is attached (\(device.isUSB ? "USB" : "network"))")
    for subscriber in subscribers.values { subscriber(.attached(device)) }
    for connection in connections.values where connection.isWaiting { connection.proceed() }
  }

  func detached(_ device: Device) {
    log.write(.notice, "device \(device.udid) is gone (\(device.isUSB ? "USB" : "network"))")
    for subscriber in subscribers.values { subscriber(.detached(device)) }
    for connection in connections.values where connection.device?.id == device.id { connection.deviceLost() }
  }

  func transportChanged() {
    if let failure = transport.failure { log.limited(.warning, topic: "transport", "\(failure)") }
    guard transport.isReady else { return }
    let waiters = readyWaiters
    readyWaiters = []
    for waiter in waiters { waiter() }
    for connection in connections.values where connection.isWaiting { connection.proceed() }
  }

  /// Calls back when the list of devices is complete, or why there is none is known, or at the end.
  func whenReady(_ body: @escaping () -> Void) {
    if transport.isReady || isStopped { body() } else { readyWaiters.append(body) }
  }

  /// Tells the devices that are there, and then all changes, until ``unsubscribe(_:)``.
  func subscribe(_ subscriber: @escaping (DeviceEvent) -> Void) -> UInt64 {
    let identifier = nextIdentifier()
    subscribers[identifier] = subscriber
    for device in transport.devices { subscriber(.attached(device)) }
    return identifier
  }

  func unsubscribe(_ identifier: UInt64) { subscribers[identifier] = nil }

  // MARK: Streams of the library

  /// Joins a session to a socket pair; returns the caller's end, and the bridge's number.
  func bridge(_ opened: OpenedSession) throws(MuxError) -> (CInt, UInt64) {
    let identifier = nextIdentifier()
    let (ours, theirs) = try SocketPair().split()
    let bridge = StreamBridge(identifier, Descriptor(owning: ours), opened, resources)
    bridge.done = { [unowned self] in bridges[identifier] = nil }
    bridges[identifier] = bridge
    return (theirs, identifier)
  }

  /// How the device's side of a bridge ended.
  func bridgeEnd(_ identifier: UInt64) -> DeviceEnd { bridges[identifier]?.end ?? .reset }

  func forgetBridge(_ identifier: UInt64) { bridges[identifier]?.callerLeaves() }

  // MARK: Ending

  /// Ends everything but the transport and the streams of the library's callers, at once.
  func stopServing() {
    stage = max(stage, .closed)
    for forward in forwards.values { forward.close() }
    for server in servers.values { server.close() }
    for connection in connections.values { connection.stop() }
    for server in servers.values { server.stop() }
    let waiters = readyWaiters
    readyWaiters = []
    for waiter in waiters { waiter() }
  }

  /// Stops to listen at once; lets the connections end by themselves for at most `nanoseconds`, then resets
  /// them. `done` is called when the last one has ended; a later call may only shorten the time of an earlier one.
  func stop(drain nanoseconds: Int64, _ done: @escaping () -> Void) {
    guard stage != .ended else { return done() }
    whenStopped.append(done)
    guard stage < .ending else { return }
    for forward in forwards.values { forward.close() }
    for server in servers.values { server.close() }
    guard openConnections > 0, nanoseconds > 0 else { return endConnections() }
    let deadline = loop.now + nanoseconds
    guard stage < .draining || deadline < drainDeadline else { return }
    stage = .draining
    drainDeadline = deadline
    stopTimer = LoopTimer(on: loop) { [unowned self] in endConnections() }
    stopTimer?.set(after: nanoseconds)
  }

  private func endConnections() {
    stage = .ending
    stopServing()
    transport.stop()
    guard openConnections > 0 else { return hasEnded() }
    // Those on the worker's thread end there, in a moment.
    stage = .awaitingWorker
    stopTimer = LoopTimer(on: loop) { [unowned self] in hasEnded() }
    stopTimer?.set(after: Self.workerGrace)
  }

  private func hasEnded() {
    stage = .ended
    stopTimer = nil
    forwards = [:]
    servers = [:]
    let waiting = whenStopped
    whenStopped = []
    for done in waiting { done() }
  }
}

extension Hub {
  /// How far the end has come.
  fileprivate enum Stage: Int, Comparable {
    case running
    /// Nothing new is begun.
    case closed
    /// Connections may end by themselves.
    case draining
    case ending
    /// The worker has been told to end its relays.
    case awaitingWorker
    case ended

    static func < (left: Stage, right: Stage) -> Bool { left.rawValue < right.rawValue }
  }
}
