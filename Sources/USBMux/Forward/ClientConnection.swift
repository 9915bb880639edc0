internal import EventLoop

/// One connection of a local client: it waits for its device, opens a stream to it, and is relayed.
///
/// The client is shown a reset for everything that keeps it from the device, never a clean end.
final class ClientConnection: OpenHandler, ReadinessHandler {
  /// A device that the daemon did not know is chosen once more.
  private static let reopens = 1

  /// Stands in all lines of the log that are about this connection.
  let identifier: UInt64
  /// The forward that accepted it.
  let forward: ForwardState
  /// The forward may lead elsewhere by now.
  private var devicePort: DevicePort
  private let isUnix: Bool
  private unowned let hub: Hub
  private var client: Descriptor?
  /// Tells when the client leaves before its relay is there, which takes it over.
  private var watcher: Watcher?
  private var state = State.new
  /// Until the relay has it.
  private var tap: StreamTap?
  /// The device that was chosen last.
  private(set) var device: Device?
  private var reopensLeft = ClientConnection.reopens
  private let start: Int64
  private var deadline: Int64

  private enum State {
    case new
    /// For a device that can be chosen.
    case waiting(LoopTimer)
    /// For the transport to look at its devices again.
    case refreshing
    case opening(any OpenAttempt)
    case relaying(StreamRelay)
    case over
  }

  init(
    _ identifier: UInt64, client: consuming Descriptor, isUnix: Bool, forward: ForwardState, hub: Hub
  ) {
    self.identifier = identifier
    self.isUnix = isUnix
    self.forward = forward
    devicePort = forward.devicePort
    self.hub = hub
    start = hub.loop.now
    deadline = start + forward.options.wait.nanosecondsOfLoop
    let number = client.number
    self.client = consume client
    watcher = try? Watcher(number, on: hub.loop, handler: self)
  }

  /// Begins, or goes on when a device has come.
  func proceed() {
    switch state {
    case .new, .waiting, .refreshing: break
    case .opening, .relaying, .over: return
    }
    // Before all devices are known, the one that is may not be the only one.
    guard hub.transport.isReady else { return wait(.noSuchDevice(wanted: nil)) }
    do throws(MuxError) {
      let device = try forward.options.device.choose(from: hub.transport.devices)
      self.device = device
      devicePort = forward.devicePort
      stopWaiting()
      if let number = client?.number {
        tap = hub.capture?.tap(identifier, client: number, isUnix: isUnix, to: device, port: devicePort)
      }
      state = .opening(
        hub.transport.open(
          device, port: devicePort, timeout: forward.options.connectTimeout.nanosecondsOfLoop, self))
    } catch {
      // Waiting makes no two devices one.
      if case .ambiguousDevice = error { return fail(error) }
      wait(error)
    }
  }

  /// Whether it waits for a device.
  var isWaiting: Bool {
    if case .waiting = state { true } else { false }
  }

  private func wait(_ error: MuxError) {
    if case .waiting = state { return }
    let left = deadline - hub.loop.now
    guard left > 0 else { return fail(hub.transport.failure ?? error) }
    let timer = LoopTimer(on: hub.loop) { [unowned self] in
      fail(hub.transport.failure ?? currentProblem() ?? error)
    }
    timer.set(after: left)
    state = .waiting(timer)
    hub.transport.lookNow()
  }

  private func stopWaiting() {
    if case .waiting(let timer) = state { timer.clear() }
  }

  private func currentProblem() -> MuxError? {
    do throws(MuxError) {
      _ = try forward.options.device.choose(from: hub.transport.devices)
      return nil
    } catch {
      return error
    }
  }

  /// A client that leaves before its device is there is not worth a connection on the phone, unless it sent
  /// something first.
  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    guard let number = client?.number, readiness.contains(.hangUp) else { return }
    let hasLeft =
      readiness.contains(.broken)
      || (hub.resources.presence.isGone(number) && Socket.isAtEnd(number))
    guard hasLeft else { return }
    hub.log.write(.info, connection: identifier, "the client left before the device answered")
    if case .opening(let attempt) = state { attempt.cancel() }
    end(resets: true)
  }

  // MARK: Opening

  func opened(_ channel: consuming DeviceChannel) {
    guard case .opening = state, let device, let client = client.take() else { return }
    var times = RelayTimes()
    times.halfClose = forward.options.halfCloseTimeout.nanosecondsOfLoop
    tap?.accepted()
    let relay = StreamRelay(
      identifier, client: client, clientIsUnix: isUnix, clientWatcher: watcher.take(), to: device,
      over: channel, times: times, tap: tap.take(), hub: hub
    ) { [unowned self] in relayEnded($0) }
    state = .relaying(relay)
    hub.statistics.opened &+= 1
    hub.log.write(
      .info, connection: identifier, "open: \(forward.name) -> \(device.udid):\(devicePort)")
    relay.start()
  }

  func openFailed(_ error: OpenError) {
    guard case .opening = state else { return }
    tap.take()?.failed(error)
    switch error {
    case .unknownDevice:
      guard reopensLeft > 0 else { return fail(.deviceGone) }
      reopensLeft -= 1
      state = .refreshing
      hub.transport.refresh { [weak self] in self?.proceed() }
    case .failed(let error):
      // A daemon that has just gone may be back within the time that the client is willing to wait.
      if case .noDaemon = error {
        state = .new
        return wait(error)
      }
      fail(error)
    }
  }

  private func fail(_ error: MuxError) {
    hub.statistics.failed(error)
    hub.log.limited(
      .warning, topic: "\(forward.identifier) \(error)", connection: identifier, "\(forward.name): \(error)")
    end(resets: true)
  }

  // MARK: Relaying

  private func relayEnded(_ summary: RelaySummary) {
    hub.statistics.ended(summary)
    if summary.reason == .deviceLost {
      hub.log.limited(
        .warning, topic: "\(forward.identifier) lost", connection: identifier,
        "\(forward.name): \(MuxError.deviceGone)")
    }
    hub.log.write(
      .info, connection: identifier,
      "\(summary.reason): \(summary.sent) bytes sent, \(summary.received) received")
    end(resets: false)
  }

  /// Its device is gone.
  func deviceLost() {
    switch state {
    case .relaying(let relay): relay.deviceLost()
    case .opening(let attempt):
      // The same phone may be back in time.
      attempt.cancel()
      tap.take()?.abandoned()
      state = .new
      proceed()
    case .new, .waiting, .refreshing, .over: break
    }
  }

  /// tunneld ends it.
  func stop() {
    switch state {
    case .relaying(let relay): relay.stop()
    case .opening(let attempt):
      attempt.cancel()
      end(resets: true)
    case .new, .waiting, .refreshing: end(resets: true)
    case .over: break
    }
  }

  /// For a status; nil when it is over.
  func status(at now: Int64, _ moved: MovedBytes) -> MuxStatus.ConnectionStatus? {
    var bytes: (sent: UInt64, received: UInt64) = (0, 0)
    let shown: MuxStatus.ConnectionStatus.State
    switch state {
    case .new, .waiting, .refreshing: shown = .waiting
    case .opening: shown = .opening
    case .relaying(let relay):
      shown = .open
      bytes = relay.delivered(moved)
    case .over: return nil
    }
    return MuxStatus.ConnectionStatus(
      identifier: identifier, forward: forward.identifier, udid: device?.udid, port: devicePort, state: shown,
      age: .nanoseconds(now - start), sent: bytes.sent, received: bytes.received)
  }

  private func end(resets: Bool) {
    if case .over = state { return }
    stopWaiting()
    watcher.dropBeforeClose()
    state = .over
    tap.take()?.abandoned()
    if resets, let number = client?.number { Socket.resetOnClose(number) }
    client = nil
    hub.connectionEnded(self)
  }
}

extension Duration {
  /// For the loop's clock: whole nanoseconds, 0 for a negative time, and never so many that they cannot be added
  /// to the time that it is.
  var nanosecondsOfLoop: Int64 { min(max(0, saturatingNanoseconds), Int64.max / 2) }
}

extension RelaySummary.Reason: CustomStringConvertible {
  var description: String {
    switch self {
    case .ended: "ended"
    case .clientGone: "the client left"
    case .deviceLost: "the device is gone"
    case .idleAfterHalfClose: "closed after idle half-close"
    case .stopped: "stopped"
    }
  }
}
