import Testing

@testable import MuxProtocol

@Suite("Device protocol codecs")
struct CodecTests {
  private func encoded(
    _ size: Int, _ body: (inout OutputSpan<UInt8>) -> Void
  ) -> ContiguousArray<UInt8> {
    ContiguousArray(capacity: size) { (output: inout OutputSpan<UInt8>) in body(&output) }
  }

  /// Named fields, so that a difference says which one it is in.
  private struct Field: Equatable {
    var name: String
    var bytes: [UInt8]
  }

  private func fields(_ bytes: ContiguousArray<UInt8>, _ layout: [(String, Int)]) -> [Field] {
    var rest = bytes[...]
    var fields: [Field] = []
    for (name, size) in layout {
      fields.append(Field(name: name, bytes: Array(rest.prefix(size))))
      rest = rest.dropFirst(size)
    }
    if !rest.isEmpty { fields.append(Field(name: "beyond the end", bytes: Array(rest))) }
    return fields
  }

  @Test("version 1 header: protocol and length, big-endian")
  func shortHeader() throws {
    let header = MuxHeader(content: .tcp, length: 0x0102_0304)
    let bytes = encoded(8) { header.encode(into: &$0) }
    #expect(
      fields(bytes, [("protocol", 4), ("length", 4)]) == [
        Field(name: "protocol", bytes: [0, 0, 0, 6]),
        Field(name: "length", bytes: [1, 2, 3, 4]),
      ])
    #expect(try MuxHeader(version: .one, from: bytes.span, at: 0) == header)
    #expect(header.size == 8)
  }

  @Test("version 2 header: magic, tx_seq and rx_seq follow")
  func longHeader() throws {
    let numbers = MuxHeader.Numbers(transmitted: 0x0506, received: 0x0708)
    let header = MuxHeader(content: .control, length: 36, numbers: numbers)
    let bytes = encoded(16) { header.encode(into: &$0) }
    let layout = [("protocol", 4), ("length", 4), ("magic", 4), ("tx_seq", 2), ("rx_seq", 2)]
    #expect(
      fields(bytes, layout) == [
        Field(name: "protocol", bytes: [0, 0, 0, 1]),
        Field(name: "length", bytes: [0, 0, 0, 36]),
        Field(name: "magic", bytes: [0xfe, 0xed, 0xfa, 0xce]),
        Field(name: "tx_seq", bytes: [5, 6]),
        Field(name: "rx_seq", bytes: [7, 8]),
      ])
    #expect(try MuxHeader(version: .two, from: bytes.span, at: 0) == header)
    #expect(header.size == 16)
  }

  @Test("VERSION body: major, minor, padding")
  func version() throws {
    let message = VersionMessage(major: 2)
    let bytes = encoded(12) { message.encode(into: &$0) }
    #expect(
      fields(bytes, [("major", 4), ("minor", 4), ("padding", 4)]) == [
        Field(name: "major", bytes: [0, 0, 0, 2]),
        Field(name: "minor", bytes: [0, 0, 0, 0]),
        Field(name: "padding", bytes: [0, 0, 0, 0]),
      ])
    #expect(try VersionMessage(from: bytes.span) == message)
  }

  @Test("segment header: ports, numbers, offset and flags, window in units of 256")
  func segment() throws {
    let header = SegmentHeader(
      source: 0x0102, destination: 0x0304, sequence: SequenceNumber(0x0506_0708),
      acknowledgement: SequenceNumber(0x090a_0b0c), flags: [.syn, .ack],
      window: ScaledWindow(roundingDown: 131072))
    let bytes = encoded(20) { header.encode(into: &$0) }
    let layout = [
      ("source", 2), ("destination", 2), ("sequence", 4), ("acknowledgement", 4), ("data offset", 1),
      ("flags", 1), ("window", 2), ("checksum", 2), ("urgent", 2),
    ]
    #expect(
      fields(bytes, layout) == [
        Field(name: "source", bytes: [1, 2]),
        Field(name: "destination", bytes: [3, 4]),
        Field(name: "sequence", bytes: [5, 6, 7, 8]),
        Field(name: "acknowledgement", bytes: [9, 10, 11, 12]),
        Field(name: "data offset", bytes: [0x50]),
        Field(name: "flags", bytes: [0x12]),
        Field(name: "window", bytes: [2, 0]),
        Field(name: "checksum", bytes: [0, 0]),
        Field(name: "urgent", bytes: [0, 0]),
      ])
    #expect(try SegmentHeader(from: bytes.span, at: 0) == header)
  }

  @Test("a scaled window never offers more than there is")
  func window() {
    #expect(ScaledWindow(roundingDown: 255).byteCount == 0)
    #expect(ScaledWindow(roundingDown: 256).byteCount == 256)
    #expect(ScaledWindow(roundingDown: 257).byteCount == 256)
    #expect(ScaledWindow(roundingDown: 65535 * 256).units == 65535)
    #expect(ScaledWindow(roundingDown: 65536 * 256).units == 65535)
    #expect(ScaledWindow(roundingDown: -1).units == 0)
  }

  @Test("kinds of CONTROL messages")
  func control() {
    #expect(ControlKind(3) == .error)
    #expect(ControlKind(5) == .warning)
    #expect(ControlKind(7) == .information)
    #expect(ControlKind(4) == .other(4))
    for byte in UInt8.min...UInt8.max { #expect(ControlKind(byte).byte == byte) }
  }

  @Test("bytes that end too early are an error that names the field's offset")
  func truncated() {
    let bytes = ContiguousArray<UInt8>(repeating: 1, count: 36)
    for count in 0..<16 {
      let error = #expect(throws: TruncatedField.self) {
        try MuxHeader(version: .two, from: bytes.span.extracting(first: count), at: 0)
      }
      let offset = [0, 4, 8, 12, 14].last { $0 <= count }
      #expect(error?.offset == offset)
    }
    for count in 0..<20 {
      #expect(throws: TruncatedField.self) {
        try SegmentHeader(from: bytes.span.extracting(first: 16 + count), at: 16)
      }
    }
    #expect(throws: TruncatedField(offset: 4, size: 4)) {
      try VersionMessage(from: bytes.span.extracting(first: 7))
    }
    #expect(throws: TruncatedField(offset: -1, size: 4)) {
      try MuxHeader(version: .one, from: bytes.span, at: -1)
    }
    #expect(throws: TruncatedField(offset: .max, size: 4)) {
      try MuxHeader(version: .one, from: bytes.span, at: .max)
    }
  }

  @Test("positions wrap")
  func sequenceNumbers() {
    let near = SequenceNumber(.max)
    #expect(near + 2 == SequenceNumber(1))
    #expect((near + 2) - near == 2)
    #expect(near - (near + 2) == -2)
  }

  @Test("what is configured is brought into range")
  func configuration() {
    #expect(LinkConfiguration(receiveWindow: 0).receiveWindow == 256)
    #expect(LinkConfiguration(receiveWindow: 511).receiveWindow == 256)
    #expect(LinkConfiguration(receiveWindow: 512).receiveWindow == 512)
    #expect(LinkConfiguration(receiveWindow: .max).receiveWindow == 65535 * 256)
    #expect(LinkConfiguration(maximumPacketSize: 36).maximumPacketSize == 37)
    #expect(LinkConfiguration(maximumPacketSize: 65535).maximumPacketSize == 65535)
    #expect(LinkConfiguration(maximumPacketSize: 65536).maximumPacketSize == 65535)
    #expect(LinkConfiguration(maximumSessions: 0).maximumSessions == 1)
    #expect(LinkConfiguration(maximumSessions: .max).maximumSessions == 32768)
  }
}
