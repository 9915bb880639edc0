internal import EventLoop

/// Who uses one session of a link. Called on the loop's thread.
protocol SessionUser: AnyObject {
  /// The device accepted.
  func sessionOpened()
  /// The device refused; the reason is its text, often empty.
  func sessionRefused(_ reason: String)
  /// Bytes from the device, valid during the call. Returns how many of them the local reader took at once; the
  /// user keeps the others and reports them with ``LinkDriver/consumed(_:_:)`` when they are taken.
  func sessionReceived(_ bytes: UnsafeRawBufferPointer) -> Int
  /// Writes at most `limit` bytes for the device to `buffer`; 0 when there are none now, after which
  /// ``LinkDriver/wantsToSend(_:)`` asks for the next turn.
  func sessionFill(_ buffer: UnsafeMutableRawPointer, atMost limit: Int) -> Int
  /// The session is over, after all of its bytes; nil: the link is lost.
  func sessionEnded(_ end: SessionEnd?)
}

/// Who has a link. Called on the loop's thread.
protocol LinkOwner: AnyObject {
  /// Sessions can be opened from now on.
  func linkIsUp(_ link: LinkDriver, _ version: MuxVersion)
  /// The link is over, and with it all of its sessions.
  func linkFailed(_ link: LinkDriver, _ reason: String)
}

/// Drives the host's side of one link over a pair of bulk endpoints.
///
/// Bytes from the device go from the pipe's memory straight to the session's user; bytes for the device are
/// read straight into the pipe's memory, behind the room for the headers. Sessions that have something to send
/// take turns, one packet each; who was silent goes before those that go on, and packets of the link itself before
/// all. So a message waits for the packets that are under way, which the pipe bounds, and for no other packet of a
/// bulk stream.
final class LinkDriver: BulkReceiver {
  private let pipe: any BulkPipe
  private let loop: EventLoop
  private let log: Log
  private let name: String
  private weak var owner: (any LinkOwner)?
  private var link: HostLink
  /// By ``SessionID/index``.
  private var users: [(any SessionUser)?] = []
  private var turns = TurnQueue()
  private var pacing: SendPacing
  private var timer: LoopTimer?
  /// When the timer fires; it is not set later, since a look too early does no harm.
  private var timerDeadline: Int64?
  private var isFlushing = false
  private(set) var isOver = false
  /// Memory for what the readers of this link's sessions do not take at once.
  let heldPool = HeldPool()

  /// A driver that does nothing before ``start()``. `name` is what the log calls the device.
  init(
    pipe: any BulkPipe, on loop: EventLoop, log: Log, name: String,
    configuration: LinkConfiguration = LinkConfiguration(),
    pacing: SendPacing = SendPacing(endpointPacketSize: 1024), owner: any LinkOwner
  ) {
    self.pipe = pipe
    self.loop = loop
    self.log = log
    self.name = name
    self.owner = owner
    self.pacing = pacing
    // Whoever opens a session knows how long it may take.
    var configuration = configuration
    configuration.connectTimeout = nil
    // A device may remember the ports of an earlier host's connections; another start avoids most of them.
    let firstPort = UInt16(truncatingIfNeeded: loop.now >> 10)
    link = HostLink(configuration: configuration, firstPort: firstPort)
  }

  private var now: Instant { Instant(nanoseconds: loop.now) }

  var version: MuxVersion? { link.version }
  var sessionCount: Int { link.sessionCount }
  var counters: LinkCounters { link.counters }

  func start() {
    pipe.receiver = self
    pipe.start()
    link.start(at: now)
    flush()
  }

  /// Ends the link and all sessions, saying nothing to the owner.
  func stop() { end(nil) }

  // MARK: Sessions

  /// Asks the device for a session. The caller bounds the time that this may take.
  ///
  /// - Throws: ``MuxError/deviceGone`` or ``MuxError/system(_:)``.
  func open(_ port: DevicePort, for user: any SessionUser) throws(MuxError) -> SessionID {
    guard !isOver else { throw .deviceGone }
    do throws(LinkError) {
      let session = try link.connect(port: port.number, at: now)
      let index = Int(session.index)
      while users.count <= index { users.append(nil) }
      users[index] = user
      flush()
      return session
    } catch {
      if case .tooManySessions(let limit) = error {
        throw .system("\(limit) connections to the device are open, which is the limit")
      }
      throw .deviceGone
    }
  }

  /// Bytes that the session may send now.
  func sendable(_ session: SessionID) -> Int { link.sendable(session) }

  /// From now on `user` is told what happens to the session.
  func hand(_ session: SessionID, to user: any SessionUser) {
    let index = Int(session.index)
    if index < users.count, users[index] != nil { users[index] = user }
  }

  /// Ends a session; its user is told nothing more.
  func close(_ session: SessionID) {
    forget(session)
    link.close(session)
    flush()
  }

  /// The local reader took bytes that ``SessionUser/sessionReceived(_:)`` had kept.
  func consumed(_ session: SessionID, _ count: Int) {
    link.consumed(session, count: count, at: now)
    flush()
  }

  /// The session has bytes for the device.
  func wantsToSend(_ session: SessionID) {
    guard link.sendable(session) > 0 else { return }
    turns.add(session)
    flush()
  }

  private func forget(_ session: SessionID) {
    let index = Int(session.index)
    if index < users.count { users[index] = nil }
    turns.remove(session)
  }

  private func user(_ session: SessionID) -> (any SessionUser)? {
    let index = Int(session.index)
    return index < users.count ? users[index] : nil
  }

  // MARK: Receiving

  func pipeReceived(_ bytes: UnsafeRawBufferPointer) {
    let now = now
    var cursor = 0
    isFlushing = true
    let span = unsafe Span<UInt8>(_unsafeBytes: bytes)
    while let event = link.nextEvent(in: span, cursor: &cursor, at: now) {
      unsafe take(event, bytes, now)
      if isOver { return }
    }
    isFlushing = false
    flush()
  }

  private func take(_ event: LinkEvent, _ bytes: UnsafeRawBufferPointer, _ now: Instant) {
    switch event {
    case .payload(let session, let range):
      guard let user = user(session) else { return }
      let taken = unsafe user.sessionReceived(UnsafeRawBufferPointer(rebasing: bytes[range]))
      if taken > 0 { link.consumed(session, count: taken, at: now) }
    case .sendableChanged(let session): turns.addAgain(session)
    case .opened(let session): user(session)?.sessionOpened()
    case .refused(let session, let reason):
      let user = user(session)
      forget(session)
      user?.sessionRefused(reason)
    case .closed(let session, let end):
      let user = user(session)
      forget(session)
      user?.sessionEnded(end)
    case .up(let version):
      log.write(.debug, "\(name): the link is up, version \(version)")
      owner?.linkIsUp(self, version)
    case .failed(let error): fail("\(error)")
    case .message(let kind, let text): logMessage(kind, text)
    case .note(let note): log.limited(.debug, topic: "\(name) note", "\(name): \(note)")
    }
  }

  private func logMessage(_ kind: ControlKind, _ text: String) {
    let level: LogLevel =
      switch kind {
      case .error, .warning: .warning
      default: .info
      }
    log.limited(level, topic: "\(name) \(text)", "\(name) says: \(text)")
  }

  func pipeCanSend() { flush() }

  func pipeFailed(_ reason: String) { fail(reason) }

  // MARK: Sending

  /// Sends what there is to send, while the pipe takes it.
  private func flush() {
    guard !isFlushing, !isOver else { return }
    isFlushing = true
    defer { isFlushing = false }
    while !isOver, link.hasPendingPackets || !turns.isEmpty {
      let isControl = link.hasPendingPackets
      // What goes first needs not wait here for the end of what is under way: it stands behind that in any case.
      let limits = pacing.limits(at: loop.now)
      let isFirst = isControl || turns.hasNewcomer
      guard let buffer = pipe.takeBuffer(behind: isFirst ? .max : limits.underWay) else { break }
      let count = isControl ? control(buffer) : data(buffer, atMost: limits.packet)
      if count > 0 { pipe.submit(buffer, count: count) } else { pipe.giveBack(buffer) }
    }
    setTimer()
  }

  private func control(_ buffer: TransferBuffer) -> Int {
    var output = unsafe OutputSpan<UInt8>(
      buffer: UnsafeMutableRawBufferPointer(start: buffer.bytes, count: buffer.capacity)
        .bindMemory(to: UInt8.self), initializedCount: 0)
    _ = link.nextPacket(into: &output)
    return output.count
  }

  /// One packet of the session whose turn it is, or 0.
  private func data(_ buffer: TransferBuffer, atMost packet: Int) -> Int {
    let isNew = turns.hasNewcomer
    guard let session = turns.next(), let user = user(session) else { return 0 }
    let header = link.dataHeaderSize
    let limit = min(link.sendable(session), min(buffer.capacity, packet) - header)
    guard limit > 0 else { return 0 }
    let count = unsafe user.sessionFill(buffer.bytes + header, atMost: limit)
    guard count > 0, !isOver else { return 0 }
    var output = unsafe OutputSpan<UInt8>(
      buffer: UnsafeMutableRawBufferPointer(start: buffer.bytes, count: header).bindMemory(to: UInt8.self),
      initializedCount: 0)
    do throws(LinkError) {
      try link.frameData(session, payloadCount: count, into: &output)
    } catch {
      fail("a packet could not be made: \(error)")
      return 0
    }
    pacing.sent(session, isNew: isNew, isFull: count == limit, at: loop.now)
    // A short read may have left more by now; the user says when there is nothing.
    turns.addAgain(session)
    return header + count
  }

  // MARK: Time

  private func setTimer() {
    guard let deadline = link.nextDeadline?.nanoseconds else { return }
    if let timerDeadline, timerDeadline <= deadline { return }
    if timer == nil { timer = LoopTimer(on: loop) { [unowned self] in timerFired() } }
    timerDeadline = deadline
    timer?.set(after: max(0, deadline - loop.now))
  }

  private func timerFired() {
    timerDeadline = nil
    let now = now
    isFlushing = true
    link.advance(to: now)
    while let event = link.nextEvent(at: now) {
      unsafe take(event, UnsafeRawBufferPointer(start: nil, count: 0), now)
      if isOver { return }
    }
    isFlushing = false
    flush()
  }

  // MARK: End

  private func fail(_ reason: String) {
    guard !isOver else { return }
    end(reason)
  }

  private func end(_ reason: String?) {
    guard !isOver else { return }
    isOver = true
    timer = nil
    pipe.close()
    let lost = users
    users = []
    for user in lost { user?.sessionEnded(nil) }
    if let reason { owner?.linkFailed(self, reason) }
  }
}
