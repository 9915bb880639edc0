import PacketCapture
import Testing

/// The bytes of a file, field by field.
@Suite("pcapng blocks")
struct PcapngBlocksTests {
  /// Named fields, so that a difference says which one it is in.
  private struct Field: Equatable {
    var name: String
    var bytes: [UInt8]

    init(_ name: String, _ bytes: [UInt8]) {
      self.name = name
      self.bytes = bytes
    }
  }

  /// Cuts `bytes` as long as the fields of `like` are.
  private func fields(_ bytes: [UInt8], like layout: [Field]) -> [Field] {
    var rest = bytes[...]
    var fields: [Field] = []
    for field in layout {
      fields.append(Field(field.name, Array(rest.prefix(field.bytes.count))))
      rest = rest.dropFirst(field.bytes.count)
    }
    if !rest.isEmpty { fields.append(Field("beyond the end", Array(rest))) }
    return fields
  }

  @Test("The beginning: section header and interface")
  func beginning() {
    var blocks = PcapngBlocks()
    blocks.begin(application: "tunneld", interface: "usb")
    let expected = [
      Field("block type: section header", [0x0a, 0x0d, 0x0d, 0x0a]),
      Field("block length", [44, 0, 0, 0]),
      Field("byte-order magic", [0x4d, 0x3c, 0x2b, 0x1a]),
      Field("major version", [1, 0]),
      Field("minor version", [0, 0]),
      Field("section length: unknown", [UInt8](repeating: 0xff, count: 8)),
      Field("option: application", [4, 0, 7, 0] + Array("tunneld".utf8) + [0]),
      Field("end of options", [0, 0, 0, 0]),
      Field("block length again", [44, 0, 0, 0]),
      Field("block type: interface", [1, 0, 0, 0]),
      Field("block length", [40, 0, 0, 0]),
      Field("link type: raw IP", [101, 0]),
      Field("reserved", [0, 0]),
      Field("snap length: none", [0, 0, 0, 0]),
      Field("option: name", [2, 0, 3, 0] + Array("usb".utf8) + [0]),
      Field("option: nanoseconds", [9, 0, 1, 0, 9, 0, 0, 0]),
      Field("end of options", [0, 0, 0, 0]),
      Field("block length again", [40, 0, 0, 0]),
    ]
    #expect(fields(blocks.bytes, like: expected) == expected)
  }

  @Test("A packet: bytes over IPv4")
  func packet() {
    let stream = CapturedStream(
      client: StreamAddress(.v4(0x7f00_0001), port: 40_000),
      device: StreamAddress(.v4(0xc000_0201), port: 8765),
      number: 0, comment: "")
    var position = StreamPosition()
    position.sent = 0x1000
    position.received = 0x20
    var blocks = PcapngBlocks()
    blocks.append(
      .bytes(from: .client), of: stream, at: position, payload: [0x41, 0x42, 0x43],
      time: 0x0102_0304_0506_0708)
    let expected = [
      Field("block type: enhanced packet", [6, 0, 0, 0]),
      Field("block length", [76, 0, 0, 0]),
      Field("interface", [0, 0, 0, 0]),
      Field("time, upper half", [4, 3, 2, 1]),
      Field("time, lower half", [8, 7, 6, 5]),
      Field("captured length", [43, 0, 0, 0]),
      Field("length", [43, 0, 0, 0]),
      Field("version, header length, type of service", [0x45, 0]),
      Field("packet length", [0, 43]),
      Field("identification", [0, 0]),
      Field("don't fragment", [0x40, 0]),
      Field("time to live, protocol", [64, 6]),
      // ~(4500 + 002b + 4000 + 4006 + 7f00 + 0001 + c000 + 0201)
      Field("header checksum", [0xf9, 0xca]),
      Field("source", [127, 0, 0, 1]),
      Field("destination", [192, 0, 2, 1]),
      Field("source port", [0x9c, 0x40]),
      Field("destination port", [0x22, 0x3d]),
      Field("sequence: start 0, SYN, 4096 bytes", [0, 0, 0x10, 0x01]),
      Field("acknowledges: start ~0, SYN, 32 bytes", [0, 0, 0, 0x20]),
      Field("header length in words", [0x50]),
      Field("flags: PSH, ACK", [0x18]),
      Field("window", [0xff, 0xff]),
      Field("checksum", checksum(of: blocks.bytes, at: 28 + 20 + 16)),
      Field("urgent pointer", [0, 0]),
      Field("payload", [0x41, 0x42, 0x43]),
      Field("padding", [0]),
      Field("block length again", [76, 0, 0, 0]),
    ]
    #expect(fields(Array(blocks.bytes.prefix(76)), like: expected) == expected)
    #expect(blocks.bytes.count == 76 + 72, "the acknowledgement follows")
  }

  /// Verified by the reader of the trace tests.
  private func checksum(of bytes: [UInt8], at offset: Int) -> [UInt8] { Array(bytes[offset..<offset + 2]) }

  @Test("Statistics")
  func statistics() {
    var blocks = PcapngBlocks()
    blocks.statistics(at: (1 << 32) + 2, received: 0x0102, dropped: 3)
    let expected = [
      Field("block type: interface statistics", [5, 0, 0, 0]),
      Field("block length", [52, 0, 0, 0]),
      Field("interface", [0, 0, 0, 0]),
      Field("time, upper half", [1, 0, 0, 0]),
      Field("time, lower half", [2, 0, 0, 0]),
      Field("option: received", [4, 0, 8, 0, 2, 1, 0, 0, 0, 0, 0, 0]),
      Field("option: dropped", [5, 0, 8, 0, 3, 0, 0, 0, 0, 0, 0, 0]),
      Field("end of options", [0, 0, 0, 0]),
      Field("block length again", [52, 0, 0, 0]),
    ]
    #expect(fields(blocks.bytes, like: expected) == expected)
  }

  @Test("A comment is cut before its length overflows")
  func longComment() {
    let stream = CapturedStream(
      client: StreamAddress(.v4(1), port: 1), device: StreamAddress(.v4(2), port: 2), number: 0,
      comment: String(repeating: "x", count: 100_000))
    var blocks = PcapngBlocks()
    blocks.append(.asked, of: stream, at: StreamPosition(), time: 0)
    #expect(blocks.bytes.count == 32 + 48 + 4 + 1000 + 4)
  }
}
