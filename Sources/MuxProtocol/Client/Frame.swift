/// The header before every message between a program and the daemon, little-endian:
///
///     u32 length (header included), u32 version, u32 message, u32 tag
package struct FrameHeader: Hashable, Sendable {
  /// Bytes of a header.
  package static let size = 16

  /// Bytes of the whole frame.
  package var length: UInt32
  package var version: UInt32
  package var message: UInt32
  package var tag: UInt32
}

/// The two forms in which messages are written.
package enum Dialect: Hashable, Sendable {
  /// Version 0: fixed layouts.
  case binary
  /// Version 1: message 8, and a property list as the body.
  case propertyList

  /// The version that a frame in this dialect announces.
  package var version: UInt32 {
    switch self {
    case .binary: 0
    case .propertyList: 1
    }
  }
}

/// One message, not yet understood.
package struct Frame: Hashable, Sendable {
  /// The message number of every property list.
  package static let propertyListMessage: UInt32 = 8

  package var version: UInt32
  package var message: UInt32
  /// A reply carries the tag of its request; an unsolicited message has tag 0.
  package var tag: UInt32
  package var body: [UInt8]

  package init(version: UInt32, message: UInt32, tag: UInt32, body: [UInt8]) {
    self.version = version
    self.message = message
    self.tag = tag
    self.body = body
  }

  /// A property list's frame says so by its message number. Daemons have been seen to put version 0 into
  /// such frames, so the version does not decide.
  package var dialect: Dialect {
    message == Self.propertyListMessage ? .propertyList : .binary
  }
}

/// How many bytes a frame may have, header included.
package enum FrameLimit {
  /// For what a daemon accepts from programs.
  package static let request = 1 << 20
  /// For what a program accepts from a daemon: pair records and device lists can be larger.
  package static let reply = 4 << 20
}

/// A frame as it is sent. The tag can be changed without encoding the rest again.
package struct EncodedFrame: Hashable, Sendable {
  /// Header and body.
  package private(set) var bytes: [UInt8]

  package init(_ frame: Frame) {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(FrameHeader.size + frame.body.count)
    // Bodies are made by this module and are far below 4 GiB.
    let length = UInt32(truncatingIfNeeded: FrameHeader.size + frame.body.count)
    for field in [length, frame.version, frame.message, frame.tag] {
      bytes.append(littleEndian: field)
    }
    bytes.append(contentsOf: frame.body)
    self.bytes = bytes
  }

  /// The tag in the header.
  package var tag: UInt32 {
    get {
      (0..<4).reversed().reduce(0) { $0 << 8 | UInt32(bytes[12 + $1]) }
    }
    set {
      for offset in 0..<4 {
        bytes[12 + offset] = UInt8(truncatingIfNeeded: newValue >> (8 * offset))
      }
    }
  }
}

extension [UInt8] {
  mutating func append(littleEndian value: some FixedWidthInteger) {
    for shift in stride(from: 0, to: value.bitWidth, by: 8) {
      append(UInt8(truncatingIfNeeded: value >> shift))
    }
  }
}
