/// The flags of a TCP segment.
package struct TCPFlags: OptionSet, Hashable, Sendable {
  package let rawValue: UInt8

  package init(rawValue: UInt8) {
    self.rawValue = rawValue
  }

  package static let fin = TCPFlags(rawValue: 0x01)
  package static let syn = TCPFlags(rawValue: 0x02)
  package static let rst = TCPFlags(rawValue: 0x04)
  package static let psh = TCPFlags(rawValue: 0x08)
  package static let ack = TCPFlags(rawValue: 0x10)
  package static let urg = TCPFlags(rawValue: 0x20)
}

/// A window as it stands in a segment: in units of 256 bytes.
package struct ScaledWindow: Hashable, Sendable {
  /// The number on the wire.
  package var units: UInt16

  package init(units: UInt16) {
    self.units = units
  }

  /// The largest window that does not offer more than `byteCount` bytes.
  package init(roundingDown byteCount: Int) {
    units = UInt16(clamping: byteCount / Self.unit)
  }

  /// Bytes in one unit.
  package static let unit = 256
  /// The largest window in bytes.
  package static let maximumByteCount = Int(UInt16.max) * unit

  /// The window in bytes.
  package var byteCount: UInt32 {
    UInt32(units) << 8
  }
}

/// The header of a TCP segment, big-endian, 20 bytes:
///
///     u16 source, u16 destination, u32 sequence, u32 acknowledgement,
///     u4 data offset in words, u4 0, u8 flags, u16 window, u16 checksum (0), u16 urgent (0)
package struct SegmentHeader: Equatable, Sendable {
  package var source: UInt16
  package var destination: UInt16
  package var sequence: SequenceNumber
  package var acknowledgement: SequenceNumber
  package var flags: TCPFlags
  package var window: ScaledWindow
  /// Length of the header in 32-bit words: 5, as no options are used on this link.
  package var dataOffset: UInt8

  package init(
    source: UInt16, destination: UInt16, sequence: SequenceNumber, acknowledgement: SequenceNumber,
    flags: TCPFlags, window: ScaledWindow, dataOffset: UInt8 = Self.ordinaryDataOffset
  ) {
    self.source = source
    self.destination = destination
    self.sequence = sequence
    self.acknowledgement = acknowledgement
    self.flags = flags
    self.window = window
    self.dataOffset = dataOffset
  }

  /// Bytes of the header.
  package static let size = 20
  /// The only data offset in use.
  package static let ordinaryDataOffset: UInt8 = 5

  /// Reads a header that begins at `offset`.
  package init(from bytes: Span<UInt8>, at offset: Int) throws(TruncatedField) {
    var reader = WireReader(offset: offset)
    source = try reader.uint16(from: bytes)
    destination = try reader.uint16(from: bytes)
    sequence = SequenceNumber(try reader.uint32(from: bytes))
    acknowledgement = SequenceNumber(try reader.uint32(from: bytes))
    dataOffset = try reader.uint8(from: bytes) >> 4
    flags = TCPFlags(rawValue: try reader.uint8(from: bytes))
    window = ScaledWindow(units: try reader.uint16(from: bytes))
    _ = try reader.uint32(from: bytes)
  }

  /// Appends the header's ``size`` bytes; there must be room for them.
  package func encode(into output: inout OutputSpan<UInt8>) {
    output.append(bigEndian: source)
    output.append(bigEndian: destination)
    output.append(bigEndian: sequence.value)
    output.append(bigEndian: acknowledgement.value)
    output.append(dataOffset << 4)
    output.append(flags.rawValue)
    output.append(bigEndian: window.units)
    output.append(bigEndian: 0 as UInt32)
  }
}
