/// Blocks of a pcapng file, in the order in which they are appended.
///
/// The layouts are those of draft-ietf-opsawg-pcapng, with numbers in little-endian order. Every block is
///
///     0  type                              4 bytes
///     4  length of the whole block         4
///     8  body, padded to a multiple of 4
///     -  length of the whole block again   4
///
/// and options at the end of a body are each
///
///     0  code        2 bytes
///     2  length      2, without the padding
///     4  value, padded to a multiple of 4
package struct PcapngBlocks: Sendable {
  /// What has been appended since the last ``removeAll()``.
  package private(set) var bytes: [UInt8] = []

  private enum BlockType {
    static let section: UInt32 = 0x0a0d_0d0a
    static let interface: UInt32 = 1
    static let statistics: UInt32 = 5
    static let packet: UInt32 = 6
  }

  private enum Option {
    static let end: UInt16 = 0
    static let comment: UInt16 = 1
    /// Of a section header: the program that writes.
    static let application: UInt16 = 4
    /// Of an interface: its name.
    static let name: UInt16 = 2
    /// Of an interface: the unit of times, 10^-n seconds.
    static let timeResolution: UInt16 = 9
    /// Of statistics: packets that came by.
    static let received: UInt16 = 4
    /// Of statistics: those of them that were dropped.
    static let dropped: UInt16 = 5
  }

  /// LINKTYPE_RAW: a packet begins with its IPv4 or IPv6 header.
  private static let rawIP: UInt16 = 101
  /// Bytes of a comment or name that are kept.
  private static let longestText = 1000

  package init() {}

  package mutating func removeAll() { bytes.removeAll(keepingCapacity: true) }

  /// The beginning of a file, and its one interface.
  package mutating func begin(application: String, interface: String) {
    block(BlockType.section) { body in
      body.append(UInt32(0x1a2b_3c4d))
      // Version 1.0; how long the section is nobody knows yet.
      body.append(UInt16(1))
      body.append(UInt16(0))
      body.append(UInt64.max)
      body.option(Option.application, text: application)
      body.endOptions()
    }
    block(BlockType.interface) { body in
      body.append(Self.rawIP)
      body.append(UInt16(0))
      // Packets are never cut.
      body.append(UInt32(0))
      body.option(Option.name, text: interface)
      body.option(Option.timeResolution, [9])
      body.endOptions()
    }
  }

  /// A packet of `length` bytes, which `body` appends. `time` is in nanoseconds since 1970.
  mutating func packet(
    at time: UInt64, length: Int, comment: String?, _ body: (inout PcapngBlocks) -> Void
  ) {
    block(BlockType.packet) { block in
      block.append(UInt32(0))
      block.append(time: time)
      block.append(UInt32(truncatingIfNeeded: length))
      block.append(UInt32(truncatingIfNeeded: length))
      body(&block)
      block.pad()
      if let comment {
        block.option(Option.comment, text: comment)
        block.endOptions()
      }
    }
  }

  /// How many packets there have been since the beginning, those that were dropped included.
  package mutating func statistics(at time: UInt64, received: UInt64, dropped: UInt64) {
    block(BlockType.statistics) { body in
      body.append(UInt32(0))
      body.append(time: time)
      body.option(Option.received) { $0.append(received) }
      body.option(Option.dropped) { $0.append(dropped) }
      body.endOptions()
    }
  }

  // MARK: Parts

  private mutating func block(_ type: UInt32, _ body: (inout PcapngBlocks) -> Void) {
    let start = bytes.count
    append(type)
    append(UInt32(0))
    body(&self)
    let length = UInt32(truncatingIfNeeded: bytes.count - start + 4)
    replace(length, at: start + 4)
    append(length)
  }

  private mutating func option(_ code: UInt16, text: String) {
    option(code, Array(text.utf8.prefix(Self.longestText)))
  }

  private mutating func option(_ code: UInt16, _ value: [UInt8]) {
    option(code) { $0.bytes += value }
  }

  private mutating func option(_ code: UInt16, _ value: (inout PcapngBlocks) -> Void) {
    append(code)
    append(UInt16(0))
    let start = bytes.count
    value(&self)
    replace(UInt16(truncatingIfNeeded: bytes.count - start), at: start - 2)
    pad()
  }

  private mutating func endOptions() {
    append(Option.end)
    append(UInt16(0))
  }

  /// Blocks begin at multiples of 4, so what is appended so far tells the padding.
  private mutating func pad() {
    while !bytes.count.isMultiple(of: 4) { bytes.append(0) }
  }

  /// The upper half comes first.
  private mutating func append(time: UInt64) {
    append(UInt32(truncatingIfNeeded: time >> 32))
    append(UInt32(truncatingIfNeeded: time))
  }

  private mutating func append(_ number: some FixedWidthInteger) {
    for index in 0..<(number.bitWidth / 8) { bytes.append(UInt8(truncatingIfNeeded: number >> (8 * index))) }
  }

  private mutating func replace(_ number: some FixedWidthInteger, at offset: Int) {
    for index in 0..<(number.bitWidth / 8) {
      bytes[offset + index] = UInt8(truncatingIfNeeded: number >> (8 * index))
    }
  }

  // MARK: For packets, whose numbers are big-endian

  mutating func appendNetwork(_ number: some FixedWidthInteger) {
    var shift = number.bitWidth
    while shift > 0 {
      shift -= 8
      bytes.append(UInt8(truncatingIfNeeded: number >> shift))
    }
  }

  mutating func append(_ more: ArraySlice<UInt8>) { bytes += more }

  mutating func replaceNetwork(_ number: UInt16, at offset: Int) {
    bytes[offset] = UInt8(truncatingIfNeeded: number >> 8)
    bytes[offset + 1] = UInt8(truncatingIfNeeded: number)
  }
}
