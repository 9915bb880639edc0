import Testing

@testable import MuxProtocol

@Suite("Opening sessions")
struct SessionOpeningTests {
  @Test("SYN with seq 0 and ack 0, SYN|ACK, ACK")
  func opens() throws {
    let trace = Trace.up()
    let id = try trace.connect()
    var sent = trace.sent()
    #expect(sent.count == 1)
    #expect(sent[0].ports == [40000, 8765])
    #expect(sent[0].flags == DeviceSide.syn)
    #expect(sent[0].sequence == 0)
    #expect(sent[0].ack == 0)
    #expect(sent[0].window == 2048)
    #expect(trace.sendable(id) == 0)
    #expect(throws: LinkError.notOpen(id)) { try trace.frame(id, 1) }

    #expect(trace.segment(sequence: 0, ack: 1, DeviceSide.synAck) == [.event(.opened(id))])
    sent = trace.sent()
    #expect(sent.count == 1)
    #expect(sent[0].flags == DeviceSide.ack)
    #expect(sent[0].sequence == 1)
    #expect(sent[0].ack == 1)
    #expect(sent[0].window == 2048)
    #expect(trace.sendable(id) == 0x7ffc - 36)
    #expect(trace.deadline == nil)
    #expect(trace.counters.sessionsOpened == 1)
  }

  @Test("the device's first number may be any")
  func anyNumber() throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    _ = trace.segment(sequence: .max, ack: 1, DeviceSide.synAck)
    #expect(trace.sent()[0].ack == 0)
    #expect(trace.segment(sequence: 0, ack: 1, DeviceSide.ack, [5]) == [.bytes(id, [5])])
  }

  @Test("payload that is framed at once takes the place of the ACK")
  func dataFirst() throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    _ = trace.segment(sequence: 0, ack: 1, DeviceSide.synAck)
    let packet = try trace.frame(id, 10)
    #expect(packet.sequence == 1)
    #expect(packet.ack == 1)
    #expect(trace.sent() == [])
  }

  @Test("payload on SYN|ACK comes behind opened")
  func payloadOnSYN() throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    #expect(
      trace.segment(sequence: 9, ack: 1, DeviceSide.synAck, [1, 2]) == [
        .event(.opened(id)), .bytes(id, [1, 2]),
      ])
    #expect(trace.segment(sequence: 12, ack: 1, DeviceSide.ack, [3]) == [.bytes(id, [3])])
  }

  @Test("RST in answer to SYN is a refusal, with the text in it", arguments: ["", "nobody listens"])
  func refused(reason: String) throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    #expect(
      trace.segment(sequence: 0, ack: 1, DeviceSide.rst, Array(reason.utf8)) == [
        .event(.refused(id, reason: reason))
      ])
    #expect(trace.sent() == [])
    #expect(trace.sessionCount == 0)
    #expect(trace.deadline == nil)
    #expect(trace.counters.sessionsRefused == 1)
    #expect(trace.advance(by: .seconds(60)) == [])
  }

  @Test("the text of a refusal is pieced together, and only its first 1 KiB")
  func refusedInPieces() throws {
    let text = [UInt8](repeating: 0x78, count: 3000)
    let packet = DeviceSide.long(
      6, DeviceSide.segment(sequence: 0, ack: 1, DeviceSide.rst, text), number: 0)
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    #expect(trace.receive(Array(packet.prefix(1000))) == [])
    #expect(
      trace.receive(Array(packet.dropFirst(1000))) == [
        .event(.refused(id, reason: String(repeating: "x", count: 1024)))
      ])
  }

  @Test("no answer within the connect timeout: closed, and RST to the device")
  func timeout() throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    #expect(trace.deadline == trace.now.advanced(by: .seconds(10)))
    #expect(trace.advance(by: .milliseconds(9999)) == [])
    #expect(trace.advance(by: .milliseconds(1)) == [.closed(id, .connectTimeout)])
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
    #expect(trace.sessionCount == 0)
    // What comes late is a stranger's.
    #expect(
      trace.segment(sequence: 0, ack: 1, DeviceSide.synAck) == [
        .event(.note(.stranger(hostPort: 40000, devicePort: 8765, [.syn, .ack])))
      ])
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
  }

  @Test("without a connect timeout the session waits until it is closed")
  func noTimeout() throws {
    let trace = Trace.up(.two, LinkConfiguration(connectTimeout: nil))
    let id = try trace.connect()
    _ = trace.sent()
    #expect(trace.deadline == nil)
    #expect(trace.advance(by: .seconds(100_000)) == [])
    trace.link.close(id)
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
    #expect(trace.sessionCount == 0)
  }

  @Test("timeouts come in the order of the connects, one by one")
  func timeouts() throws {
    let trace = Trace.up()
    var ids: [SessionID] = []
    for _ in 0..<5 {
      ids.append(try trace.connect())
      _ = trace.advance(by: .seconds(1))
    }
    _ = trace.sent()
    trace.link.close(ids[2])
    #expect(
      trace.advance(by: .seconds(7)) == [.closed(ids[0], .connectTimeout), .closed(ids[1], .connectTimeout)])
    #expect(
      trace.advance(by: .seconds(100)) == [
        .closed(ids[3], .connectTimeout), .closed(ids[4], .connectTimeout),
      ])
    #expect(trace.deadline == nil)
  }

  @Test("closed before SYN was sent: nothing is sent at all")
  func closedEarly() throws {
    let trace = Trace.up()
    trace.link.close(try trace.connect())
    #expect(trace.sent() == [])
    #expect(trace.sessionCount == 0)
    #expect(trace.deadline == nil)
  }

  @Test("closed before the answer: RST, and the answer is nobody's")
  func closedWhileConnecting() throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    trace.link.close(id)
    // The answer crosses with the RST that is not out yet.
    #expect(trace.segment(sequence: 0, ack: 1, DeviceSide.synAck) == [])
    let sent = trace.sent()
    #expect(sent.map(\.flags) == [DeviceSide.rst])
    #expect(sent[0].sequence == 1)
    #expect(trace.sessionCount == 0)
  }

  @Test(
    "anything but SYN|ACK and RST is a violation",
    arguments: [
      DeviceSide.ack, DeviceSide.syn, DeviceSide.fin | DeviceSide.ack, 0, DeviceSide.synAck | DeviceSide.fin,
    ])
  func oddAnswer(flags: UInt8) throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    let end = SessionEnd.violated(.unexpectedFlags(TCPFlags(rawValue: flags)))
    #expect(trace.segment(sequence: 0, ack: 1, flags) == [.event(.closed(id, end))])
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst])
    #expect(trace.counters.sessionsViolated == 1)
  }

  @Test("SYN|ACK must acknowledge the SYN", arguments: [(0, -1), (2, 1)] as [(UInt32, Int)])
  func oddAck(ack: UInt32, by: Int) throws {
    let trace = Trace.up()
    let id = try trace.connect()
    _ = trace.sent()
    #expect(
      trace.segment(sequence: 0, ack: ack, DeviceSide.synAck) == [
        .event(.closed(id, .violated(.acknowledgedUnsent(by: by))))
      ])
  }

  @Test("before SYN is sent, a segment for the pair is one of an earlier host's")
  func earlierHost() throws {
    let trace = Trace.up()
    let id = try trace.connect()
    #expect(
      trace.segment(sequence: 99, ack: 5, DeviceSide.ack, [1]) == [
        .event(.note(.stranger(hostPort: 40000, devicePort: 8765, .ack)))
      ])
    // Its RST goes first, so that the device meets SYN without a memory.
    #expect(trace.sent().map(\.flags) == [DeviceSide.rst, DeviceSide.syn])
    #expect(trace.segment(sequence: 0, ack: 1, DeviceSide.synAck) == [.event(.opened(id))])
  }

  @Test("port 0 is none")
  func portZero() {
    let trace = Trace.up()
    #expect(throws: LinkError.invalidPort) { try trace.connect(0) }
  }

  // MARK: Host ports

  @Test("host ports are unique among open sessions, never 0, and not used again soon")
  func hostPorts() throws {
    let trace = Trace.up(.two, LinkConfiguration(maximumSessions: 8), firstPort: 65530)
    let kept = try trace.connect()
    #expect(kept.hostPort == 65530)
    var last = kept.hostPort
    for round in 0..<65535 {
      let id = try trace.connect()
      #expect(id.hostPort != 0)
      #expect(id.hostPort != kept.hostPort)
      if round > 0 {
        // At most one port is passed over for the kept session, one as it is 0.
        #expect(id.hostPort &- last <= 3)
      }
      last = id.hostPort
      trace.link.close(id)
    }
  }

  @Test("as many sessions as are allowed, and not one more", arguments: [1, 2, 3, 100, 4096])
  func sessionLimit(limit: Int) throws {
    let trace = Trace.up(.two, LinkConfiguration(maximumSessions: limit), firstPort: 0)
    var ids: [SessionID] = []
    for _ in 0..<limit { ids.append(try trace.connect()) }
    #expect(Set(ids.map(\.hostPort)).count == limit)
    #expect(Set(ids.map(\.index)).count == limit)
    #expect(throws: LinkError.tooManySessions(limit: limit)) { try trace.connect() }
    _ = trace.sent()
    trace.link.close(ids[limit / 2])
    // Its host port is taken until RST is sent.
    #expect(throws: LinkError.tooManySessions(limit: limit)) { try trace.connect() }
    _ = trace.sent()
    let next = try trace.connect()
    #expect(next.index == ids[limit / 2].index)
    #expect(next != ids[limit / 2])
    #expect(trace.sessionCount == limit)
  }

  @Test("the name of a session that is gone means nothing, though its index is used again")
  func oldNames() throws {
    let trace = Trace.up()
    let old = try trace.connect()
    trace.link.close(old)
    let new = try trace.connect()
    #expect(new.index == old.index)
    _ = trace.sent()
    _ = trace.segment(to: new.hostPort, sequence: 0, ack: 1, DeviceSide.synAck)
    trace.link.close(old)
    #expect(trace.sendable(old) == 0)
    #expect(trace.sendable(new) > 0)
    #expect(throws: LinkError.notOpen(old)) { try trace.frame(old, 1) }
  }
}
