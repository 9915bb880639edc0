package import MuxProtocol

/// A rule of the device protocol that a host broke.
package enum HostViolation: Equatable, Sendable {
  /// A transfer whose length is a multiple of wMaxPacketSize was not followed by a zero-length packet,
  /// and was merged with the next one.
  case missingZeroLengthPacket(transfer: Int)
  /// A packet above 65535 bytes.
  case oversizedPacket(Int)
  /// A length field that is not the length of the transfer, or a transfer that is shorter than its headers.
  case wrongLength(field: Int, transfer: Int)
  case wrongMagic(UInt32)
  /// tx_seq is not one more than in the packet before.
  case wrongPacketNumber(expected: UInt16, found: UInt16)
  /// rx_seq names a packet that was not sent yet, or goes back.
  case wrongReceivedNumber(UInt16)
  case malformedVersion
  case malformedSetup
  /// Something other than VERSION and SETUP before those two were through.
  case trafficBeforeSetup(content: UInt32)
  case unknownContent(UInt32)
  /// A segment header with options, or with a checksum or urgent pointer.
  case malformedSegment
  /// A first SYN with flags, numbers or payload that it must not have.
  case malformedSYN
  /// A SYN for a pair of ports that is in use.
  case portInUse(hostPort: UInt16)
  /// Flags that have no meaning here: hosts send no FIN.
  case unexpectedFlags(TCPFlags)
  case wrongSequence(expected: UInt32, found: UInt32)
  case acknowledgedUnsent(by: Int)
  case acknowledgedLess(by: Int)
  /// The right edge of the host's window went back.
  case windowShrunk(by: Int)
  case windowOverrun(by: Int)
}

/// The first violations, and how many there were.
package struct ViolationLog: Sendable {
  package private(set) var first: [HostViolation] = []
  package private(set) var count = 0

  /// How many are kept.
  package static let limit = 32

  mutating func add(_ violation: HostViolation) {
    count += 1
    if first.count < Self.limit { first.append(violation) }
  }
}
