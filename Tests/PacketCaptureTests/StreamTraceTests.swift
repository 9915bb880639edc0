import CaptureReader
import PacketCapture
import Testing

/// Streams as packets, read like a trace of a network. C is the client, D the device.
@Suite("Streams as TCP")
struct StreamTraceTests {
  private static let v4 = CapturedStream(
    client: StreamAddress(.v4(0x7f00_0001), port: 40_000),
    device: StreamAddress(.v4(0xc000_0201), port: 8765),
    number: 1, comment: "connection 17")
  private static let v6 = CapturedStream(
    client: StreamAddress(.v6(0, 1), port: 40_000),
    device: StreamAddress(.v6(0x2001_0db8 << 32, 1), port: 8765),
    number: 2, comment: "connection 18")

  private struct Step {
    var event: StreamEvent
    var count = 0
    /// Whether it is written.
    var isSeen = true

    init(_ event: StreamEvent, _ count: Int = 0, isSeen: Bool = true) {
      self.event = event
      self.count = count
      self.isSeen = isSeen
    }
  }

  /// The packets of events, one after the other, from `position` on.
  private func packets(
    _ steps: [Step], of stream: CapturedStream = v4, from start: StreamPosition = StreamPosition()
  ) throws -> [Packet] {
    var blocks = PcapngBlocks()
    var position = start
    var expected: UInt64 = 0
    for (index, step) in steps.enumerated() {
      let bytes = (0..<step.count).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ index) }
      if step.isSeen {
        blocks.append(step.event, of: stream, at: position, payload: bytes, time: UInt64(index))
        expected += PcapngBlocks.packets(of: step.event, of: stream, count: step.count)
      }
      position.pass(step.event, step.count)
    }
    let packets = try CaptureReader(blocks.bytes).packets
    #expect(UInt64(packets.count) == expected, "as many as were foretold")
    return packets
  }

  @Test("A request, its answer, and the ends: first the app's, then the client's", arguments: [v4, v6])
  func conversation(_ stream: CapturedStream) throws {
    let packets = try packets(
      [
        Step(.asked), Step(.accepted), Step(.bytes(from: .client), 100), Step(.bytes(from: .device), 3000),
        Step(.ended(.device)), Step(.ended(.client)),
      ], of: stream)
    #expect(
      packets.trace == [
        "C S 0", "D S. 0 ack 1", "C . 1 ack 1",
        "C P. 1 ack 1 len 100", "D . 1 ack 101",
        "D P. 1 ack 101 len 3000", "C . 101 ack 3001",
        "D F. 3001 ack 101", "C . 101 ack 3002",
        "C F. 101 ack 3002", "D . 3002 ack 102",
      ])
    #expect(packets.map(\.time) == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5])
    #expect(packets[0].comment == stream.comment && packets.dropFirst().allSatisfy { $0.comment == nil })
    #expect(Set(packets.map(\.source.port)) == [40_000, 8765])
    #expect(packets[3].payload == (0..<100).map { UInt8(truncatingIfNeeded: $0 * 7 + 2) })
  }

  @Test("A client that ends its sending side still gets bytes")
  func halfClose() throws {
    let packets = try packets([
      Step(.asked), Step(.accepted), Step(.bytes(from: .client), 10), Step(.ended(.client)),
      Step(.bytes(from: .device), 20), Step(.ended(.device)),
    ])
    #expect(
      packets.trace.dropFirst(5) == [
        "C F. 11 ack 1", "D . 1 ack 12",
        "D P. 1 ack 12 len 20", "C . 12 ack 21",
        "D F. 21 ack 12", "C . 12 ack 22",
      ])
  }

  @Test("A refusal answers the SYN with a reset")
  func refusal() throws {
    let packets = try packets([Step(.asked), Step(.refused)])
    #expect(packets.map(\.flags) == ["S", "R."])
    #expect(packets[1].sequence == 0 && packets[1].acknowledges == packets[0].sequence &+ 1)
    #expect(packets[1].source == packets[0].destination)
  }

  @Test("A stream that nobody waits for any more")
  func abandoned() throws {
    let packets = try packets([Step(.asked), Step(.abandoned)])
    #expect(packets.trace == ["C S 0", "C R 1"])
  }

  @Test("Resets from either side stand where the stream was", arguments: [StreamSide.client, .device])
  func reset(_ side: StreamSide) throws {
    let packets = try packets([
      Step(.asked), Step(.accepted), Step(.bytes(from: .client), 5), Step(.bytes(from: .device), 6),
      Step(.reset(by: side)),
    ])
    #expect(packets.trace.last == (side == .client ? "C R. 6 ack 7" : "D R. 7 ack 6"))
    #expect(packets.last?.window == 0)
  }

  @Test("Bytes are cut at the longest packet of the version", arguments: [(v4, 65_495), (v6, 65_515)])
  func segments(_ stream: CapturedStream, _ size: Int) throws {
    for (count, expected) in [
      (size - 1, [size - 1]), (size, [size]), (size + 1, [size, 1]), (2 * size + 3, [size, size, 3]),
    ] {
      let packets = try packets([Step(.bytes(from: .device), count)], of: stream)
      #expect(packets.dropLast().map(\.payload.count) == expected)
      #expect(
        packets.dropLast().map(\.flags) == expected.indices.map { $0 == expected.count - 1 ? "P." : "." })
      #expect(packets.last?.acknowledges == packets[0].sequence &+ UInt32(count))
      #expect(packets.dropLast().flatMap(\.payload) == (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) })
      // What the SYNs announce.
      let syn = try self.packets([Step(.asked)], of: stream)[0]
      #expect(syn.options == [2, 4, UInt8(size >> 8), UInt8(size & 0xff), 1, 3, 3, 8])
    }
  }

  @Test("Sequence numbers wrap within a segment, after it, and with the end")
  func wrap() throws {
    // The client's numbers begin so far below 2^32.
    let syn = try packets([Step(.asked)])[0]
    let left = UInt64(UInt32.max - syn.sequence)
    for before in [left - 1, left - 50, left - 100, left - 101] {
      var position = StreamPosition()
      // A second time round as well.
      for rounds: UInt64 in [0, 1] {
        position.sent = before + rounds << 32
        let packets = try packets([Step(.bytes(from: .client), 100), Step(.ended(.client))], from: position)
        #expect(packets[0].sequence == UInt32(truncatingIfNeeded: UInt64(syn.sequence) + 1 + before))
        #expect(packets[1].acknowledges == packets[0].sequence &+ 100)
        #expect(packets[2].sequence == packets[0].sequence &+ 100 && packets[2].flags == "F.")
        #expect(packets[3].acknowledges == packets[0].sequence &+ 101)
      }
    }
  }

  @Test("What is not written leaves a gap, and moves nothing after it")
  func gap() throws {
    let packets = try packets([
      Step(.asked), Step(.accepted), Step(.bytes(from: .device), 1000),
      Step(.bytes(from: .device), 70_000, isSeen: false), Step(.bytes(from: .client), 7, isSeen: false),
      Step(.bytes(from: .device), 500), Step(.ended(.device), isSeen: false), Step(.ended(.client)),
    ])
    #expect(
      packets.trace.dropFirst(3) == [
        "D P. 1 ack 1 len 1000", "C . 1 ack 1001",
        "D P. 71001 ack 8 len 500", "C . 8 ack 71501",
        "C F. 8 ack 71502", "D . 71502 ack 9",
      ])
  }

  @Test("Two streams between the same ends begin at different numbers")
  func numbers() throws {
    var seen: Set<UInt32> = []
    for number: UInt64 in 0..<1000 {
      let stream = CapturedStream(
        client: StreamAddress(.v4(1), port: 1), device: StreamAddress(.v4(2), port: 2), number: number,
        comment: "")
      seen.insert(try packets([Step(.asked)], of: stream)[0].sequence)
    }
    #expect(seen.count == 1000)
  }

  @Test("Checksums of odd and even lengths, of zeros and of ones", arguments: [0 as UInt8, 0xff, 0x80])
  func checksums(_ byte: UInt8) throws {
    for count in [1, 2, 3, 7, 8, 9, 15, 16, 17, 1460, 65_495] {
      for stream in [Self.v4, Self.v6] {
        var blocks = PcapngBlocks()
        blocks.append(
          .bytes(from: .client), of: stream, at: StreamPosition(),
          payload: [UInt8](repeating: byte, count: count),
          time: 0)
        // The reader throws where one is wrong.
        #expect(try CaptureReader(blocks.bytes).packets.first?.payload.count == count)
      }
    }
  }
}
