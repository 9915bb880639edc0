/// The body of a VERSION packet, from either side.
///
///     u32 major, u32 minor, u32 padding
package struct VersionMessage: Equatable, Sendable {
  /// What the host offers or the device speaks: 1 or 2.
  package var major: UInt32
  package var minor: UInt32

  package init(major: UInt32, minor: UInt32 = 0) {
    self.major = major
    self.minor = minor
  }

  /// Bytes of the body.
  package static let size = 12

  /// Reads a body; bytes after the two numbers are not looked at.
  package init(from bytes: Span<UInt8>) throws(TruncatedField) {
    var reader = WireReader()
    major = try reader.uint32(from: bytes)
    minor = try reader.uint32(from: bytes)
  }

  /// Appends the body's ``size`` bytes; there must be room for them.
  package func encode(into output: inout OutputSpan<UInt8>) {
    output.append(bigEndian: major)
    output.append(bigEndian: minor)
    output.append(bigEndian: 0 as UInt32)
  }
}

/// The body of a SETUP packet: one byte.
package enum SetupMessage {
  /// The byte that hosts send.
  package static let value: UInt8 = 0x07
  /// Bytes of the body.
  package static let size = 1
}

/// How grave a CONTROL message of the device is.
package enum ControlKind: Equatable, Sendable {
  case error
  case warning
  case information
  /// A kind that is not known.
  case other(UInt8)

  package init(_ byte: UInt8) {
    switch byte {
    case 3: self = .error
    case 5: self = .warning
    case 7: self = .information
    default: self = .other(byte)
    }
  }

  /// The byte on the wire.
  package var byte: UInt8 {
    switch self {
    case .error: 3
    case .warning: 5
    case .information: 7
    case .other(let byte): byte
    }
  }
}
