/// A capture file read back, written apart from what writes it so that a shared mistake shows.
package struct CaptureReader: Sendable {
  package struct Block: Sendable {
    package let type: UInt32
    /// Without type and lengths.
    package let body: [UInt8]
  }

  package struct Statistics: Equatable, Sendable {
    package var received: UInt64?
    package var dropped: UInt64?

    package init(received: UInt64? = nil, dropped: UInt64? = nil) {
      self.received = received
      self.dropped = dropped
    }
  }

  package private(set) var blocks: [Block] = []
  package private(set) var packets: [Packet] = []
  package private(set) var statistics: [Statistics] = []
  package private(set) var application: String?

  package init(_ bytes: [UInt8]) throws {
    var offset = 0
    while offset < bytes.count {
      guard offset + 12 <= bytes.count else { throw Malformed("a block is cut short at \(offset)") }
      let length = Int(Self.number(bytes, offset + 4, 4))
      guard length.isMultiple(of: 4), length >= 12, offset + length <= bytes.count else {
        throw Malformed("a block of \(length) bytes at \(offset) of \(bytes.count)")
      }
      guard Int(Self.number(bytes, offset + length - 4, 4)) == length else {
        throw Malformed("two lengths at \(offset)")
      }
      let block = Block(
        type: UInt32(Self.number(bytes, offset, 4)), body: Array(bytes[offset + 8..<offset + length - 4]))
      blocks.append(block)
      try take(block)
      offset += length
    }
  }

  private mutating func take(_ block: Block) throws {
    let body = block.body
    switch block.type {
    case 0x0a0d_0d0a:
      application = try Self.options(body[16...]).first { $0.code == 4 }.map {
        String(decoding: $0.value, as: UTF8.self)
      }
    case 1: break
    case 5:
      var statistics = Statistics()
      for option in try Self.options(body[12...]) {
        switch option.code {
        case 4: statistics.received = Self.number(option.value, 0, 8)
        case 5: statistics.dropped = Self.number(option.value, 0, 8)
        default: break
        }
      }
      self.statistics.append(statistics)
    case 6:
      let length = Int(Self.number(body, 12, 4))
      guard Self.number(body, 16, 4) == UInt64(length) else { throw Malformed("a packet is cut") }
      let padded = (length + 3) / 4 * 4
      var packet = try Packet(Array(body[20..<20 + length]))
      packet.time = Self.number(body, 4, 4) << 32 | Self.number(body, 8, 4)
      packet.comment = try Self.options(body[(20 + padded)...]).first { $0.code == 1 }
        .map { String(decoding: $0.value, as: UTF8.self) }
      packets.append(packet)
    default: throw Malformed("a block of type \(block.type)")
    }
  }

  private static func options(_ bytes: ArraySlice<UInt8>) throws -> [(code: UInt64, value: [UInt8])] {
    var rest = Array(bytes)
    var options: [(code: UInt64, value: [UInt8])] = []
    while !rest.isEmpty {
      let code = number(rest, 0, 2)
      let length = Int(number(rest, 2, 2))
      if code == 0 {
        guard length == 0, rest.count == 4 else { throw Malformed("something after the last option") }
        return options
      }
      options.append((code, Array(rest[4..<4 + length])))
      rest = Array(rest.dropFirst(4 + (length + 3) / 4 * 4))
    }
    guard options.isEmpty else { throw Malformed("options without an end") }
    return []
  }

  private static func number(_ bytes: [UInt8], _ offset: Int, _ count: Int) -> UInt64 {
    (0..<count).reduce(0) { $0 | UInt64(bytes[offset + $1]) << (8 * $1) }
  }
}

/// What is no capture file, or no packet.
package struct Malformed: Error, CustomStringConvertible {
  package let description: String
  init(_ what: String) { description = what }
}
