internal import EventLoop

/// The second loop thread: relays that have become bulk go on here, so that their slices do not stand before
/// small messages. It is started with the first of them.
actor BulkWorker {
  /// What the hub is told, on the hub's loop thread.
  enum Report: Sendable {
    case needsVerdict(UInt64)
    case ended(UInt64, RelaySummary)
    /// The relay has left this thread, since its slices have become small.
    case quiet(UInt64, Transit)
  }

  nonisolated let loop: EventLoop
  private let core: Core

  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

  /// Starts the thread. `report` is called on it.
  init(report: @escaping @Sendable (Report) -> Void) throws(SystemError) {
    loop = try EventLoop()
    core = Core(RelayResources(loop: loop), report)
    try loop.start()
  }

  isolated deinit { loop.stop() }

  /// A relay on its way from one thread to another: between ``SocketRelay/detach()`` and
  /// ``SocketRelay/attach(to:owner:deviceWatcher:)`` nobody uses it, which makes `@unchecked` true.
  struct Transit: @unchecked Sendable {
    let relay: SocketRelay
  }

  nonisolated func adopt(_ transit: Transit) {
    perform { $0.adopt(transit.relay) }
  }

  nonisolated func deviceLost(_ identifier: UInt64) {
    perform { $0.relays[identifier]?.deviceLost() }
  }

  nonisolated func stop(_ identifier: UInt64) {
    perform { $0.relays[identifier]?.stop() }
  }

  nonisolated func verified(_ identifier: UInt64, _ end: DeviceEnd) {
    perform { $0.relays[identifier]?.deviceEndVerified(end) }
  }

  /// Calls `body` on the worker's thread, in its turn.
  nonisolated func whenAnswering(_ body: @escaping @Sendable () -> Void) { perform { _ in body() } }

  /// How things are on this thread.
  struct Snapshot: Sendable {
    let delivered: MovedBytes
    let turns: TurnTimes
  }

  /// Asked for, so that relays need not tell their progress.
  func snapshot() -> Snapshot {
    Snapshot(delivered: core.relays.mapValues(\.delivered), turns: loop.turns)
  }

  private nonisolated func perform(_ body: @escaping @Sendable (Core) -> Void) {
    loop.execute { self.assumeIsolated { body($0.core) } }
  }

  /// What lives on the worker's thread.
  final class Core: RelayOwner {
    private let resources: RelayResources
    private let report: @Sendable (Report) -> Void
    var relays: [UInt64: SocketRelay] = [:]

    init(_ resources: RelayResources, _ report: @escaping @Sendable (Report) -> Void) {
      self.resources = resources
      self.report = report
    }

    func adopt(_ relay: SocketRelay) {
      relays[relay.identifier] = relay
      relay.attach(to: resources, owner: self)
    }

    func relayNeedsVerdict(_ relay: SocketRelay) { report(.needsVerdict(relay.identifier)) }

    func relayIsBulk(_ relay: SocketRelay) { relay.goOn() }

    func relayIsQuiet(_ relay: SocketRelay) {
      relay.detach()
      relays[relay.identifier] = nil
      report(.quiet(relay.identifier, Transit(relay: relay)))
    }

    func relayEnded(_ relay: any Relay, _ summary: RelaySummary) {
      relays[relay.identifier] = nil
      report(.ended(relay.identifier, summary))
    }
  }
}
