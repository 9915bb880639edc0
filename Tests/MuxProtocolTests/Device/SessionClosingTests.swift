import Testing

@testable import MuxProtocol

@Suite("Closing sessions")
struct SessionClosingTests {
  @Test(
    "the device's RST: what came before is delivered, then the end, and nothing is answered",
    arguments: ["", "app went away"])
  func resetByDevice(reason: String) throws {
    let (trace, id) = try Trace.open()
    let data = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, [1, 2, 3])
    let reset = DeviceSide.segment(sequence: 4, ack: 1, DeviceSide.rst, Array(reason.utf8))
    let bytes =
      DeviceSide.long(6, data, number: trace.number) + DeviceSide.long(6, reset, number: trace.number + 1)
    #expect(
      trace.receive(bytes) == [
        .bytes(id, [1, 2, 3]), .event(.closed(id, .resetByDevice(reason: reason))),
      ])
    trace.consumed(id, 3)
    #expect(trace.advance(by: .seconds(1)) == [])
    #expect(trace.sent() == [])
    #expect(trace.sessionCount == 0)
  }

  @Test("RST with odd numbers and other flags ends the session all the same")
  func oddReset() throws {
    let (trace, id) = try Trace.open()
    #expect(
      trace.segment(sequence: 12345, ack: 999_999, DeviceSide.rst | DeviceSide.ack | DeviceSide.syn) == [
        .event(.closed(id, .resetByDevice(reason: "")))
      ])
  }

  @Test("while the text of a RST comes in, the session can send no more")
  func resetInPieces() throws {
    let (trace, id) = try Trace.open()
    let reset = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.rst, Array("gone".utf8))
    let packet = DeviceSide.long(6, reset, number: trace.number)
    #expect(trace.receive(Array(packet.prefix(38))) == [])
    #expect(trace.sendable(id) == 0)
    #expect(throws: LinkError.notOpen(id)) { try trace.frame(id, 1) }
    #expect(
      trace.receive(Array(packet.dropFirst(38))) == [.event(.closed(id, .resetByDevice(reason: "gone")))])
  }

  @Test("closed by the driver while the text of a RST comes in: no event, no RST")
  func closedWhileReset() throws {
    let (trace, id) = try Trace.open()
    let reset = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.rst, Array("gone".utf8))
    let packet = DeviceSide.long(6, reset, number: trace.number)
    _ = trace.receive(Array(packet.prefix(38)))
    trace.link.close(id)
    let next = try trace.connect()
    #expect(next.index == id.index)
    #expect(trace.receive(Array(packet.dropFirst(38))) == [])
    #expect(trace.sent().map(\.flags) == [DeviceSide.syn])
    #expect(trace.sessionCount == 1)
  }

  @Test("FIN: its data is delivered, then the end; the host answers by RST, never FIN")
  func fin() throws {
    let (trace, id) = try Trace.open()
    #expect(
      trace.segment(sequence: 1, ack: 1, DeviceSide.fin | DeviceSide.ack, [1, 2]) == [
        .bytes(id, [1, 2]), .event(.closed(id, .finished)),
      ])
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
    #expect(trace.sessionCount == 0)
  }

  @Test("FIN without data")
  func emptyFIN() throws {
    let (trace, id) = try Trace.open(window: 1)
    _ = try trace.frame(id, 256)
    #expect(
      trace.segment(sequence: 1, ack: 257, DeviceSide.fin | DeviceSide.ack) == [
        .event(.sendableChanged(id)), .event(.closed(id, .finished)),
      ])
  }

  @Test("FIN with missing data before it is a violation, not an end")
  func finAfterGap() throws {
    let (trace, id) = try Trace.open()
    #expect(
      trace.segment(sequence: 5, ack: 1, DeviceSide.fin | DeviceSide.ack) == [
        .event(.closed(id, .violated(.wrongSequence(expected: 1, found: 5))))
      ])
  }

  @Test("the host closes by RST with its numbers; nothing is told of it")
  func closes() throws {
    let (trace, id) = try Trace.open()
    _ = trace.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(100))
    _ = try trace.frame(id, 50)
    trace.link.close(id)
    trace.link.close(id)
    #expect(trace.sendable(id) == 0)
    // Data that crosses with it is passed over.
    #expect(trace.segment(sequence: 101, ack: 51, DeviceSide.ack, [1]) == [])
    let sent = trace.sent()
    #expect(sent.count == 1)
    #expect(sent[0].flags == DeviceSide.rst)
    #expect(sent[0].sequence == 51)
    #expect(sent[0].ack == 101)
    #expect(trace.sessionCount == 0)
    #expect(trace.deadline == nil)
  }

  @Test("closed by the driver between two pieces of a packet: the rest of it is passed over")
  func closedWithinPacket() throws {
    let (trace, id) = try Trace.open()
    let body = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(100))
    let packet = DeviceSide.long(6, body, number: trace.number)
    trace.number += 1
    #expect(trace.receive(Array(packet.prefix(50))).count == 1)
    trace.link.close(id)
    let other = try trace.connect()
    #expect(trace.receive(Array(packet.dropFirst(50))) == [])
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst, DeviceSide.syn])
    #expect(
      trace.segment(to: other.hostPort, sequence: 0, ack: 1, DeviceSide.synAck) == [.event(.opened(other))])
  }

  @Test("a violation ends one session and lets the others live")
  func others() throws {
    let (trace, id) = try Trace.open()
    let other = try trace.connect(7)
    _ = trace.sent()
    _ = trace.segment(from: 7, to: other.hostPort, sequence: 0, ack: 1, DeviceSide.synAck)
    #expect(trace.segment(sequence: 9, ack: 1, DeviceSide.ack, [1]).count == 1)
    #expect(trace.sendable(id) == 0)
    #expect(
      trace.segment(from: 7, to: other.hostPort, sequence: 1, ack: 1, DeviceSide.ack, [5]) == [
        .bytes(other, [5])
      ])
  }
}
