/// What the host may send on a session.
///
///     unacknowledged        next              edge
///     ------|-----------------|-----------------|------
///           sent, not acked      may be sent
///
/// "Never have more than the peer's window unacknowledged": `edge` is the acknowledgement of the last
/// segment plus the window in it.
struct SendWindow: Equatable, Sendable {
  private var unacknowledged: SequenceNumber
  /// The number of the next byte to send.
  private(set) var next: SequenceNumber
  private var edge: SequenceNumber

  init(next: SequenceNumber, window: ScaledWindow) {
    unacknowledged = next
    self.next = next
    edge = next + window.byteCount
  }

  /// Bytes that may be sent now. A device may take back room that it had offered: then none.
  var room: Int {
    max(edge - next, 0)
  }

  /// `count` bytes, at most ``room``, are on their way.
  mutating func send(_ count: Int) {
    next += UInt32(truncatingIfNeeded: count)
  }

  /// Takes in an acknowledgement. The link keeps order, so the last one says what holds; one that lies
  /// before an earlier one is nothing to go by and is passed over.
  ///
  /// - Returns: By how many bytes the acknowledgement exceeds what was sent, or nil if all is well.
  mutating func acknowledge(_ number: SequenceNumber, window: ScaledWindow) -> Int? {
    let excess = number - next
    guard excess <= 0 else { return excess }
    guard number - unacknowledged >= 0 else { return nil }
    unacknowledged = number
    edge = number + window.byteCount
    return nil
  }
}

/// What the device may send on a session.
///
///     acknowledged    consumed        next           acknowledged + size
///     -----|-------------|--------------|------------------|------
///          taken by the    waiting for     may be sent
///          local reader    the reader
///
/// "Acknowledge what the local reader has really taken, not merely what has arrived": then a slow
/// reader holds back its own session only. The advertised window never changes; its right edge moves
/// because the acknowledgement does.
struct ReceiveWindow: Equatable, Sendable {
  let window: ScaledWindow
  /// The number of the next byte to come.
  private(set) var next: SequenceNumber
  private var consumed: SequenceNumber
  private var acknowledged: SequenceNumber

  init(next: SequenceNumber, window: ScaledWindow) {
    self.window = window
    self.next = next
    consumed = next
    acknowledged = next
  }

  /// Bytes that the device may send by what it has been told.
  var room: Int {
    (acknowledged + window.byteCount) - next
  }

  /// Bytes that the reader has taken and the device has not been told of.
  var unacknowledged: Int {
    consumed - acknowledged
  }

  /// `count` bytes, at most ``room``, have come.
  mutating func receive(_ count: Int) {
    next += UInt32(truncatingIfNeeded: count)
  }

  /// The reader took `count` bytes more; never more than have come.
  mutating func consume(_ count: Int) {
    consumed += UInt32(truncatingIfNeeded: min(max(count, 0), next - consumed))
  }

  /// The number for a segment that is sent now.
  mutating func acknowledge() -> SequenceNumber {
    acknowledged = consumed
    return acknowledged
  }
}
