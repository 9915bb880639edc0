import Testing

@testable import MuxProtocol

/// Framing, packet numbers, CONTROL and strangers on a link that is up.
@Suite("Packets")
struct PacketTests {
  @Test("several packets in one transfer, in every cut")
  func everyWay() {
    let syn = DeviceSide.segment(sequence: 0, ack: 1, DeviceSide.synAck)
    let first = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, Array("hello, ".utf8))
    let empty = DeviceSide.segment(sequence: 8, ack: 1, DeviceSide.ack)
    let second = DeviceSide.segment(sequence: 8, ack: 1, DeviceSide.ack, Array("world".utf8))
    let reset = DeviceSide.segment(sequence: 13, ack: 1, DeviceSide.rst, Array("bye".utf8))
    var bytes: [UInt8] = []
    for (number, body) in [syn, first, empty, second, reset].enumerated() {
      bytes += DeviceSide.long(6, body, number: UInt16(number))
    }
    bytes += DeviceSide.long(1, [7] + "note".utf8, number: 5)
    func make() throws -> Trace {
      let trace = Trace.up()
      _ = try trace.connect()
      _ = trace.sent()
      return trace
    }
    #expect(throws: Never.self) {
      try feedEveryWay(bytes, make: make) { seen, way in
        #expect(
          seen == [
            .event(.opened(.first)), .bytes(.first, Array("hello, world".utf8)),
            .event(.closed(.first, .resetByDevice(reason: "bye"))),
            .event(.message(.information, "note")),
          ], "\(way)")
      }
    }
  }

  @Test(
    "the largest packets of real phones, as 16384 + 16380 bytes and in pieces of 4096 and 512",
    arguments: [16384, 4096, 512, 32764, 1000])
  func pieces(size: Int) throws {
    let (trace, id) = try Trace.open()
    let payload = testBytes(32728)
    let packet = DeviceSide.long(
      6, DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, payload), number: trace.number)
    #expect(packet.count == 0x7ffc)
    var seen: [Seen] = []
    var rest = packet[...]
    while !rest.isEmpty {
      for item in trace.receive(Array(rest.prefix(size))) { seen.appendJoining(item) }
      rest = rest.dropFirst(size)
    }
    #expect(seen == [.bytes(id, payload)])
    #expect(trace.counters.payloadBytesReceived == 32728)
  }

  @Test(
    "lengths: 7 and 65537 end the link, 8 and 65536 do not",
    arguments: [(0, false), (7, false), (8, true), (65536, true), (65537, false), (UInt32.max, false)]
      as [(UInt32, Bool)])
  func lengths(length: UInt32, isFine: Bool) {
    for version in [nil, MuxVersion.one, .two] {
      let trace = version.map { Trace.up($0) } ?? Trace()
      let header = DeviceSide.be(UInt32(99)) + DeviceSide.be(length)
      let packet = header + [UInt8](repeating: 0, count: isFine ? Int(length) - 8 : 100)
      let seen = trace.receive(packet)
      if isFine {
        #expect(seen.count == 1)
        #expect(trace.receive(DeviceSide.version(2)).count == 1)
      } else {
        #expect(seen == [.event(.failed(.framingLost(length: length)))])
        #expect(trace.receive(DeviceSide.version(2)) == [])
        #expect(trace.deadline == nil)
      }
    }
  }

  @Test("a failed link forgets its sessions, and calls about them do no harm")
  func failed() throws {
    let (trace, id) = try Trace.open()
    trace.link.close(try trace.connect(7))
    let other = try trace.connect(9)
    #expect(trace.receive([UInt8](repeating: 0, count: 8)) == [.event(.failed(.framingLost(length: 0)))])
    #expect(trace.sessionCount == 0)
    #expect(!trace.hasPendingPackets)
    #expect(trace.deadline == nil)
    #expect(trace.sendable(id) == 0)
    trace.consumed(id, 5)
    trace.link.close(other)
    #expect(throws: LinkError.notOpen(id)) { try trace.frame(id, 1) }
    #expect(trace.advance(by: .seconds(60)) == [])
    #expect(trace.sent() == [])
  }

  @Test("a version 2 header without magic: the packet is discarded, the link goes on")
  func wrongMagic() throws {
    let (trace, id) = try Trace.open()
    let segment = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, [1, 2, 3])
    #expect(
      trace.receive(DeviceSide.long(6, segment, number: trace.number, magic: 0xfeed_facf)) == [
        .event(.note(.wrongMagic(0xfeed_facf)))
      ])
    #expect(trace.segment(sequence: 1, ack: 1, DeviceSide.ack, [4]) == [.bytes(id, [4])])
  }

  @Test("packets too short for their headers are discarded", arguments: 8..<36)
  func short(length: Int) throws {
    let (trace, id) = try Trace.open()
    let whole = DeviceSide.long(
      6, DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack), number: trace.number,
      length: UInt32(length))
    if length >= 16 { trace.number += 1 }
    let note = LinkEvent.note(.shortPacket(content: 6, length: UInt32(length)))
    #expect(trace.receive(Array(whole.prefix(length))) == [.event(note)])
    #expect(trace.segment(sequence: 1, ack: 1, DeviceSide.ack, [4]) == [.bytes(id, [4])])
    #expect(trace.counters.gaps == 0)
  }

  @Test("packets of unknown kinds are skipped by their length")
  func unknown() throws {
    let (trace, id) = try Trace.open()
    let odd = DeviceSide.long(3, [UInt8](repeating: 6, count: 500), number: trace.number)
    trace.number += 1
    #expect(trace.receive(odd) == [.event(.note(.unknownContent(3, length: 516)))])
    #expect(trace.segment(sequence: 1, ack: 1, DeviceSide.ack, [4]) == [.bytes(id, [4])])
    #expect(trace.counters.discarded == 1)
  }

  // MARK: tx_seq and rx_seq

  @Test("tx_seq goes up by one for every packet; rx_seq is the device's last")
  func numbers() throws {
    let trace = Trace()
    _ = trace.sent()
    _ = trace.receive(DeviceSide.version(2))
    #expect(trace.sent().map(\.numbers) == [[0, 0xffff]])
    let id = try trace.connect()
    #expect(trace.sent().map(\.numbers) == [[1, 0xffff]])
    trace.number = 100
    _ = trace.segment(sequence: 0, ack: 1, DeviceSide.synAck)
    #expect(trace.sent().map(\.numbers) == [[2, 100]])
    #expect(try trace.frame(id, 1).numbers == [3, 100])
    _ = trace.receive(DeviceSide.long(1, [7], number: 101))
    #expect(try trace.frame(id, 1).numbers == [4, 101])
    trace.link.close(id)
    #expect(trace.sent().map(\.numbers) == [[5, 101]])
  }

  @Test("packet numbers wrap at 16 bits on both sides")
  func numbersWrap() throws {
    let (trace, id) = try Trace.open(LinkConfiguration(receiveWindow: 1 << 20))
    for round in 0..<65600 as Range<UInt32> {
      let seen = trace.segment(sequence: 1 &+ round, ack: 1 &+ round, DeviceSide.ack, [7])
      #expect(seen.last == .bytes(id, [7]))
      trace.consumed(id, 1)
      #expect(try trace.frame(id, 1).numbers == [UInt16(truncatingIfNeeded: round + 3), trace.number &- 1])
    }
    #expect(trace.counters.gaps == 0)
    #expect(trace.counters.repeats == 0)
  }

  @Test("a repeated packet is discarded")
  func repeated() throws {
    let (trace, id) = try Trace.open()
    let body = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, [1, 2])
    let packet = DeviceSide.long(6, body, number: trace.number)
    #expect(
      trace.receive(packet + packet) == [
        .bytes(id, [1, 2]), .event(.note(.repeated(trace.number))),
      ])
    trace.number += 1
    #expect(trace.segment(sequence: 3, ack: 1, DeviceSide.ack, [3]) == [.bytes(id, [3])])
    #expect(trace.counters.repeats == 1)
  }

  @Test("a gap is noted, and the packet behind it used")
  func gap() throws {
    let (trace, id) = try Trace.open()
    let expected = trace.number
    trace.number += 3
    #expect(
      trace.segment(sequence: 1, ack: 1, DeviceSide.ack, [1]) == [
        .event(.note(.gap(expected: expected, found: expected + 3))), .bytes(id, [1]),
      ])
    #expect(trace.segment(sequence: 2, ack: 1, DeviceSide.ack, [2]) == [.bytes(id, [2])])
    #expect(trace.counters.gaps == 1)
  }

  @Test(
    "repeats reach back 16 packets; what is older means that the device counts anew",
    arguments: [(1, true), (16, true), (17, false), (32768, false)] as [(UInt16, Bool)])
  func repeatLimit(behind: UInt16, isRepeat: Bool) {
    var numbers = PacketNumbers()
    #expect(numbers.receive(.init(transmitted: 40000, received: 0), isOurs: true) == .inOrder)
    let found = 40001 &- behind
    #expect(
      numbers.receive(.init(transmitted: found, received: 0), isOurs: true)
        == (isRepeat ? .repeated : .gap(expected: 40001)))
  }

  // MARK: CONTROL

  @Test("messages come out with their kind; empty ones are passed over")
  func control() {
    let trace = Trace.up()
    func message(_ body: [UInt8]) -> [Seen] {
      defer { trace.number += 1 }
      return trace.receive(DeviceSide.long(1, body, number: trace.number))
    }
    #expect(message([3] + "bad".utf8) == [.event(.message(.error, "bad"))])
    #expect(message([5] + "hm".utf8) == [.event(.message(.warning, "hm"))])
    #expect(message([7] + "so\0\n".utf8) == [.event(.message(.information, "so"))])
    #expect(message([9]) == [.event(.message(.other(9), ""))])
    #expect(message([]) == [])
    #expect(message([3, 0xff, 0x41]) == [.event(.message(.error, "\u{fffd}A"))])
  }

  @Test("of a long message 1 KiB is kept", arguments: [1023, 1024, 1025, 60000])
  func longMessage(count: Int) {
    let trace = Trace.up()
    let body = [3] + [UInt8](repeating: 0x61, count: count - 1)
    let kept = String(repeating: "a", count: min(count, 1024) - 1)
    #expect(
      trace.receive(DeviceSide.long(1, body, number: 0)) == [.event(.message(.error, kept))])
    #expect(trace.receive(DeviceSide.long(1, [3], number: 1)) == [.event(.message(.error, ""))])
  }

  // MARK: Strangers

  @Test("a segment for an unknown pair gets RST with ack = its seq; a RST gets nothing")
  func strangers() throws {
    let (trace, _) = try Trace.open()
    // The right host port with another device port is a stranger, too.
    let note = LinkEvent.note(.stranger(hostPort: 40000, devicePort: 8766, .ack))
    #expect(trace.segment(from: 8766, sequence: 77, ack: 9, DeviceSide.ack, [1, 2]) == [.event(note)])
    let sent = trace.sent()
    #expect(sent.count == 1)
    #expect(sent[0].ports == [40000, 8766])
    #expect(sent[0].flags == DeviceSide.rst)
    #expect(sent[0].sequence == 0)
    #expect(sent[0].ack == 77)
    #expect(trace.segment(from: 8766, sequence: 77, ack: 9, DeviceSide.rst).count == 1)
    #expect(trace.sent() == [])
  }

  @Test("answers to strangers that wait are capped", arguments: [63, 64, 65, 500])
  func strangerFlood(count: Int) {
    let trace = Trace.up()
    for port in 0..<UInt16(count) {
      _ = trace.segment(to: 1 + port, sequence: 5, ack: 9, DeviceSide.ack)
    }
    #expect(trace.counters.strangers == UInt64(count))
    #expect(trace.counters.strangersUnanswered == UInt64(max(count - 64, 0)))
    #expect(trace.sent().count == min(count, 64))
  }
}
