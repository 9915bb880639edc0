/// One session of a link: a stream between a port of the host's end and a port of the device.
struct Session: Sendable {
  enum State: Equatable, Sendable {
    /// SYN is queued or sent; SYN|ACK or RST will answer it.
    case connecting(synSent: Bool)
    /// Segments flow both ways.
    case open(SendWindow, ReceiveWindow)
    /// The device sent RST, and the text in it is still coming in.
    case ended
    /// The host sends RST as soon as it can. Until then the port pair stays taken.
    case closing(sequence: SequenceNumber, acknowledgement: SequenceNumber)
    /// Nothing is left of it on the link.
    case closed
  }

  let id: SessionID
  let devicePort: UInt16
  private(set) var state: State

  init(id: SessionID, devicePort: UInt16) {
    self.id = id
    self.devicePort = devicePort
    state = .connecting(synSent: false)
  }

  /// The number of the host's SYN.
  static let initialSequence = SequenceNumber(0)
  private static let firstSequence = initialSequence + 1

  /// What a segment did to the session.
  enum Verdict: Equatable {
    /// The session is over on this side; the segment crossed with its RST.
    case ignored
    /// The device cannot know of the session yet: it means one of an earlier host.
    case stranger
    /// The device accepted the session. Payload, if any, is for the reader.
    case opened
    /// The device refused the session. Payload is a text.
    case refused
    /// An ordinary segment. Payload, if any, is for the reader.
    case continued(roomGrew: Bool)
    /// The last segment with payload.
    case finished(roomGrew: Bool)
    /// The device reset the session. Payload is a text.
    case reset
    /// The device broke the protocol: the session must be reset. Payload is nobody's.
    case violated(SessionViolation)
  }

  /// Takes in a segment of this session's port pair, `payloadCount` bytes of payload follow it.
  ///
  /// `window` is what the session is to offer if this opens it. Room beyond `usefulRoom` bytes is not
  /// news.
  mutating func receive(
    _ segment: SegmentHeader, payloadCount: Int, window: ScaledWindow, usefulRoom: Int
  ) -> Verdict {
    switch state {
    case .connecting(synSent: false):
      return .stranger
    case .connecting(synSent: true):
      return receiveAnswer(segment, payloadCount: payloadCount, window: window)
    case .open(var send, var receive):
      if segment.flags.contains(.rst) {
        // "Close is RST, from either side." It is not checked further: whatever it says, the device
        // has forgotten the session.
        state = .ended
        return .reset
      }
      guard segment.dataOffset == SegmentHeader.ordinaryDataOffset else {
        return .violated(.malformedHeader(dataOffset: segment.dataOffset))
      }
      guard !segment.flags.contains(.syn) else {
        return .violated(.unexpectedFlags(segment.flags))
      }
      let roomBefore = send.room
      if segment.flags.contains(.ack),
        let excess = send.acknowledge(segment.acknowledgement, window: segment.window)
      {
        return .violated(.acknowledgedUnsent(by: excess))
      }
      if let violation = Self.take(payloadCount, of: segment, into: &receive) {
        return .violated(violation)
      }
      state = .open(send, receive)
      let roomGrew = roomBefore < usefulRoom && send.room > roomBefore
      return segment.flags.contains(.fin) ? .finished(roomGrew: roomGrew) : .continued(roomGrew: roomGrew)
    case .ended, .closing, .closed:
      return .ignored
    }
  }

  /// "Host sends SYN, device answers SYN|ACK or RST. SYN takes one number on each side."
  private mutating func receiveAnswer(
    _ segment: SegmentHeader, payloadCount: Int, window: ScaledWindow
  ) -> Verdict {
    if segment.flags.contains(.rst) {
      state = .ended
      return .refused
    }
    guard segment.dataOffset == SegmentHeader.ordinaryDataOffset else {
      return .violated(.malformedHeader(dataOffset: segment.dataOffset))
    }
    let flags = segment.flags
    guard flags.contains(.syn), flags.contains(.ack), !flags.contains(.fin) else {
      return .violated(.unexpectedFlags(segment.flags))
    }
    let excess = segment.acknowledgement - Self.firstSequence
    guard excess == 0 else {
      return .violated(.acknowledgedUnsent(by: excess))
    }
    var receive = ReceiveWindow(next: segment.sequence + 1, window: window)
    var payload = segment
    payload.sequence += 1
    if let violation = Self.take(payloadCount, of: payload, into: &receive) {
      return .violated(violation)
    }
    state = .open(SendWindow(next: Self.firstSequence, window: segment.window), receive)
    return .opened
  }

  /// Accounts for payload as soon as its header is there: whether it is delivered is decided before
  /// its first byte.
  private static func take(
    _ payloadCount: Int, of segment: SegmentHeader, into window: inout ReceiveWindow
  ) -> SessionViolation? {
    // "An ACK with neither payload nor news is legal", whatever number it carries.
    guard payloadCount > 0 || segment.flags.contains(.fin) else { return nil }
    // "The USB link is reliable and ordered": any other number means that bytes are missing.
    guard segment.sequence == window.next else {
      return .wrongSequence(expected: window.next.value, found: segment.sequence.value)
    }
    guard payloadCount <= window.room else {
      return .windowOverrun(by: payloadCount - window.room)
    }
    window.receive(payloadCount)
    return nil
  }

  /// Payload bytes that may be sent now.
  var room: Int {
    switch state {
    case .open(let send, _): send.room
    case .connecting, .ended, .closing, .closed: 0
    }
  }

  /// SYN is on its way.
  mutating func sentSYN() {
    state = .connecting(synSent: true)
  }

  /// Accounts for a segment with `payloadCount` bytes, at most ``room``, that is sent now.
  ///
  /// - Returns: Its numbers, or nil if the session is not open.
  mutating func send(_ payloadCount: Int) -> (sequence: SequenceNumber, acknowledgement: SequenceNumber)? {
    switch state {
    case .open(var send, var receive):
      let sequence = send.next
      send.send(payloadCount)
      let acknowledgement = receive.acknowledge()
      state = .open(send, receive)
      return (sequence, acknowledgement)
    case .connecting, .ended, .closing, .closed:
      return nil
    }
  }

  /// The local reader took `count` bytes.
  ///
  /// - Returns: Bytes that the device has not been told of since.
  mutating func consume(_ count: Int) -> Int {
    switch state {
    case .open(let send, var receive):
      receive.consume(count)
      state = .open(send, receive)
      return receive.unacknowledged
    case .connecting, .ended, .closing, .closed:
      return 0
    }
  }

  /// Ends the session from the host's side.
  ///
  /// - Returns: Whether the device must be told by a RST. Then ``closed()`` follows once it is sent.
  mutating func close() -> Bool {
    switch state {
    case .connecting(synSent: false), .ended, .closed:
      state = .closed
      return false
    case .connecting(synSent: true):
      state = .closing(sequence: Self.firstSequence, acknowledgement: SequenceNumber(0))
      return true
    case .open(let send, let receive):
      state = .closing(sequence: send.next, acknowledgement: receive.next)
      return true
    case .closing:
      return true
    }
  }

  /// Nothing is left to send.
  mutating func closed() {
    state = .closed
  }
}
