/// A position in one direction of a session, counted in bytes, modulo 2^32.
///
/// Sessions live longer than 4 GiB, so positions are never compared as plain numbers.
package struct SequenceNumber: Hashable, Sendable {
  /// The number on the wire.
  package var value: UInt32

  package init(_ value: UInt32) {
    self.value = value
  }

  /// The position `count` bytes further on.
  package static func + (position: SequenceNumber, count: UInt32) -> SequenceNumber {
    SequenceNumber(position.value &+ count)
  }

  package static func += (position: inout SequenceNumber, count: UInt32) {
    position = position + count
  }

  /// How far `position` lies after `earlier`, negative if before it. Right when the true distance
  /// is below 2 GiB; windows end at 16 MiB.
  package static func - (position: SequenceNumber, earlier: SequenceNumber) -> Int {
    Int(Int32(bitPattern: position.value &- earlier.value))
  }
}
