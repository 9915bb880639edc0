/// The host's side of a link: the multiplexer on top of a device's two bulk endpoints.
///
/// It does no I/O and reads no clock. Whatever a USB read brought goes into
/// ``nextEvent(in:cursor:at:)``, and events come out, one for each call, so that the driver may call
/// anything else between two of them. Packets that are to be sent come out of
/// ``nextPacket(into:)``; for payload, the driver puts the bytes behind ``dataHeaderSize`` free bytes
/// and has ``frameData(_:payloadCount:into:)`` write the headers. Payload is never copied here, in
/// either direction.
///
/// Packets are numbered in the order in which those two calls make them, and must be submitted in that
/// order, one packet to a bulk transfer.
///
/// Nothing that a device sends can trap: it leads to an event. Times passed in should not go back; the
/// link goes by the latest one.
package struct HostLink: ~Copyable, Sendable {
  enum State: Equatable {
    /// Not started.
    case idle
    /// VERSION has been asked for `attempts` times.
    case awaitingVersion(attempts: Int, deadline: Instant)
    /// Sessions can be opened.
    case up(MuxVersion)
    /// The link is of no use any more.
    case failed
  }

  let configuration: LinkConfiguration
  let window: ScaledWindow
  let acknowledgeDelay: Int64
  let connectTimeout: Int64?

  var state = State.idle
  var now = Instant(nanoseconds: .min)
  /// Events that are to come out before anything else happens: a few at most, since a transfer is gone
  /// on with only when they are out.
  var events = EventQueue()
  package internal(set) var counters = LinkCounters()

  // Receiving.
  var assembler = PacketAssembler()
  var payloadUse = PayloadUse.skip
  var text = CollectedText()

  // Sending.
  var numbers = PacketNumbers()
  var versionPending = false
  var setupPending = false
  var strangers = StrangerQueue()

  // Sessions.
  var sessions: SessionTable
  /// Sessions that have something to send other than payload.
  var ready = IndexList()
  /// Sessions that await the answer to SYN.
  var connecting = DeadlineList()
  /// Sessions that owe an acknowledgement.
  var acknowledging = DeadlineList()

  /// A link that has not been started. The first session gets the host port `firstPort`; later ones go
  /// up from there. A random number keeps a restarted host clear of the sessions that the device still
  /// remembers.
  package init(configuration: LinkConfiguration, firstPort: UInt16) {
    self.configuration = configuration
    window = ScaledWindow(roundingDown: configuration.receiveWindow)
    acknowledgeDelay = configuration.acknowledgeDelay.saturatingNanoseconds
    connectTimeout = configuration.connectTimeout?.saturatingNanoseconds
    sessions = SessionTable(limit: configuration.maximumSessions, firstPort: firstPort)
  }

  /// The version that was agreed on, while the link is up.
  package var version: MuxVersion? {
    switch state {
    case .up(let version): version
    case .idle, .awaitingVersion, .failed: nil
    }
  }

  /// Sessions that exist, those included that only wait for their RST to be sent.
  package var sessionCount: Int {
    sessions.count
  }

  // MARK: Time

  /// Begins with asking the device for its version.
  package mutating func start(at now: Instant) {
    guard state == .idle else { return }
    notice(now)
    askForVersion(attempts: 1)
  }

  /// When ``advance(to:)`` has something to do, or nil if that depends on other calls.
  package var nextDeadline: Instant? {
    switch state {
    case .idle, .failed:
      return nil
    case .awaitingVersion(_, let deadline):
      return deadline
    case .up:
      guard let connect = connecting.first else { return acknowledging.first }
      guard let acknowledge = acknowledging.first else { return connect }
      return min(connect, acknowledge)
    }
  }

  /// Does what is due. Look for events by ``nextEvent(at:)`` and for packets by ``nextPacket(into:)``
  /// afterwards.
  package mutating func advance(to now: Instant) {
    notice(now)
    switch state {
    case .idle, .failed:
      break
    case .awaitingVersion(let attempts, let deadline):
      guard deadline <= self.now else { break }
      if attempts < configuration.versionAttempts {
        askForVersion(attempts: attempts + 1)
      } else {
        fail(.versionTimeout(attempts: attempts))
      }
    case .up:
      while let index = acknowledging.removeDue(at: self.now) {
        ready.append(index)
      }
    }
  }

  /// The next event that needs no transfer: a session or the link that ran out of time. Nil when there
  /// is none.
  package mutating func nextEvent(at now: Instant) -> LinkEvent? {
    notice(now)
    if let event = events.removeFirst() {
      return event
    }
    guard let index = connecting.removeDue(at: self.now) else { return nil }
    let id = sessions[index].id
    reset(index)
    return .closed(id, .connectTimeout)
  }

  mutating func notice(_ now: Instant) {
    self.now = max(self.now, now)
  }

  // MARK: The link

  private mutating func askForVersion(attempts: Int) {
    versionPending = true
    state = .awaitingVersion(
      attempts: attempts, deadline: now.advanced(by: configuration.versionTimeout))
  }

  /// "Device answers VERSION with the major that it speaks (1 or 2). With major 2 the host sends SETUP.
  /// Then the link is active. With major 1 it is active at once."
  mutating func receiveVersion(_ body: Span<UInt8>) {
    guard let answer = try? VersionMessage(from: body) else {
      if version == nil { fail(.malformedVersion(byteCount: body.count)) }
      return
    }
    switch state {
    case .awaitingVersion:
      guard let version = MuxVersion(rawValue: answer.major) else {
        return fail(.unsupportedVersion(major: answer.major))
      }
      state = .up(version)
      versionPending = false
      setupPending = version == .two
      assembler.version = version
      events.append(.up(version))
    case .idle, .up, .failed:
      // A late answer to one of several questions.
      events.append(.note(.repeatedVersion(major: answer.major)))
    }
  }

  mutating func fail(_ error: LinkError) {
    state = .failed
    versionPending = false
    setupPending = false
    payloadUse = .skip
    sessions.removeAll()
    ready.removeAll()
    connecting.removeAll()
    acknowledging.removeAll()
    strangers.removeAll()
    events.append(.failed(error))
  }

  // MARK: Sessions

  /// Asks the device for a session with one of its ports. ``LinkEvent/opened(_:)``,
  /// ``LinkEvent/refused(_:reason:)`` or ``LinkEvent/closed(_:_:)`` says how it went.
  package mutating func connect(port: UInt16, at now: Instant) throws(LinkError) -> SessionID {
    notice(now)
    guard version != nil else { throw .notUp }
    guard port != 0 else { throw .invalidPort }
    let index = try sessions.add(devicePort: port)
    counters.sessionsStarted += 1
    if let connectTimeout {
      connecting.schedule(index, at: self.now.advanced(byNanoseconds: connectTimeout))
    }
    ready.append(index)
    return sessions[index].id
  }

  /// Ends a session by RST, behind everything that was framed before. No event about it follows. A
  /// session that is not known is let be.
  package mutating func close(_ session: SessionID) {
    guard let index = sessions.index(of: session) else { return }
    reset(index)
  }

  /// The local reader took `count` bytes of payload for good, which makes room for the device to send
  /// as many more. A session that is not known is let be.
  package mutating func consumed(_ session: SessionID, count: Int, at now: Instant) {
    notice(now)
    guard let index = sessions.index(of: session) else { return }
    let owed = sessions[index].consume(count)
    guard owed > 0, !ready.contains(index) else { return }
    // "About 30 ms at most, and at once when half of the window has been used."
    if owed >= configuration.acknowledgeThreshold {
      acknowledging.cancel(index)
      ready.append(index)
    } else {
      acknowledging.schedule(index, at: self.now.advanced(byNanoseconds: acknowledgeDelay))
    }
  }

  /// Ends a session from this side.
  mutating func reset(_ index: Int) {
    connecting.cancel(index)
    acknowledging.cancel(index)
    if sessions[index].close() {
      ready.append(index)
    } else {
      ready.remove(index)
      sessions.remove(index)
    }
  }

  /// The session is gone on the device's side.
  mutating func forget(_ index: Int) {
    connecting.cancel(index)
    acknowledging.cancel(index)
    ready.remove(index)
    sessions.remove(index)
  }
}
