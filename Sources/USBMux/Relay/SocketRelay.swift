internal import EventLoop

/// What a relay asks of, and tells, the one who started it. Called on the relay's loop thread.
protocol RelayOwner: AnyObject {
  /// The device's stream is over; find out how, and call ``SocketRelay/deviceEndVerified(_:)``.
  func relayNeedsVerdict(_ relay: SocketRelay)
  /// The relay carries bulk data and could go on elsewhere: the owner may move it (``SocketRelay/detach()``).
  func relayIsBulk(_ relay: SocketRelay)
  /// Both sides are closed. The relay does nothing more.
  func relayEnded(_ relay: SocketRelay, _ summary: RelaySummary)
}

/// How a relay went.
struct RelaySummary: Equatable, Sendable {
  enum Reason: Equatable, Sendable {
    /// The app closed its side, or the client did after it had all.
    case ended
    /// The client is gone.
    case clientGone
    /// The device or the daemon is lost; the client was reset.
    case deviceLost
    /// Nothing moved for the bounded time after the client had ended its sending side.
    case idleAfterHalfClose
    /// tunneld ended it.
    case stopped
  }

  let reason: Reason
  /// Bytes delivered to the device.
  let sent: UInt64
  /// Bytes delivered to the client.
  let received: UInt64
}

/// The times that bound a relay's end, nanoseconds.
struct RelayTimes: Sendable {
  /// Without progress after the client has ended its sending side.
  var halfClose: Int64 = 30_000_000_000
  /// For a client to end after the app has.
  var linger: Int64 = 10_000_000_000
  /// For bytes that came before a reset to reach the client.
  var resetGrace: Int64 = 500_000_000
}

/// Carries bytes between a client's socket and a socket that leads to a device, both ways at once.
///
/// One object owns all of a connection's state. It belongs to one loop thread at a time and can move to
/// another one (``detach()``, ``attach(to:owner:)``).
final class SocketRelay: ReadinessHandler, Resumable {
  /// Delivered bytes after which a connection counts as bulk.
  static let bulkThreshold: UInt64 = 4 << 20

  /// The connection's number in the log.
  let identifier: UInt64
  private let clientSocket: CInt
  private let deviceSocket: CInt
  private let clientIsUnix: Bool
  /// Whether the device's end must be verified with the daemon.
  private let needsVerdict: Bool
  private let times: RelayTimes

  private var client: Descriptor?
  private var device: Descriptor?
  private var clientWatcher: Watcher?
  private var deviceWatcher: Watcher?
  private var resources: RelayResources
  private unowned var owner: any RelayOwner

  private var upload = Flow(.spliceWhenBusy)
  private var download = Flow(.copy)
  private var ending = RelayEnding()
  /// Nothing more can be read from the client: its socket is in error.
  private var clientIsBroken = false
  /// The device's socket takes nothing more.
  private var deviceRefusesBytes = false
  private var wasBulk = false
  private var isFinished = false
  private var isScheduled = false

  private var timer: LoopTimer?
  private var waiting = Waiting.nothing

  /// What the timer is for.
  private enum Waiting {
    case nothing
    case halfClosed(idleSince: Int64, delivered: UInt64, check: Int)
    case lingering
    case resetting(deadline: Int64)
  }

  init(
    identifier: UInt64, client: consuming Descriptor, clientIsUnix: Bool, device: consuming Descriptor,
    needsVerdict: Bool, times: RelayTimes, resources: RelayResources, owner: any RelayOwner
  ) {
    self.identifier = identifier
    self.clientIsUnix = clientIsUnix
    self.needsVerdict = needsVerdict
    self.times = times
    self.resources = resources
    self.owner = owner
    clientSocket = client.number
    deviceSocket = device.number
    self.client = consume client
    self.device = consume device
  }

  /// Bytes delivered to the device and to the client so far.
  var delivered: (sent: UInt64, received: UInt64) { (upload.delivered, download.delivered) }

  // MARK: Where it runs

  /// Starts, or goes on, on the loop of `resources`.
  func attach(to resources: RelayResources, owner: any RelayOwner) {
    self.resources = resources
    self.owner = owner
    do throws(SystemError) {
      clientWatcher = try Watcher(clientSocket, on: resources.loop, handler: self)
      if device != nil { deviceWatcher = try Watcher(deviceSocket, on: resources.loop, handler: self) }
    } catch {
      return finish(.stopped, resets: true)
    }
    // A client has mostly sent its request by now; what the device has is told by the first event.
    upload.sourceIsReady = true
    upload.sinkIsReady = true
    download.sourceIsReady = false
    download.sinkIsReady = true
    schedule()
  }

  /// Leaves its loop, to be attached to another one. Only while neither side has ended.
  func detach() {
    clientWatcher.drop()
    deviceWatcher.drop()
    timer = nil
  }

  /// Whether both sides are open, so that the relay is just two flows.
  var isPlain: Bool { ending.client == .open && ending.device == nil && !isFinished }

  private func schedule() {
    guard !isScheduled else { return }
    isScheduled = true
    resources.loop.resume(self)
  }

  func resume() {
    isScheduled = false
    // A relay that moved in the meantime has asked its new loop.
    if clientWatcher != nil { service() }
  }

  // MARK: Events

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    if watcher === clientWatcher {
      if readiness.contains(.read) { upload.sourceIsReady = true }
      if readiness.contains(.write) { download.sinkIsReady = true }
      if readiness.contains(.hangUp) { upload.sourceHangsUp = true }
      // A Unix socket hangs up both ways when its peer closes it; a shut-down one does not.
      if clientIsUnix && readiness.contains(.broken) { ending.clientEnded(gone: true) }
    } else {
      if readiness.contains(.read) { download.sourceIsReady = true }
      if readiness.contains(.write) { upload.sinkIsReady = true }
      if readiness.contains(.hangUp) { download.sourceHangsUp = true }
    }
    if !isScheduled { service() }
  }

  /// The device, or the way to it, is gone.
  func deviceLost() {
    guard !isFinished else { return }
    ending.deviceEnded(.reset)
    service()
  }

  /// The answer to ``RelayOwner/relayNeedsVerdict(_:)``.
  func deviceEndVerified(_ end: DeviceEnd) {
    guard !isFinished else { return }
    ending.deviceEnded(end)
    service()
  }

  /// Ends it now: the client is reset unless it has already been shown the end.
  func stop() {
    finish(.stopped, resets: !ending.isLingering)
  }

  // MARK: Work

  private func service() {
    guard !isFinished else { return }
    var wantsMore = false
    pumpUpload(&wantsMore)
    pumpDownload(&wantsMore)
    let uploadIsDone = upload.isEmpty && (upload.ended || clientIsBroken)
    switch ending.next(
      uploadIsEmpty: uploadIsDone || deviceRefusesBytes, downloadIsEmpty: download.isEmpty)
    {
    case .keepGoing:
      askForReadiness()
      if wantsMore { schedule() }
      if ending.client == .halfClosed { watchHalfClosedClient() }
      if !wasBulk && upload.delivered &+ download.delivered > Self.bulkThreshold && isPlain {
        wasBulk = true
        owner.relayIsBulk(self)
      }
    case .endClientStream:
      Socket.endSending(clientSocket)
      closeDevice()
      waiting = .lingering
      setTimer(after: times.linger)
      // What the client sends now has no taker, but its end must be noticed.
      schedule()
    case .resetClient:
      resetClient()
    case .finish:
      finish(ending.client == .gone ? .clientGone : .ended, resets: false)
    }
  }

  private func pumpUpload(_ wantsMore: inout Bool) {
    guard !clientIsBroken || !upload.isEmpty else { return }
    let discards = !ending.deviceTakes || deviceRefusesBytes
    switch upload.pump(from: clientSocket, to: deviceSocket, discards: discards, resources) {
    case .waits: break
    case .more: wantsMore = true
    case .sourceFailed:
      clientIsBroken = true
      ending.clientEnded(gone: true)
    case .sinkFailed:
      // What the device sent before it closed is still to be read; that tells the end as well.
      deviceRefusesBytes = true
      download.sourceIsReady = true
      wantsMore = true
    }
    if upload.ended && ending.client == .open {
      ending.clientEnded(gone: !ending.isLingering && resources.presence.isGone(clientSocket))
    }
  }

  private func pumpDownload(_ wantsMore: inout Bool) {
    guard device != nil else { return }
    let discards = ending.client == .gone
    if ending.device != nil && download.isEmpty { return }
    switch download.pump(from: deviceSocket, to: clientSocket, discards: discards, resources) {
    case .waits: break
    case .more: wantsMore = true
    case .sourceFailed:
      // A usbmuxd that closes with bytes of ours unread shows this too: it, too, must be verified.
      download.sourceIsReady = false
      deviceStreamEnded(needsVerdict ? .unverified : .reset)
    case .sinkFailed:
      clientIsBroken = true
      ending.clientEnded(gone: true)
      wantsMore = true
    }
    if download.ended { deviceStreamEnded(needsVerdict ? .unverified : .clean) }
  }

  private func deviceStreamEnded(_ end: DeviceEnd) {
    guard ending.device == nil else { return }
    ending.deviceEnded(end)
    if end == .unverified { owner.relayNeedsVerdict(self) }
  }

  /// Level-triggered sets tell only what is waited for.
  private func askForReadiness() {
    var fromClient: Readiness = []
    if !upload.sourceIsReady && !upload.ended { fromClient.insert(.read) }
    if !download.sinkIsReady { fromClient.insert(.write) }
    if !fromClient.isEmpty { clientWatcher?.wait(for: fromClient) }
    var fromDevice: Readiness = []
    if !download.sourceIsReady && !download.ended { fromDevice.insert(.read) }
    if !upload.sinkIsReady { fromDevice.insert(.write) }
    if !fromDevice.isEmpty { deviceWatcher?.wait(for: fromDevice) }
  }

  // MARK: Ends

  /// The look-ups after a half-close, nanoseconds apart: a client that is closing at this very moment is
  /// found a little later, one that leaves without reading is found within seconds.
  private static let presenceChecks: [Int64] = [5_000_000, 50_000_000, 500_000_000, 2_000_000_000]

  private func watchHalfClosedClient() {
    if case .halfClosed = waiting { return }
    waiting = .halfClosed(idleSince: resources.loop.now, delivered: progress, check: 0)
    setTimer(after: Self.presenceChecks[0])
  }

  private var progress: UInt64 { upload.delivered &+ download.delivered }

  private func timerFired() {
    guard !isFinished else { return }
    switch waiting {
    case .nothing: break
    case .lingering: finish(.ended, resets: false)
    case .resetting: resetClient()
    case .halfClosed(var idleSince, let delivered, let check):
      if resources.presence.isGone(clientSocket) {
        ending.clientEnded(gone: true)
        waiting = .nothing
        return service()
      }
      let now = resources.loop.now
      if progress != delivered { idleSince = now }
      let left = times.halfClose - (now - idleSince)
      guard left > 0 else { return finish(.idleAfterHalfClose, resets: !download.isEmpty) }
      let next = min(check + 1, Self.presenceChecks.count - 1)
      waiting = .halfClosed(idleSince: idleSince, delivered: progress, check: next)
      setTimer(after: min(left, Self.presenceChecks[next]))
    }
  }

  /// Lets bytes that came before the reset reach the client, for a bounded time: a reset throws away what is
  /// still queued.
  private func resetClient() {
    let now = resources.loop.now
    let deadline: Int64
    if case .resetting(let set) = waiting { deadline = set } else { deadline = now + times.resetGrace }
    let isDelivered = download.isEmpty && (clientIsUnix || Socket.unsentBytes(clientSocket) == 0)
    guard !isDelivered && now < deadline && !clientIsBroken else { return finish(.deviceLost, resets: true) }
    waiting = .resetting(deadline: deadline)
    closeDeviceWatch()
    askForReadiness()
    setTimer(after: 5_000_000)
  }

  private func setTimer(after nanoseconds: Int64) {
    if timer == nil { timer = LoopTimer(on: resources.loop) { [unowned self] in timerFired() } }
    timer?.set(after: nanoseconds)
  }

  private func closeDeviceWatch() { deviceWatcher.drop() }

  private func closeDevice() {
    closeDeviceWatch()
    device = nil
  }

  private func finish(_ reason: RelaySummary.Reason, resets: Bool) {
    guard !isFinished else { return }
    isFinished = true
    let summary = RelaySummary(reason: reason, sent: upload.delivered, received: download.delivered)
    timer = nil
    clientWatcher.drop()
    upload.release(resources)
    download.release(resources)
    closeDevice()
    if resets { Socket.resetOnClose(clientSocket) }
    client = nil
    owner.relayEnded(self, summary)
  }
}
