/// The versions of the device protocol that a link can speak.
package enum MuxVersion: UInt32, Equatable, Sendable {
  /// Eight-byte headers; old phones and players.
  case one = 1
  /// Sixteen-byte headers with a magic number and packet numbers.
  case two = 2
}

/// What a mux packet carries. Other numbers occur on the wire and are skipped.
package enum MuxContent: UInt32, Equatable, Sendable {
  /// The link's first exchange.
  case version = 0
  /// A message for the log.
  case control = 1
  /// Starts a version 2 link.
  case setup = 2
  /// A segment of a session.
  case tcp = 6
}

/// The header of a mux packet.
///
///     version 1, and VERSION always:  u32 protocol, u32 length
///     version 2:                      u32 protocol, u32 length, u32 magic, u16 tx_seq, u16 rx_seq
///
/// Big-endian. `length` counts the whole packet, header included.
package struct MuxHeader: Equatable, Sendable {
  /// What only version 2 headers have.
  package struct Numbers: Equatable, Sendable {
    /// 0xfeedface, unless something is wrong.
    package var magic: UInt32
    /// Counts the packets of the sender.
    package var transmitted: UInt16
    /// `tx_seq` of the last packet that the sender received.
    package var received: UInt16

    package init(magic: UInt32 = MuxHeader.magic, transmitted: UInt16, received: UInt16) {
      self.magic = magic
      self.transmitted = transmitted
      self.received = received
    }
  }

  /// The `protocol` field as it stands on the wire.
  package var content: UInt32
  /// Bytes of the whole packet.
  package var length: UInt32
  /// The version 2 fields; nil in an eight-byte header.
  package var numbers: Numbers?

  package init(content: MuxContent, length: UInt32, numbers: Numbers? = nil) {
    self.content = content.rawValue
    self.length = length
    self.numbers = numbers
  }

  package init(content: UInt32, length: UInt32, numbers: Numbers? = nil) {
    self.content = content
    self.length = length
    self.numbers = numbers
  }

  /// The magic number of version 2 headers.
  package static let magic: UInt32 = 0xfeed_face
  /// Bytes of a version 1 header.
  package static let shortSize = 8
  /// Bytes of a version 2 header.
  package static let longSize = 16
  /// The longest packet that may occur on a link, in bytes.
  package static let maximumLength: UInt32 = 65536

  /// Bytes of a header of the given version.
  package static func size(_ version: MuxVersion) -> Int {
    switch version {
    case .one: shortSize
    case .two: longSize
    }
  }

  /// Bytes of this header.
  package var size: Int {
    numbers == nil ? Self.shortSize : Self.longSize
  }

  /// Reads a header that begins at `offset`.
  package init(version: MuxVersion, from bytes: Span<UInt8>, at offset: Int) throws(TruncatedField) {
    var reader = WireReader(offset: offset)
    content = try reader.uint32(from: bytes)
    length = try reader.uint32(from: bytes)
    switch version {
    case .one:
      numbers = nil
    case .two:
      let magic = try reader.uint32(from: bytes)
      let transmitted = try reader.uint16(from: bytes)
      let received = try reader.uint16(from: bytes)
      numbers = Numbers(magic: magic, transmitted: transmitted, received: received)
    }
  }

  /// Appends the header's ``size`` bytes; there must be room for them.
  package func encode(into output: inout OutputSpan<UInt8>) {
    output.append(bigEndian: content)
    output.append(bigEndian: length)
    if let numbers {
      output.append(bigEndian: numbers.magic)
      output.append(bigEndian: numbers.transmitted)
      output.append(bigEndian: numbers.received)
    }
  }
}
