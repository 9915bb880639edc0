import MuxProtocol

/// The device's side of a link, as strict as a protocol analyser: it does what phones do, and writes
/// down every rule that the host breaks.
///
/// OUT transfers go in exactly as the host submitted them, IN transfers come out, and events say what
/// the apps behind the ports must decide or do. No I/O, no clock.
package struct PhoneLink: ~Copyable, Sendable {
  enum State: Equatable {
    case awaitingVersion
    case awaitingSetup
    case active(MuxVersion)
  }

  /// What is sent besides segments of sessions.
  enum Notice: Sendable {
    case version(UInt32)
    case stale(number: Int)
    case message(PhoneMessage)
    case reset(SegmentHeader)
  }

  package let behaviour: PhoneBehaviour
  package private(set) var violations = ViolationLog()
  /// Segments for pairs of ports that no session has, for example because its RST was on its way.
  package internal(set) var strangers = 0

  var state = State.awaitingVersion
  private var versionsSeen = 0
  private var expectedNumber: UInt16 = 0
  var lastReceived: UInt16 { expectedNumber &- 1 }
  private var lastEcho: UInt16 = 0xffff
  var nextNumber: UInt16 = 0
  private var unfinished = ContiguousArray<UInt8>()
  private var isMerged = false

  var notices: [Notice] = []
  var ready = IndexList()
  /// The packet that is being sent.
  var packet = ContiguousArray<UInt8>()
  var packetTaken = 0

  var sessions = ContiguousArray<PhoneSession>()
  private var vacant: [Int] = []
  private var indices: [UInt32: Int] = [:]
  private var nextSerial: UInt64 = 0
  private var events = PhoneEventQueue()

  package init(behaviour: PhoneBehaviour) {
    self.behaviour = behaviour
  }

  /// Sessions that exist.
  package var sessionCount: Int { indices.count }

  // MARK: OUT

  /// Takes one OUT transfer, exactly as it was submitted; an empty one is a zero-length packet.
  package mutating func receive(_ transfer: Span<UInt8>) {
    let isFull = transfer.count > 0 && transfer.count % behaviour.endpointPacketSize == 0
    if unfinished.isEmpty, !isFull {
      if transfer.count > 0 { receivePacket(transfer) }
      return
    }
    // "When the length is a multiple of wMaxPacketSize, a zero-length packet must follow: devices merge
    // packets otherwise and then reject the sum."
    let before = unfinished.count
    unfinished.append(copying: transfer)
    if before > 0, transfer.count > 0, !isMerged {
      isMerged = true
      violations.add(.missingZeroLengthPacket(transfer: before))
    }
    guard !isFull || unfinished.count > 0xffff else { return }
    let whole = unfinished
    isMerged = false
    unfinished.removeAll(keepingCapacity: true)
    receivePacket(whole.span)
  }

  private mutating func receivePacket(_ bytes: Span<UInt8>) {
    guard bytes.count <= 0xffff else {
      violations.add(.oversizedPacket(bytes.count))
      let text = "message was too large (\(bytes.count) bytes, max = 65535)"
      notices.append(.message(PhoneMessage(.error, text)))
      return
    }
    guard let short = try? MuxHeader(version: .one, from: bytes, at: 0) else {
      return violations.add(.wrongLength(field: 0, transfer: bytes.count))
    }
    guard short.length == bytes.count else {
      return violations.add(.wrongLength(field: Int(short.length), transfer: bytes.count))
    }
    switch (MuxContent(rawValue: short.content), state) {
    case (.version, _):
      receiveVersion(bytes.extracting(droppingFirst: MuxHeader.shortSize))
    case (.setup, .awaitingSetup):
      receiveSetup(bytes)
    case (.tcp, .active(let version)):
      guard checkNumbers(bytes, version: version) else { return }
      receiveSegment(bytes.extracting(droppingFirst: MuxHeader.size(version)))
    case (.setup, _), (.tcp, _):
      violations.add(.trafficBeforeSetup(content: short.content))
    case (.control, _), (nil, _):
      violations.add(.unknownContent(short.content))
    }
  }

  private mutating func receiveVersion(_ body: Span<UInt8>) {
    guard body.count == VersionMessage.size, let offer = try? VersionMessage(from: body),
      offer == VersionMessage(major: 2)
    else {
      return violations.add(.malformedVersion)
    }
    versionsSeen += 1
    guard versionsSeen > behaviour.ignoredVersions else { return }
    for number in 0..<behaviour.stalePackets {
      notices.append(.stale(number: number))
    }
    notices.append(.version(behaviour.version))
    switch MuxVersion(rawValue: behaviour.version) {
    case .one:
      activate(.one)
    case .two:
      state = .awaitingSetup
    case nil:
      state = .awaitingVersion
    }
  }

  /// "SETUP resets tx_seq to 0 (SETUP itself carries 0) and sends rx_seq 0xffff."
  private mutating func receiveSetup(_ bytes: Span<UInt8>) {
    expectedNumber = 0
    lastEcho = 0xffff
    nextNumber = 0
    guard checkNumbers(bytes, version: .two) else { return }
    let body = bytes.extracting(droppingFirst: MuxHeader.longSize)
    guard body.count == SetupMessage.size, body[0] == SetupMessage.value else {
      return violations.add(.malformedSetup)
    }
    activate(.two)
  }

  private mutating func activate(_ version: MuxVersion) {
    state = .active(version)
    notices.append(contentsOf: behaviour.messages.map { .message($0) })
  }

  private mutating func checkNumbers(_ bytes: Span<UInt8>, version: MuxVersion) -> Bool {
    guard let header = try? MuxHeader(version: version, from: bytes, at: 0) else {
      violations.add(.wrongLength(field: bytes.count, transfer: bytes.count))
      return false
    }
    guard let numbers = header.numbers else { return true }
    guard numbers.magic == MuxHeader.magic else {
      violations.add(.wrongMagic(numbers.magic))
      return false
    }
    if numbers.transmitted != expectedNumber {
      violations.add(.wrongPacketNumber(expected: expectedNumber, found: numbers.transmitted))
    }
    expectedNumber = numbers.transmitted &+ 1
    // It may lag behind what was sent, but not run ahead of it, nor go back.
    let lag = (nextNumber &- 1) &- numbers.received
    let progress = numbers.received &- lastEcho
    if lag >= 0x8000 || progress >= 0x8000 {
      violations.add(.wrongReceivedNumber(numbers.received))
    }
    lastEcho = numbers.received
    return true
  }

  private mutating func receiveSegment(_ bytes: Span<UInt8>) {
    guard let segment = try? SegmentHeader(from: bytes, at: 0),
      segment.dataOffset == SegmentHeader.ordinaryDataOffset,
      bytes[16] | bytes[17] | bytes[18] | bytes[19] == 0
    else {
      return violations.add(.malformedSegment)
    }
    let payload = bytes.extracting(droppingFirst: SegmentHeader.size)
    let pair = Self.pair(hostPort: segment.source, devicePort: segment.destination)
    if let index = indices[pair] {
      receive(segment, payload, index: index)
    } else if segment.flags == .syn {
      open(segment, payloadCount: payload.count, pair: pair)
    } else {
      strangers += 1
      if !segment.flags.contains(.rst) { answer(segment) }
    }
  }

  private mutating func open(_ segment: SegmentHeader, payloadCount: Int, pair: UInt32) {
    guard segment.sequence.value == 0, segment.acknowledgement.value == 0, payloadCount == 0,
      segment.source != 0
    else {
      return violations.add(.malformedSYN)
    }
    guard indices.count < behaviour.maximumSessions else { return answer(segment) }
    let index = vacant.popLast() ?? sessions.count
    let id = PhoneSessionID(index: index, serial: nextSerial)
    nextSerial += 1
    let session = PhoneSession(id: id, syn: segment, behaviour: behaviour)
    if index < sessions.count {
      sessions[index] = session
    } else {
      sessions.append(session)
    }
    indices[pair] = index
    events.append(.opening(id, port: segment.destination))
  }

  private mutating func receive(_ segment: SegmentHeader, _ payload: Span<UInt8>, index: Int) {
    if segment.flags.contains(.rst) {
      return receiveReset(segment, index: index)
    }
    guard !segment.flags.contains(.syn) else {
      return violations.add(.portInUse(hostPort: segment.source))
    }
    // "Hosts use no FIN and no half-close on this link", and nothing before SYN|ACK.
    guard segment.flags == .ack, !sessions[index].owesSYN else {
      return violations.add(.unexpectedFlags(segment.flags))
    }
    if let violation = sessions[index].receive(segment, payloadCount: payload.count) {
      return violations.add(violation)
    }
    ready.append(index)
    guard payload.count > 0 else { return }
    sessions[index].owesAcknowledgement = true
    // An app that has closed reads no more.
    guard sessions[index].state == .open else { return }
    _ = sessions[index].inbox.append(payload)
    if !sessions[index].announcedReadable {
      sessions[index].announcedReadable = true
      events.append(.readable(sessions[index].id))
    }
  }

  private mutating func receiveReset(_ segment: SegmentHeader, index: Int) {
    var session = sessions[index]
    // A restarted host answers what it does not know with sequence 0.
    if segment.sequence != session.received, segment.sequence.value != 0 {
      violations.add(
        .wrongSequence(expected: session.received.value, found: segment.sequence.value))
    }
    remove(index)
    switch session.state {
    case .opening, .open:
      // "The link keeps order": what came before the reset has been acknowledged, and the app gets it.
      var unread = ContiguousArray<UInt8>()
      session.inbox.move(session.inbox.count, to: &unread)
      events.append(.closed(session.id, unread: unread))
    case .refused, .draining, .finished, .closed: break
    }
  }

  private mutating func answer(_ segment: SegmentHeader) {
    notices.append(
      .reset(
        SegmentHeader(
          source: segment.destination, destination: segment.source, sequence: SequenceNumber(0),
          acknowledgement: segment.sequence, flags: .rst, window: ScaledWindow(units: 0))))
  }

  // MARK: Sessions

  private static func pair(hostPort: UInt16, devicePort: UInt16) -> UInt32 {
    UInt32(hostPort) << 16 | UInt32(devicePort)
  }

  /// Forgets a session and everything that waits in it.
  mutating func remove(_ index: Int) {
    guard sessions[index].state != .closed else { return }
    let pair = Self.pair(hostPort: sessions[index].hostPort, devicePort: sessions[index].devicePort)
    indices[pair] = nil
    ready.remove(index)
    sessions[index].close()
    vacant.append(index)
  }

  private func index(of id: PhoneSessionID) -> Int? {
    guard id.index < sessions.count, sessions[id.index].id == id,
      sessions[id.index].state != .closed
    else { return nil }
    return id.index
  }

  /// What happened next, or nil.
  package mutating func nextEvent() -> PhoneEvent? { events.next() }

  /// The app listens: SYN|ACK is sent.
  package mutating func accept(_ session: PhoneSessionID) {
    guard let index = index(of: session), sessions[index].state == .opening else { return }
    sessions[index].state = .open
    ready.append(index)
  }

  /// Nobody listens: RST is sent, with a text if there is one.
  package mutating func refuse(_ session: PhoneSessionID, reason: String) {
    guard let index = index(of: session), sessions[index].state == .opening else { return }
    sessions[index].state = .refused(reason: reason)
    ready.append(index)
  }

  /// Lets `body` see what the host sent, if anything; it returns how many bytes it took, which makes
  /// room in the window.
  package mutating func read(_ session: PhoneSessionID, _ body: (Span<UInt8>) -> Int) {
    guard let index = index(of: session), !sessions[index].inbox.isEmpty else { return }
    sessions[index].inbox.take(body)
    if sessions[index].inbox.isEmpty { sessions[index].announcedReadable = false }
    if sessions[index].hasNews { ready.append(index) }
  }

  /// Lets `body` append bytes for the host to an array, at most as many as it is told. If it fills
  /// the room, ``PhoneEvent/writable(_:)`` follows.
  package mutating func write(
    _ session: PhoneSessionID, _ body: (_ bytes: inout ContiguousArray<UInt8>, _ limit: Int) -> Void
  ) {
    guard let index = index(of: session), sessions[index].state == .open else { return }
    sessions[index].outbox.append(body)
    if sessions[index].outbox.room == 0 { sessions[index].wantsRoom = true }
    ready.append(index)
  }

  /// Writes bytes for the host and returns how many of them were taken. If not all,
  /// ``PhoneEvent/writable(_:)`` follows.
  package mutating func write(_ session: PhoneSessionID, _ bytes: Span<UInt8>) -> Int {
    guard let index = index(of: session), sessions[index].state == .open else { return 0 }
    let count = sessions[index].outbox.append(bytes)
    if count < bytes.count { sessions[index].wantsRoom = true }
    ready.append(index)
    return count
  }

  /// Ends a session behind everything that was written. No event about it follows.
  package mutating func close(_ session: PhoneSessionID) {
    guard let index = index(of: session) else { return }
    switch sessions[index].state {
    case .opening:
      refuse(session, reason: "")
    case .open:
      sessions[index].state = .draining
      ready.append(index)
    case .refused, .draining, .finished, .closed:
      break
    }
  }

  /// The outbox has shrunk: tell the app if it waits for that.
  mutating func announceRoom(_ index: Int) {
    let session = sessions[index].id
    guard sessions[index].wantsRoom, sessions[index].state == .open,
      sessions[index].outbox.room >= sessions[index].outbox.capacity / 2
    else { return }
    sessions[index].wantsRoom = false
    events.append(.writable(session))
  }
}
