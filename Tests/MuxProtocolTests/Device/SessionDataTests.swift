import Testing

@testable import MuxProtocol

@Suite("Data, windows and acknowledgements")
struct SessionDataTests {
  // MARK: From the device

  @Test("an acknowledgement says what the reader took, not what arrived; the window stays")
  func acknowledgesConsumed() throws {
    let (trace, id) = try Trace.open()
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(1000))
    #expect(trace.advance(by: .seconds(1)) == [])
    #expect(trace.sent() == [])
    trace.consumed(id, 400)
    #expect(trace.deadline == trace.now.advanced(by: .milliseconds(30)))
    #expect(trace.sent() == [])
    _ = trace.advance(by: .milliseconds(29))
    #expect(trace.sent() == [])
    _ = trace.advance(by: .milliseconds(1))
    var sent = trace.sent()
    #expect(sent.map(\.ack) == [401])
    #expect(sent.map(\.window) == [2048])
    #expect(sent.map(\.flags) == [DeviceSide.ack])
    #expect(trace.deadline == nil)
    trace.consumed(id, 600)
    _ = trace.advance(by: .milliseconds(30))
    sent = trace.sent()
    #expect(sent.map(\.ack) == [1001])
    #expect(trace.advance(by: .seconds(1)) == [])
    #expect(trace.sent() == [])
  }

  @Test("the delay runs from the first byte that was taken")
  func delayRuns() throws {
    let (trace, id) = try Trace.open()
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(100))
    trace.consumed(id, 1)
    _ = trace.advance(by: .milliseconds(20))
    trace.consumed(id, 1)
    _ = trace.advance(by: .milliseconds(10))
    #expect(trace.sent().map(\.ack) == [3])
  }

  @Test(
    "at the threshold an acknowledgement goes out at once",
    arguments: [(9999, false), (10000, true), (10001, true)])
  func threshold(count: Int, isPrompt: Bool) throws {
    let (trace, id) = try Trace.open(LinkConfiguration(acknowledgeThreshold: 10000))
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(20000))
    trace.consumed(id, count)
    #expect(trace.sent().map(\.ack) == (isPrompt ? [UInt32(1 + count)] : []))
    #expect((trace.deadline == nil) == isPrompt)
  }

  @Test("payload that is sent carries the acknowledgement, and none is owed then")
  func piggyback() throws {
    let (trace, id) = try Trace.open()
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(100))
    trace.consumed(id, 70)
    #expect(try trace.frame(id, 5).ack == 71)
    #expect(trace.deadline == nil)
    trace.consumed(id, 30)
    _ = trace.advance(by: .milliseconds(30))
    // Due, but not sent yet.
    #expect(try trace.frame(id, 5).ack == 101)
    #expect(trace.sent() == [])
  }

  @Test("a reader cannot take more than has arrived")
  func consumedTooMuch() throws {
    let (trace, id) = try Trace.open(LinkConfiguration(acknowledgeThreshold: 1))
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, [1, 2, 3])
    trace.consumed(id, 4)
    trace.consumed(id, .max)
    trace.consumed(id, -5)
    #expect(trace.sent().map(\.ack) == [4])
  }

  @Test(
    "a window of 512 bytes: 512 arrive, the 513th is a violation of the session only",
    arguments: [511, 512, 513])
  func overrun(count: Int) throws {
    let (trace, id) = try Trace.open(LinkConfiguration(receiveWindow: 512))
    let bytes = testBytes(count)
    let seen = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, bytes)
    guard count > 512 else {
      #expect(seen == [.bytes(id, bytes)])
      return
    }
    #expect(seen == [.event(.closed(id, .violated(.windowOverrun(by: 1))))])
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
    let other = try trace.connect()
    _ = trace.sent()
    #expect(
      trace.segment(to: other.hostPort, sequence: 0, ack: 1, DeviceSide.synAck) == [.event(.opened(other))])
  }

  @Test("room that the device was not told of is no room yet")
  func overrunOfOffer() throws {
    let (trace, id) = try Trace.open(LinkConfiguration(receiveWindow: 512, acknowledgeThreshold: 512))
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(512))
    trace.consumed(id, 511)
    #expect(
      trace.segment(sequence: 513, ack: 1, DeviceSide.ack, [1]) == [
        .event(.closed(id, .violated(.windowOverrun(by: 1))))
      ])
  }

  @Test("a full window opens again when the reader goes on, though nothing arrives")
  func reopens() throws {
    let (trace, id) = try Trace.open(LinkConfiguration(receiveWindow: 512))
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(512))
    _ = trace.advance(by: .seconds(3600))
    #expect(trace.sent() == [])
    trace.consumed(id, 512)
    #expect(trace.sent().map(\.ack) == [513])
    #expect(trace.segment(sequence: 513, ack: 1, DeviceSide.ack, testBytes(512)).count == 1)
  }

  @Test("payload must continue where the last one ended", arguments: [0, 2, 0x8000_0000] as [UInt32])
  func wrongSequence(sequence: UInt32) throws {
    let (trace, id) = try Trace.open()
    let violation = SessionViolation.wrongSequence(expected: 1, found: sequence)
    #expect(
      trace.segment(sequence: sequence, ack: 1, DeviceSide.ack, [1]) == [
        .event(.closed(id, .violated(violation)))
      ])
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
  }

  @Test("an ACK with neither payload nor news is legal, whatever its number")
  func emptyACK() throws {
    let (trace, id) = try Trace.open()
    #expect(trace.segment(sequence: 1, ack: 1, DeviceSide.ack) == [])
    #expect(trace.segment(sequence: 0, ack: 1, DeviceSide.ack) == [])
    #expect(trace.sent() == [])
    #expect(trace.sendable(id) > 0)
  }

  @Test("PSH and URG are ordinary data", arguments: [DeviceSide.psh, DeviceSide.urg, 0x40])
  func push(flag: UInt8) throws {
    let (trace, id) = try Trace.open()
    #expect(trace.segment(sequence: 1, ack: 1, DeviceSide.ack | flag, [1]) == [.bytes(id, [1])])
  }

  @Test("SYN on an open session is a violation")
  func synAgain() throws {
    let (trace, id) = try Trace.open()
    #expect(
      trace.segment(sequence: 0, ack: 1, DeviceSide.synAck) == [
        .event(.closed(id, .violated(.unexpectedFlags([.syn, .ack]))))
      ])
  }

  @Test("headers with options, or less than a header, are a violation", arguments: [0, 4, 6, 15] as [UInt8])
  func dataOffset(offset: UInt8) throws {
    let (trace, id) = try Trace.open()
    let body = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, dataOffset: offset, [1, 2, 3, 4])
    #expect(
      trace.receive(DeviceSide.long(6, body, number: trace.number)) == [
        .event(.closed(id, .violated(.malformedHeader(dataOffset: offset))))
      ])
  }

  @Test("numbers wrap at 32 bits in both directions")
  func wraps() throws {
    let trace = Trace.up(.two, LinkConfiguration(receiveWindow: 1 << 20, acknowledgeThreshold: 1))
    let id = try trace.connect()
    _ = trace.sent()
    var sequence = UInt32.max - 100_000
    _ = trace.segment(sequence: sequence, ack: 1, DeviceSide.synAck)
    sequence &+= 1
    for _ in 0..<10 {
      let bytes = testBytes(30000)
      #expect(trace.segment(sequence: sequence, ack: 1, DeviceSide.ack, bytes) == [.bytes(id, bytes)])
      sequence &+= 30000
      trace.consumed(id, 30000)
      #expect(trace.sent().map(\.ack) == [sequence])
    }
  }

  // MARK: To the device

  @Test("never more than the device's window is unacknowledged")
  func peerWindow() throws {
    let (trace, id) = try Trace.open(window: 4)
    #expect(trace.sendable(id) == 1024)
    #expect(throws: LinkError.notSendable(requested: 1025, allowed: 1024)) { try trace.frame(id, 1025) }
    #expect(throws: LinkError.notSendable(requested: 0, allowed: 1024)) { try trace.frame(id, 0) }
    #expect(throws: LinkError.notSendable(requested: -1, allowed: 1024)) { try trace.frame(id, -1) }
    #expect(try trace.frame(id, 1000).sequence == 1)
    #expect(trace.sendable(id) == 24)
    #expect(try trace.frame(id, 24).sequence == 1001)
    #expect(trace.sendable(id) == 0)
    // 1000 acknowledged, window as before.
    #expect(
      trace.segment(sequence: 1, ack: 1001, DeviceSide.ack, window: 4) == [.event(.sendableChanged(id))])
    #expect(trace.sendable(id) == 1000)
  }

  @Test("a window of 0 stops sending until it opens")
  func zeroWindow() throws {
    let (trace, id) = try Trace.open(window: 0)
    #expect(trace.sendable(id) == 0)
    #expect(throws: LinkError.notSendable(requested: 1, allowed: 0)) { try trace.frame(id, 1) }
    #expect(trace.segment(sequence: 1, ack: 1, DeviceSide.ack, window: 0) == [])
    #expect(
      trace.segment(sequence: 1, ack: 1, DeviceSide.ack, window: 1) == [.event(.sendableChanged(id))])
    #expect(trace.sendable(id) == 256)
    // Taken back again.
    #expect(trace.segment(sequence: 1, ack: 1, DeviceSide.ack, window: 0) == [])
    #expect(trace.sendable(id) == 0)
  }

  @Test("news of the window comes before the payload of the same segment")
  func windowAndPayload() throws {
    let (trace, id) = try Trace.open(window: 1)
    _ = try trace.frame(id, 256)
    #expect(
      trace.segment(sequence: 1, ack: 257, DeviceSide.ack, window: 1, [9]) == [
        .event(.sendableChanged(id)), .bytes(id, [9]),
      ])
  }

  @Test("a packet never exceeds its maximum", arguments: [37, 1000, 0x7ffc, 65535])
  func packetSize(size: Int) throws {
    let (trace, id) = try Trace.open(LinkConfiguration(maximumPacketSize: size), window: .max)
    #expect(trace.sendable(id) == size - 36)
    #expect(throws: LinkError.notSendable(requested: size - 35, allowed: size - 36)) {
      try trace.frame(id, size - 35)
    }
    let bytes = try trace.frameBytes(id, size - 36)
    #expect(bytes.count == 36)
    #expect(Array(bytes[4..<8]) == DeviceSide.be(UInt32(size)))
  }

  @Test(
    "acknowledging what was not sent is a violation",
    arguments: [(11, 0), (12, 1), (0x7fff_ffff, 0x7fff_fff4)])
  func ackBeyond(ack: UInt32, by: Int) throws {
    let (trace, id) = try Trace.open()
    _ = try trace.frame(id, 10)
    let seen = trace.segment(sequence: 1, ack: ack, DeviceSide.ack)
    if by == 0 {
      #expect(seen == [])
    } else {
      #expect(seen == [.event(.closed(id, .violated(.acknowledgedUnsent(by: by))))])
      #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
    }
  }

  @Test("an acknowledgement older than the last is nothing to go by")
  func oldAck() throws {
    let (trace, id) = try Trace.open(window: 4)
    _ = try trace.frame(id, 1000)
    _ = trace.segment(sequence: 1, ack: 1001, DeviceSide.ack, window: 4)
    #expect(trace.segment(sequence: 1, ack: 500, DeviceSide.ack, window: 0) == [])
    #expect(trace.sendable(id) == 1024)
  }

  @Test("too little room for headers: nothing is written or counted")
  func noRoom() throws {
    let (trace, id) = try Trace.open()
    var bytes: [UInt8] = []
    bytes.append(addingCapacity: 35) { output in
      do {
        try trace.link.frameData(id, payloadCount: 5, into: &output)
        Issue.record("framed into too little room")
      } catch {
        #expect(error as? LinkError == .noRoom(needed: 36))
      }
    }
    #expect(bytes.isEmpty)
    #expect(try trace.frame(id, 5).sequence == 1)
  }

  // MARK: Many sessions

  @Test("what waits to be sent is one packet for each session, in turn")
  func fairness() throws {
    let trace = Trace.up(.two, LinkConfiguration(acknowledgeThreshold: 1))
    var ids: [SessionID] = []
    for _ in 0..<3 { ids.append(try trace.connect()) }
    _ = trace.sent()
    for id in ids { _ = trace.segment(to: id.hostPort, sequence: 0, ack: 1, DeviceSide.synAck) }
    _ = trace.sent()
    for round in 0..<10 as Range<UInt32> {
      for id in ids.reversed() {
        _ = trace.segment(to: id.hostPort, sequence: 1 + round, ack: 1, DeviceSide.ack, [1])
        trace.consumed(id, 1)
      }
    }
    let sent = trace.sent()
    #expect(sent.map { $0.ports[0] } == ids.reversed().map(\.hostPort))
    #expect(sent.map(\.ack) == [11, 11, 11])
  }
}
