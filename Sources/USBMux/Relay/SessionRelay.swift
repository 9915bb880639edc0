internal import EventLoop
internal import PacketCapture

/// Carries bytes between a client's socket and a session of a link in this process.
///
/// Towards the client, bytes go from the link's read buffer to the socket; what the socket does not take is
/// kept and acknowledged to the device only when it has gone, so a slow client closes its own window and
/// nobody else's. Towards the device, the link asks for bytes when it has room for a packet.
final class SessionRelay: Relay, SessionUser, ReadinessHandler, Resumable, EndingClockOwner {
  let identifier: UInt64
  private let clientSocket: CInt
  private let clientIsUnix: Bool
  private let times: RelayTimes
  private let resources: RelayResources
  private let link: LinkDriver
  private let session: SessionID
  private unowned let owner: any RelayOwner
  private let tap: StreamTap?

  private var client: Descriptor?
  private var watcher: Watcher?
  private var ending = RelayEnding()
  private var held: HeldBytes
  private var sent: UInt64 = 0
  private var received: UInt64 = 0
  private var clientHasBytes = true
  private var clientHasRoom = true
  private var clientHangsUp = false
  /// The client's sending side has ended, or its socket is in error.
  private var clientIsDone = false
  private var clientIsBroken = false
  /// Before the start nothing is sent to the client, whatever the device sends.
  private var isStarted = false
  private var isFinished = false
  private var isScheduled = false
  private var clock: EndingClock?

  /// Takes over an open session.
  init(
    identifier: UInt64, client: consuming Descriptor, clientIsUnix: Bool, link: LinkDriver,
    session: SessionID, times: RelayTimes, tap: StreamTap? = nil, resources: RelayResources,
    owner: any RelayOwner
  ) {
    self.identifier = identifier
    self.clientIsUnix = clientIsUnix
    self.times = times
    self.tap = tap
    self.resources = resources
    self.link = link
    self.session = session
    self.owner = owner
    held = HeldBytes(link.heldPool)
    clientSocket = client.number
    self.client = consume client
  }

  var delivered: (sent: UInt64, received: UInt64) { (sent, received) }

  /// Begins; the client's socket may have a watcher already.
  func start(_ given: Watcher? = nil) {
    do throws(SystemError) {
      watcher = try .watching(clientSocket, on: resources.loop, for: self, given)
      clientHangsUp = given?.hasHungUp ?? false
    } catch {
      return finish(.stopped, resets: true)
    }
    isStarted = true
    if !held.isEmpty { deliverHeld() }
    if ending.device != nil { schedule() } else { link.wantsToSend(session) }
  }

  /// Whether the client's stream was ended cleanly: the app has closed, and all that it said is delivered.
  var hasShownEnd: Bool { ending.isLingering }

  func deviceLost() {
    guard !isFinished else { return }
    ending.deviceEnded(.reset)
    decide()
  }

  func stop() { finish(.stopped, resets: !ending.isLingering) }

  // MARK: Client

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    if readiness.contains(.hangUp) { clientHangsUp = true }
    if clientIsUnix && readiness.contains(.broken) {
      ending.clientEnded(gone: true)
      schedule()
    }
    if readiness.contains(.write) {
      clientHasRoom = true
      deliverHeld()
    }
    if readiness.contains(.read) {
      clientHasBytes = true
      if ending.deviceTakes { link.wantsToSend(session) } else { discardFromClient() }
    }
    // A device that takes nothing keeps the client's end from being read: that, too, must not last for ever.
    if clientHangsUp && !clientIsDone && ending.device == nil && !isFinished {
      theClock().clientHalfClosed()
    }
  }

  func resume() {
    isScheduled = false
    decide()
  }

  /// Decisions end sessions, so they are not made from within a call of the link.
  private func schedule() {
    guard !isScheduled else { return }
    isScheduled = true
    resources.loop.resume(self)
  }

  private func deliverHeld() {
    var delivered = 0
    var failed = false
    unsafe held.take { bytes in
      guard let start = bytes.baseAddress else { return 0 }
      switch unsafe Socket.send(clientSocket, from: start, count: bytes.count) {
      case .bytes(let count):
        delivered += count
        if let tap { unsafe tap.delivered(from: .device, start, count) }
        return count
      case .wouldBlock, .end: break
      case .failed: failed = true
      }
      return 0
    }
    if failed { return clientBroke() }
    received &+= UInt64(delivered)
    if !held.isEmpty { waitForRoom() }
    if delivered > 0 && ending.deviceTakes { link.consumed(session, delivered) }
    if ending.device != nil { schedule() }
  }

  private func waitForRoom() {
    clientHasRoom = false
    watcher?.wait(for: .write)
  }

  private func clientBroke() {
    clientIsBroken = true
    clientIsDone = true
    held.clear()
    ending.clientEnded(gone: true)
    schedule()
  }

  /// The device takes nothing more; the client's end must still be noticed.
  private func discardFromClient() {
    var discarded = 0
    while clientHasBytes && !clientIsDone && !isFinished {
      // A client that sends as fast as it is read must not keep the thread to itself.
      if discarded >= Flow.slice { return schedule() }
      switch unsafe Socket.receive(clientSocket, into: resources.buffers.scratch, count: BufferPool.capacity)
      {
      case .bytes(let count):
        // Who writes to a closed app must be told; what the app said before has arrived by then.
        if ending.isLingering && isDelivered { return finish(.ended, resets: true) }
        discarded += count
      case .wouldBlock: clientHasNothing()
      case .end: clientEnded()
      case .failed: clientBroke()
      }
    }
  }

  private func clientHasNothing() {
    clientHasBytes = false
    watcher?.wait(for: .read)
  }

  private func clientEnded() {
    clientIsDone = true
    tap?.clientEnded()
    ending.clientEnded(gone: !ending.isLingering && resources.presence.isGone(clientSocket))
    schedule()
  }

  // MARK: Session

  func sessionOpened() {}

  func sessionRefused(_ reason: String) { sessionEnded(nil) }

  func sessionReceived(_ bytes: UnsafeRawBufferPointer) -> Int {
    guard let start = bytes.baseAddress, ending.clientReads, !clientIsBroken else { return bytes.count }
    var taken = 0
    if isStarted && clientHasRoom && held.isEmpty {
      switch unsafe Socket.send(clientSocket, from: start, count: bytes.count) {
      case .bytes(let count): taken = count
      case .wouldBlock, .end: break
      case .failed:
        clientBroke()
        return bytes.count
      }
      received &+= UInt64(taken)
      if let tap { unsafe tap.delivered(from: .device, start, taken) }
      if taken == bytes.count { return taken }
      waitForRoom()
    }
    unsafe held.append(UnsafeRawBufferPointer(rebasing: bytes[taken...]))
    return taken
  }

  func sessionFill(_ buffer: UnsafeMutableRawPointer, atMost limit: Int) -> Int {
    guard clientHasBytes, !clientIsDone, !isFinished else { return 0 }
    switch unsafe Socket.receive(clientSocket, into: buffer, count: limit) {
    case .bytes(let count):
      sent &+= UInt64(count)
      if let tap { unsafe tap.delivered(from: .client, buffer, count) }
      // The socket is empty, unless its end was announced: that will not be told again.
      if count < limit && !clientHangsUp { clientHasNothing() }
      return count
    case .wouldBlock: clientHasNothing()
    case .end: clientEnded()
    case .failed: clientBroke()
    }
    return 0
  }

  func sessionEnded(_ end: SessionEnd?) {
    switch end {
    // Apps that close normally look like a reset on this link.
    case .resetByDevice, .finished: ending.deviceEnded(.clean)
    case .violated, .connectTimeout, nil: ending.deviceEnded(.reset)
    }
    schedule()
  }

  // MARK: Ends

  private func decide() {
    guard isStarted, !isFinished else { return }
    if !ending.deviceTakes { discardFromClient() }
    // What was read from the client has been framed, in order, before anything that is decided here.
    switch ending.next(uploadIsEmpty: clientIsDone, downloadIsEmpty: held.isEmpty) {
    case .keepGoing:
      if ending.client != .open { theClock().clientHalfClosed() }
    case .endClientStream:
      tap?.deviceEnded()
      Socket.endSending(clientSocket)
      theClock().linger()
      discardFromClient()
    case .resetClient: theClock().reset()
    case .finish: finish(ending.client == .gone && !ending.isLingering ? .clientGone : .ended, resets: false)
    }
  }

  private func theClock() -> EndingClock {
    if let clock { return clock }
    let made = EndingClock(resources, client: clientSocket, times: times, owner: self)
    clock = made
    return made
  }

  var progress: UInt64 { sent &+ received }

  var isDelivered: Bool {
    clientIsBroken || (held.isEmpty && (clientIsUnix || Socket.unsentBytes(clientSocket) == 0))
  }

  func clientIsGone() {
    ending.clientEnded(gone: true)
    decide()
  }

  func timeIsUp(_ reason: RelaySummary.Reason, resets: Bool) { finish(reason, resets: resets) }

  private func finish(_ reason: RelaySummary.Reason, resets: Bool) {
    guard !isFinished else { return }
    isFinished = true
    tap?.over(reason, ending.client, isBroken: clientIsBroken, resets: resets)
    clock = nil
    watcher.dropBeforeClose()
    held.clear()
    if ending.device == nil { link.close(session) }
    if resets { Socket.resetOnClose(clientSocket) }
    client = nil
    owner.relayEnded(self, RelaySummary(reason: reason, sent: sent, received: received))
  }
}
