/// The packet numbers of a version 2 link.
///
/// "tx_seq counts packets sent on this link and goes up by one per packet. rx_seq is the tx_seq of the
/// last packet received from the other side. Wrap at 16 bits."
struct PacketNumbers: Sendable {
  enum Verdict: Equatable {
    case inOrder
    case gap(expected: UInt16)
    case repeated
  }

  private var nextTransmitted: UInt16 = 0
  /// "SETUP resets tx_seq to 0 and sends rx_seq 0xffff": nothing has been received.
  private var lastReceived: UInt16 = 0xffff
  private var expected: UInt16?

  /// A packet this little behind the expected one is one that came before. One that lies further
  /// behind means that the device counts anew, and a link must not go deaf over that.
  private static let repeatLimit: UInt16 = 16

  /// The numbers for a packet that is sent now.
  mutating func next() -> MuxHeader.Numbers {
    defer { nextTransmitted &+= 1 }
    return MuxHeader.Numbers(transmitted: nextTransmitted, received: lastReceived)
  }

  /// Takes in a packet's numbers. `isOurs` says whether the packet belongs to a session of this host:
  /// until the first one that does, packets of an earlier host's sessions may come, and their numbers
  /// say nothing.
  mutating func receive(_ numbers: MuxHeader.Numbers, isOurs: Bool) -> Verdict {
    let number = numbers.transmitted
    guard let expected else {
      lastReceived = number
      if isOurs { self.expected = number &+ 1 }
      return .inOrder
    }
    let behind = expected &- number
    if behind >= 1, behind <= Self.repeatLimit {
      return .repeated
    }
    lastReceived = number
    self.expected = number &+ 1
    return behind == 0 ? .inOrder : .gap(expected: expected)
  }
}
