/// The checksum of IP and TCP headers (RFC 1071): the ones' complement of the ones' complement sum of 16-bit words.
struct InternetChecksum {
  /// The sum of big-endian words so far.
  private var sum: UInt64 = 0

  /// Adds a number as the words of its bytes in network order.
  mutating func add(_ number: some FixedWidthInteger & UnsignedInteger) {
    var rest = UInt64(truncatingIfNeeded: number)
    while rest != 0 {
      sum &+= rest & 0xffff
      rest >>= 16
    }
  }

  /// Adds bytes, the first of which is the upper half of a word; at most a packet's.
  mutating func add(_ bytes: UnsafeRawBufferPointer) {
    // The sum does not depend on the order of bytes within words, only its own order does (RFC 1071, 2.B), so that
    // eight bytes are taken at a time.
    var little: UInt64 = 0
    var offset = 0
    while offset + 8 <= bytes.count {
      let eight = UInt64(littleEndian: unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self))
      little &+= (eight & 0xffff_ffff) &+ (eight >> 32)
      offset += 8
    }
    while offset < bytes.count {
      let byte = UInt64(unsafe bytes[offset])
      little &+= offset.isMultiple(of: 2) ? byte : byte << 8
      offset += 1
    }
    sum &+= UInt64(Self.fold(little).byteSwapped)
  }

  /// What stands in the header.
  var value: UInt16 { ~Self.fold(sum) }

  private static func fold(_ sum: UInt64) -> UInt16 {
    var sum = sum
    while sum > 0xffff { sum = (sum & 0xffff) &+ (sum >> 16) }
    return UInt16(truncatingIfNeeded: sum)
  }
}
