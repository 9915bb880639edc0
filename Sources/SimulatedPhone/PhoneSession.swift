import MuxProtocol

/// The phone's end of a session.
struct PhoneSession: Sendable {
  enum State: Equatable, Sendable {
    /// The host's SYN came; the app has not decided yet.
    case opening
    /// RST is to be sent in answer to SYN.
    case refused(reason: String)
    case open
    /// The app closed; what it wrote is still being sent.
    case draining
    /// FIN was sent; the host's RST will end it.
    case finished
    /// Nothing is left of it.
    case closed
  }

  let id: PhoneSessionID
  let hostPort: UInt16
  let devicePort: UInt16
  var state = State.opening
  /// What the host sent and the app has not read.
  var inbox: ByteQueue
  /// What the app wrote and was not sent.
  var outbox: ByteQueue
  /// Whether the app knows that there is something to read.
  var announcedReadable = false
  /// Whether the app was given less room than it wanted.
  var wantsRoom = false
  /// Whether SYN|ACK is still to be sent.
  var owesSYN = true
  var owesAcknowledgement = false

  /// The number of the next byte from the host.
  private(set) var received: SequenceNumber
  /// How far the host may send.
  private var offeredEdge: SequenceNumber
  private var sent: SequenceNumber
  private var acknowledged: SequenceNumber
  private var edge: SequenceNumber

  init(id: PhoneSessionID, syn: SegmentHeader, behaviour: PhoneBehaviour) {
    self.id = id
    hostPort = syn.source
    devicePort = syn.destination
    inbox = ByteQueue(capacity: behaviour.window)
    outbox = ByteQueue(capacity: behaviour.sendBuffer)
    received = syn.sequence + 1
    offeredEdge = received
    sent = SequenceNumber(behaviour.initialSequence)
    acknowledged = sent
    edge = sent + 1 + syn.window.byteCount
  }

  /// Payload bytes that the host's window still holds.
  var room: Int { max(edge - sent, 0) }

  /// Checks and takes in the numbers of a segment.
  mutating func receive(_ segment: SegmentHeader, payloadCount: Int) -> HostViolation? {
    guard segment.sequence == received else {
      return .wrongSequence(expected: received.value, found: segment.sequence.value)
    }
    let excess = segment.acknowledgement - sent
    guard excess <= 0 else { return .acknowledgedUnsent(by: excess) }
    let progress = segment.acknowledgement - acknowledged
    guard progress >= 0 else { return .acknowledgedLess(by: -progress) }
    let newEdge = segment.acknowledgement + segment.window.byteCount
    guard newEdge - edge >= 0 else { return .windowShrunk(by: edge - newEdge) }
    let overrun = payloadCount - (offeredEdge - received)
    guard payloadCount == 0 || overrun <= 0 else { return .windowOverrun(by: overrun) }
    acknowledged = segment.acknowledgement
    edge = newEdge
    received += UInt32(truncatingIfNeeded: payloadCount)
    return nil
  }

  /// Whether the host should hear how much room there is now, for it knows of much less.
  var hasNews: Bool {
    let gain = (received + offer.byteCount) - offeredEdge
    return gain > 0 && (inbox.isEmpty || gain >= inbox.capacity / 4)
  }

  private var offer: ScaledWindow { ScaledWindow(roundingDown: inbox.room) }

  /// The header for a segment that is sent now.
  mutating func segment(_ flags: TCPFlags, payloadCount: Int = 0) -> SegmentHeader {
    let window = offer
    let header = SegmentHeader(
      source: devicePort, destination: hostPort, sequence: sent, acknowledgement: received,
      flags: flags, window: window)
    // SYN and FIN take a number each.
    let numbers = flags.contains(.syn) || flags.contains(.fin) ? payloadCount + 1 : payloadCount
    sent += UInt32(truncatingIfNeeded: numbers)
    let newEdge = received + window.byteCount
    if newEdge - offeredEdge > 0 { offeredEdge = newEdge }
    owesAcknowledgement = false
    return header
  }

  /// Gives up everything that waits.
  mutating func close() {
    state = .closed
    inbox = ByteQueue(capacity: 0)
    outbox = ByteQueue(capacity: 0)
  }
}
