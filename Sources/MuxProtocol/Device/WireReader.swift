/// Bytes that end too early, and where.
package struct TruncatedField: Error, Equatable, Sendable {
  /// Offset of the field's first byte in the bytes that were read.
  package var offset: Int
  /// Size of the field in bytes.
  package var size: Int
}

/// Reads big-endian fields one after another.
///
/// It holds an offset only. The bytes are passed to each call, so that a reader can be stored, and
/// no pointer is.
struct WireReader {
  /// Offset of the next field.
  private(set) var offset: Int

  init(offset: Int = 0) {
    self.offset = offset
  }

  private mutating func take(_ size: Int, from bytes: Span<UInt8>) throws(TruncatedField) -> Int {
    guard offset >= 0, bytes.count - offset >= size else {
      throw TruncatedField(offset: offset, size: size)
    }
    defer { offset += size }
    return offset
  }

  mutating func uint8(from bytes: Span<UInt8>) throws(TruncatedField) -> UInt8 {
    bytes[try take(1, from: bytes)]
  }

  mutating func uint16(from bytes: Span<UInt8>) throws(TruncatedField) -> UInt16 {
    let start = try take(2, from: bytes)
    return UInt16(bytes[start]) << 8 | UInt16(bytes[start + 1])
  }

  mutating func uint32(from bytes: Span<UInt8>) throws(TruncatedField) -> UInt32 {
    let start = try take(4, from: bytes)
    return UInt32(bytes[start]) << 24 | UInt32(bytes[start + 1]) << 16
      | UInt32(bytes[start + 2]) << 8 | UInt32(bytes[start + 3])
  }
}

/// Appending big-endian fields. The caller has checked that there is room.
extension OutputSpan<UInt8> {
  mutating func append(bigEndian value: UInt16) {
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value))
  }

  mutating func append(bigEndian value: UInt32) {
    append(UInt8(truncatingIfNeeded: value >> 24))
    append(UInt8(truncatingIfNeeded: value >> 16))
    append(UInt8(truncatingIfNeeded: value >> 8))
    append(UInt8(truncatingIfNeeded: value))
  }
}
