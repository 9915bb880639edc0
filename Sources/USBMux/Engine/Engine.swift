package import EventLoop
internal import Synchronization

/// The isolation of everything that lives on the loop's thread: an actor whose executor is the loop.
///
/// The objects behind ``Hub`` are ordinary classes. They are reached through this actor, or from the loop's
/// own callbacks, which run on the same thread.
package actor Engine {
  package nonisolated let loop: EventLoop
  private let hub: Hub
  private var pending: [UInt64: PendingOpen] = [:]
  private var lastPending: UInt64 = 0
  private var eventStreams:
    [EventToken: (identifier: UInt64, continuation: AsyncStream<DeviceEvent>.Continuation)] = [:]
  private var isStopped = false
  /// By ``stop(drain:)``, as opposed to ``muxIsGone()``, which leaves streams their way.
  private var isShutDown = false

  package nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

  init(loop: EventLoop, configuration: Mux.Configuration) throws(MuxError) {
    self.loop = loop
    let log = Log(level: configuration.logLevel, on: loop, handler: configuration.logHandler)
    let transport = try configuration.transport.make(on: loop, log: log)
    let mailbox = WorkerMailbox()
    hub = Hub(
      loop: loop, log: log, transport: transport, maximumConnections: configuration.maximumConnections,
      capture: configuration.capture
    ) { report in mailbox.deliver(report, on: loop) }
    mailbox.engine = self
  }

  /// The objects behind the hub have handles of the loop, so they go on its thread, and it ends after them.
  isolated deinit {
    hub.stop(drain: 0) {}
    loop.stop()
  }

  fileprivate func take(_ report: BulkWorker.Report) { hub.take(report) }

  func start() { hub.start() }

  // MARK: Devices

  func devices() async -> Result<[Device], MuxError> {
    await withCheckedContinuation { continuation in
      hub.whenReady { [hub] in
        if hub.isStopped {
          continuation.resume(returning: .failure(.closed))
        } else if let failure = hub.transport.failure, hub.transport.devices.isEmpty {
          continuation.resume(returning: .failure(failure))
        } else {
          continuation.resume(returning: .success(hub.transport.devices))
        }
      }
    }
  }

  /// Tells `continuation` what happens to devices until ``unsubscribe(_:)``, or to the end.
  func subscribe(_ token: EventToken, _ continuation: AsyncStream<DeviceEvent>.Continuation) {
    guard !isStopped else { return continuation.finish() }
    let identifier = hub.subscribe { continuation.yield($0) }
    eventStreams[token] = (identifier, continuation)
  }

  nonisolated func watchDevices(_ body: @escaping @Sendable (DeviceEvent) -> Void) {
    loop.execute { self.assumeIsolated { _ = $0.hub.subscribe(body) } }
  }

  func unsubscribe(_ token: EventToken) {
    guard let stream = eventStreams.removeValue(forKey: token) else { return }
    hub.unsubscribe(stream.identifier)
  }

  // MARK: Streams

  func connect(
    to selector: DeviceSelector, port: DevicePort, wait: Duration, timeout: Duration
  ) async -> Result<DeviceStream, MuxError> {
    lastPending &+= 1
    let identifier = lastPending
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        guard !Task.isCancelled, !isStopped else { return continuation.resume(returning: .failure(.closed)) }
        let open = PendingOpen(
          selector, port: port, wait: wait.nanosecondsOfLoop, timeout: timeout.nanosecondsOfLoop, hub: hub
        ) { result in
          self.pending[identifier] = nil
          continuation.resume(returning: self.stream(result))
        }
        pending[identifier] = open
        open.start()
      }
    } onCancel: {
      Task { await self.cancel(identifier) }
    }
  }

  private func cancel(_ identifier: UInt64) { pending[identifier]?.fail(.closed) }

  private func stream(_ result: Result<OpenedSocket, MuxError>) -> Result<DeviceStream, MuxError> {
    switch result {
    case .success(let opened):
      do throws(SystemError) {
        return .success(try DeviceStream(opened, engine: self))
      } catch {
        forget(opened.end)
        return .failure(.system("\(error)"))
      }
    case .failure(let error): return .failure(error)
    }
  }

  /// What an end that is no clean one is to a caller: a device to which the way was shut down is not lost.
  var lossOfStream: MuxError { isShutDown ? .closed : .deviceGone }

  /// How a stream whose socket has ended came to it.
  func explain(_ end: StreamEnd, on device: DeviceID, socketFailed: Bool) async -> DeviceEnd {
    switch end {
    case .plain: return socketFailed ? .reset : .clean
    case .bridge(let identifier): return hub.bridgeEnd(identifier)
    case .daemon(let epoch):
      return await withCheckedContinuation { continuation in
        hub.transport.verdict(on: device, epoch: epoch) { continuation.resume(returning: $0) }
      }
    }
  }

  /// The stream asks nothing any more.
  func forget(_ end: StreamEnd) {
    if case .bridge(let identifier) = end { hub.forgetBridge(identifier) }
  }

  // MARK: Forwards

  func forward(
    _ local: ListenAddress, to port: DevicePort, _ options: ForwardOptions
  ) throws(MuxError) -> Forward {
    let state = try hub.addForward(local, to: port, options)
    return Forward(
      identifier: state.identifier, devicePort: port,
      endpoints: state.addresses.map {
        Forward.Endpoint(host: $0.host, port: $0.isUnix ? nil : $0.port)
      },
      engine: self)
  }

  func remove(_ forward: UInt64) { hub.removeForward(forward) }

  func change(_ forward: UInt64, to port: DevicePort, _ options: ForwardOptions) {
    hub.changeForward(forward, to: port, options)
  }

  // MARK: Status

  func status() async -> MuxStatus {
    let worker = await hub.worker?.snapshot()
    return hub.status(worker: worker)
  }

  func setLogLevel(_ level: LogLevel) { hub.log.level = level }

  // MARK: Servers

  func serve(_ local: ListenAddress, _ options: ServerOptions) throws(MuxError) -> UsbmuxdServer {
    let state = try hub.addServer(local, options)
    return UsbmuxdServer(
      identifier: state.identifier,
      endpoints: state.addresses.map { Forward.Endpoint(host: $0.host, port: $0.isUnix ? nil : $0.port) },
      engine: self)
  }

  func removeServer(_ server: UInt64) { hub.removeServer(server) }

  // MARK: Health

  nonisolated func whenAnswering(_ body: @escaping @Sendable () -> Void) {
    loop.execute { self.assumeIsolated { $0.hub.whenAnswering(body) } }
  }

  // MARK: Ending

  /// Nobody has the ``Mux`` any more. Streams that callers hold go on, and with them the way to their devices.
  func muxIsGone() {
    finish()
    hub.stopServing()
  }

  func stop(drain: Duration) async {
    isShutDown = true
    finish()
    await withCheckedContinuation { continuation in
      hub.stop(drain: drain.nanosecondsOfLoop) { continuation.resume() }
    }
  }

  private func finish() {
    isStopped = true
    for open in pending.values { open.fail(.closed) }
    for stream in eventStreams.values { stream.continuation.finish() }
  }
}

/// Names one stream of device events.
final class EventToken: Hashable, Sendable {
  static func == (left: EventToken, right: EventToken) -> Bool { left === right }
  func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// The way of the worker's reports to the engine, which the worker must not keep alive.
private final class WorkerMailbox: Sendable {
  private let stored = Mutex<WeakEngine>(WeakEngine())

  private struct WeakEngine {
    weak var engine: Engine?
  }

  var engine: Engine? {
    get { stored.withLock { $0.engine } }
    set { stored.withLock { $0.engine = newValue } }
  }

  func deliver(_ report: BulkWorker.Report, on loop: EventLoop) {
    loop.execute { [weak self] in
      guard let engine = self?.engine else { return }
      engine.assumeIsolated { $0.take(report) }
    }
  }
}
