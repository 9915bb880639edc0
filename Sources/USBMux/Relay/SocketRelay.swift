internal import EventLoop
internal import PacketCapture

/// Carries bytes between a client's socket and a socket that leads to a device, both ways at once.
///
/// One object owns all of a connection's state. It belongs to one loop thread at a time and can move to
/// another one (``detach()``, ``attach(to:owner:)``).
final class SocketRelay: Relay, ReadinessHandler, Resumable, EndingClockOwner {
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

  private var upload: Flow
  private var download: Flow
  private var tap: StreamTap? { upload.tap }
  private var ending = RelayEnding()
  /// Nothing more can be read from the client: its socket is in error.
  private var clientIsBroken = false
  /// The device's socket takes nothing more.
  private var deviceRefusesBytes = false
  private var pace = Pace()
  /// What of its pace the owner has been told last.
  private var toldBulk = false
  /// The client has sent something that the device cannot take any more.
  private var clientTalksOn = false
  private var isFinished = false
  private var isScheduled = false

  private var clock: EndingClock?

  init(
    identifier: UInt64, client: consuming Descriptor, clientIsUnix: Bool, device: consuming Descriptor,
    needsVerdict: Bool, times: RelayTimes, tap: StreamTap? = nil, resources: RelayResources,
    owner: any RelayOwner
  ) {
    self.identifier = identifier
    self.clientIsUnix = clientIsUnix
    self.needsVerdict = needsVerdict
    self.times = times
    upload = Flow(.spliceWhenBusy, from: .client, tap: tap)
    download = Flow(.copy, from: .device, tap: tap)
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

  /// Starts, or goes on, on the loop of `resources`, where the sockets may have watchers already.
  func attach(
    to resources: RelayResources, owner: any RelayOwner, clientWatcher: Watcher? = nil,
    deviceWatcher: Watcher? = nil
  ) {
    self.resources = resources
    self.owner = owner
    do throws(SystemError) {
      self.clientWatcher = try .watching(clientSocket, on: resources.loop, for: self, clientWatcher)
      self.deviceWatcher = try .watching(deviceSocket, on: resources.loop, for: self, deviceWatcher)
    } catch {
      return finish(.stopped, resets: true)
    }
    // A client has mostly sent its request by now. What the device has is told by the first event of a new
    // watcher; one that was given may have told it before, and an end as well.
    upload.sourceIsReady = true
    upload.sourceHangsUp = clientWatcher?.hasHungUp ?? false
    upload.sinkIsReady = true
    download.sourceIsReady = deviceWatcher != nil
    download.sourceHangsUp = deviceWatcher?.hasHungUp ?? false
    download.sinkIsReady = true
    schedule()
  }

  /// Leaves its loop, to be attached to another one; only from within ``RelayOwner/relayIsBulk(_:)`` and
  /// ``RelayOwner/relayIsQuiet(_:)``. Whoever does not take it away calls ``goOn()``.
  func detach() {
    clientWatcher.drop()
    deviceWatcher.drop()
  }

  /// Stays where it is.
  func goOn() { schedule() }

  /// Whether both sides are open, so that the relay is just two flows. A clock belongs to the loop that it was
  /// made for, and would fire there.
  var isPlain: Bool { ending.client == .open && ending.device == nil && clock == nil && !isFinished }

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
    // Bulk gets one slice for all that this turn has to tell; a small message is on its way at once.
    if toldBulk { schedule() } else if !isScheduled { service() }
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
    let before = progress
    pumpUpload(&wantsMore)
    pumpDownload(&wantsMore)
    pace.moved(progress &- before)
    let uploadIsDone = upload.isEmpty && (upload.ended || clientIsBroken)
    if let tap, upload.ended, upload.isEmpty { tap.clientEnded() }
    switch ending.next(
      uploadIsEmpty: uploadIsDone || deviceRefusesBytes, downloadIsEmpty: download.isEmpty)
    {
    case .keepGoing:
      askForReadiness()
      // Who writes to a closed app must be told; what the app said before has arrived by then.
      if clientTalksOn && ending.isLingering && isDelivered { return finish(.ended, resets: true) }
      // A device that takes nothing keeps the client's end from being read: that, too, must not last for ever.
      if ending.client != .open || upload.sourceHangsUp { theClock().clientHalfClosed() }
      if pace.isBulk != toldBulk && isPlain && !isScheduled {
        toldBulk = pace.isBulk
        if toldBulk { owner.relayIsBulk(self) } else { owner.relayIsQuiet(self) }
        // It may be another thread's by now.
        return
      }
      if wantsMore { schedule() }
    case .endClientStream:
      tap?.deviceEnded()
      Socket.endSending(clientSocket)
      closeDevice()
      theClock().linger()
      // What the client sends now has no taker, but its end must be noticed.
      schedule()
    case .resetClient:
      deviceWatcher.drop()
      askForReadiness()
      theClock().reset()
    case .finish:
      finish(ending.client == .gone && !ending.isLingering ? .clientGone : .ended, resets: false)
    }
  }

  private func pumpUpload(_ wantsMore: inout Bool) {
    guard !clientIsBroken || !upload.isEmpty else { return }
    let discards = !ending.deviceTakes || deviceRefusesBytes
    let before = upload.discarded
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
    if upload.discarded != before { clientTalksOn = true }
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
    var fromClient = Readiness()
    if !upload.sourceIsReady && !upload.ended { fromClient.insert(.read) }
    if !download.sinkIsReady { fromClient.insert(.write) }
    if !fromClient.isEmpty { clientWatcher?.wait(for: fromClient) }
    var fromDevice = Readiness()
    if !download.sourceIsReady && !download.ended { fromDevice.insert(.read) }
    if !upload.sinkIsReady { fromDevice.insert(.write) }
    if !fromDevice.isEmpty { deviceWatcher?.wait(for: fromDevice) }
  }

  // MARK: Ends

  private func theClock() -> EndingClock {
    if let clock { return clock }
    let made = EndingClock(resources, client: clientSocket, times: times, owner: self)
    clock = made
    return made
  }

  var progress: UInt64 { upload.delivered &+ download.delivered }

  var isDelivered: Bool {
    clientIsBroken || (download.isEmpty && (clientIsUnix || Socket.unsentBytes(clientSocket) == 0))
  }

  func clientIsGone() {
    ending.clientEnded(gone: true)
    service()
  }

  func timeIsUp(_ reason: RelaySummary.Reason, resets: Bool) { finish(reason, resets: resets) }

  private func closeDevice() {
    deviceWatcher.dropBeforeClose()
    device = nil
  }

  private func finish(_ reason: RelaySummary.Reason, resets: Bool) {
    guard !isFinished else { return }
    isFinished = true
    tap?.over(reason, ending.client, isBroken: clientIsBroken, resets: resets)
    let summary = RelaySummary(reason: reason, sent: upload.delivered, received: download.delivered)
    clock = nil
    clientWatcher.dropBeforeClose()
    upload.release(resources)
    download.release(resources)
    closeDevice()
    if resets { Socket.resetOnClose(clientSocket) }
    client = nil
    owner.relayEnded(self, summary)
  }
}
