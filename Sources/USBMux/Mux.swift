package import EventLoop

/// The way to the devices: lists them, opens streams to their ports, and forwards local ports to these.
///
/// ```swift
/// let mux = try Mux()
/// let forward = try await mux.forward(.localhost(port: 0), to: DevicePort(8765)!)
/// // http://127.0.0.1:<forward.port>/ now reaches port 8765 on the device's loopback.
/// ```
///
/// One thread of its own does all the work; the methods can be called from any task. When the last reference
/// goes, so do its forwards; streams that are still held go on.
public final class Mux: Sendable {
  /// What a ``Mux`` is made with.
  public struct Configuration: Sendable {
    /// The way to the devices.
    public var transport: TransportChoice
    /// The least important lines that ``logHandler`` gets.
    public var logLevel: LogLevel
    /// Receives the log. It is called on the thread that does the work and must not block.
    public var logHandler: LogHandler?
    /// Connections that may be open at a time over all forwards; nil: as many as the descriptors allow.
    public var maximumConnections: Int?
    /// Follows the streams of forwards and of served programs. Not the library's: a stream through a usbmuxd is the
    /// caller's own from the beginning.
    package var capture: Capture?

    /// The defaults: the standard daemon, no log.
    public init(
      transport: TransportChoice = .automatic, logLevel: LogLevel = .notice, logHandler: LogHandler? = nil,
      maximumConnections: Int? = nil
    ) {
      self.transport = transport
      self.logLevel = logLevel
      self.logHandler = logHandler
      self.maximumConnections = maximumConnections
    }
  }

  private let engine: Engine

  /// Starts the thread, and looks for devices from now on.
  ///
  /// - Throws: ``MuxError/system(_:)`` when there is no thread or descriptor for it, and
  ///   ``MuxError/noDaemon(address:reason:)`` when `USBMUXD_SOCKET_ADDRESS` cannot be understood. A daemon that
  ///   does not run is no error here: it may come later.
  public convenience init(_ configuration: Configuration = Configuration()) throws(MuxError) {
    try self.init(configuration) { (loop: EventLoop) throws(SystemError) in try loop.start() }
  }

  /// `start` gives the loop a thread.
  convenience init(
    _ configuration: Configuration, start: (EventLoop) throws(SystemError) -> Void
  ) throws(MuxError) {
    let loop = try EventLoop.make()
    try self.init(configuration, on: loop)
    do throws(SystemError) {
      try start(loop)
    } catch {
      loop.abandon()
      throw .system("\(error)")
    }
  }

  /// Works on a loop that the caller runs.
  package init(_ configuration: Configuration, on loop: EventLoop) throws(MuxError) {
    let engine = try Engine(loop: loop, configuration: configuration)
    self.engine = engine
    loop.execute { engine.assumeIsolated { $0.start() } }
  }

  deinit {
    let engine = engine
    engine.loop.execute { engine.assumeIsolated { $0.muxIsGone() } }
  }

  /// The devices that are there now, in the order in which they came.
  ///
  /// - Throws: ``MuxError/noDaemon(address:reason:)``, ``MuxError/permissionDenied(what:remedy:)`` or
  ///   ``MuxError/protocolViolation(_:)`` when nothing is known because the daemon cannot be reached.
  public func devices() async throws(MuxError) -> [Device] {
    try await engine.devices().get()
  }

  /// What happens to devices: first, that each one that is there is attached, then every change.
  ///
  /// The sequence never fails: while there is no daemon there is nothing to tell. It ends with ``shutdown(drain:)``,
  /// and when this object goes. It holds at most 1,024 events for a reader that is slow; older ones are dropped
  /// then.
  public func deviceEvents() -> AsyncStream<DeviceEvent> {
    let (stream, continuation) = AsyncStream.makeStream(
      of: DeviceEvent.self, bufferingPolicy: .bufferingNewest(1024))
    let engine = engine
    let token = EventToken()
    engine.loop.execute { engine.assumeIsolated { $0.subscribe(token, continuation) } }
    // Nobody has the stream yet, so it cannot end before this is set, and is taken back behind the above.
    continuation.onTermination = { [weak engine] _ in
      guard let engine else { return }
      engine.loop.execute { engine.assumeIsolated { $0.unsubscribe(token) } }
    }
    return stream
  }

  /// Opens a stream to a port on a device's loopback.
  ///
  /// - Parameters:
  ///   - device: Which device; the only one on USB by default.
  ///   - port: The port on the device, 1...65535.
  ///   - wait: How long to wait for the device to be there; zero: it must be there now.
  ///   - timeout: How long the device may take to accept.
  /// - Returns: The stream. It is closed when its last reference goes.
  /// - Throws: ``MuxError``: each case but `cannotListen` can occur; `closed` when the task is cancelled.
  public func connect(
    to device: DeviceSelector = DeviceSelector(), port: DevicePort, wait: Duration = .zero,
    timeout: Duration = .seconds(10)
  ) async throws(MuxError) -> DeviceStream {
    try await engine.connect(to: device, port: port, wait: wait, timeout: timeout).get()
  }

  /// Listens on a local address and carries every connection to a port on the device's loopback, until
  /// ``Forward/stop()`` is called or this object goes.
  ///
  /// The listener is there when this returns, whether or not a device or a daemon is.
  ///
  /// - Throws: ``MuxError/cannotListen(address:_:reason:)``; nothing is bound then.
  public func forward(
    _ local: ListenAddress, to port: DevicePort, options: ForwardOptions = ForwardOptions()
  ) async throws(MuxError) -> Forward {
    try await engine.forward(local, to: port, options)
  }

  /// Lets a forward's new connections lead elsewhere; its listeners and the streams that are open stay.
  package func change(_ forward: Forward, to port: DevicePort, options: ForwardOptions) async {
    await engine.change(forward.identifier, to: port, options)
  }

  /// Devices, connections and counters.
  package func status() async -> MuxStatus { await engine.status() }

  /// The least important lines that the log handler gets from now on.
  package func setLogLevel(_ level: LogLevel) async { await engine.setLogLevel(level) }

  /// Serves the devices to other programs as a usbmuxd would, on a Unix socket or on a loopback address, until
  /// ``UsbmuxdServer/stop()`` is called or this object goes.
  ///
  /// - Throws: ``MuxError/cannotListen(address:_:reason:)``; nothing is bound then.
  public func serve(
    _ local: ListenAddress, options: ServerOptions = ServerOptions()
  ) async throws(MuxError) -> UsbmuxdServer {
    try await engine.serve(local, options)
  }

  /// As ``deviceEvents()``, for as long as this object lives, by calls on the loop's thread: an asynchronous
  /// sequence starts threads of the global executor.
  package func watchDevices(_ body: @escaping @Sendable (DeviceEvent) -> Void) { engine.watchDevices(body) }

  /// Calls `body`, on any thread, once all threads that move bytes have answered; never, when one hangs.
  package func whenAnswering(_ body: @escaping @Sendable () -> Void) { engine.whenAnswering(body) }

  /// Stops to listen at once, lets open connections of forwards end by themselves for at most `drain`, and resets
  /// the others. Nothing can be opened afterwards: all methods throw ``MuxError/closed``.
  ///
  /// Streams that were opened are their callers'. Those over USB or to simulated phones end with the way to the
  /// device (``MuxError/closed``). Those through a usbmuxd go on until they are closed; when one ends otherwise, nobody
  /// asks the daemon any more whether the app closed it or the device was lost, and it is ``MuxError/closed`` too.
  public func shutdown(drain: Duration = .zero) async {
    await engine.stop(drain: drain)
  }
}

extension EventLoop {
  static func make() throws(MuxError) -> EventLoop {
    do throws(SystemError) {
      return try EventLoop()
    } catch {
      throw .system("\(error)")
    }
  }
}
