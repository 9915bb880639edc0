import Testing

@testable import MuxProtocol

/// "Link start" of the protocol facts.
@Suite("Link start")
struct HandshakeTests {
  @Test("the host asks for version 2 with an eight-byte header")
  func asks() {
    let trace = Trace()
    #expect(
      trace.sentBytes() == [
        // VERSION
        0, 0, 0, 0,
        // length
        0, 0, 0, 20,
        // major, minor, padding
        0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0,
      ])
    #expect(!trace.hasPendingPackets)
    #expect(trace.version == nil)
  }

  @Test("version 2: SETUP with byte 7 resets the numbers; the link is up")
  func versionTwo() {
    let trace = Trace()
    _ = trace.sent()
    #expect(trace.receive(DeviceSide.version(2)) == [.event(.up(.two))])
    #expect(
      trace.sentBytes() == [
        // SETUP
        0, 0, 0, 2,
        // length
        0, 0, 0, 17,
        // magic
        0xfe, 0xed, 0xfa, 0xce,
        // tx_seq, rx_seq
        0, 0, 0xff, 0xff,
        7,
      ])
    #expect(trace.dataHeaderSize == 36)
  }

  @Test("version 1: no SETUP, eight-byte headers from then on")
  func versionOne() throws {
    let trace = Trace()
    _ = trace.sent()
    #expect(trace.receive(DeviceSide.version(1)) == [.event(.up(.one))])
    #expect(trace.sent() == [])
    #expect(trace.dataHeaderSize == 28)
    let id = try trace.connect()
    #expect(trace.sent().map(\.flags) == [DeviceSide.syn])
    let answer = DeviceSide.segment(sequence: 0, ack: 1, DeviceSide.synAck)
    let data = DeviceSide.segment(sequence: 1, ack: 1, DeviceSide.ack, [1, 2, 3])
    #expect(
      trace.receive(DeviceSide.short(6, answer) + DeviceSide.short(6, data)) == [
        .event(.opened(id)), .bytes(id, [1, 2, 3]),
      ])
    #expect(try trace.frameBytes(id, 5).prefix(8) == [0, 0, 0, 6, 0, 0, 0, 33])
  }

  @Test("fed in every way", arguments: [MuxVersion.one, .two])
  func everyWay(version: MuxVersion) {
    let control = DeviceSide.short(1, [7] + "hello".utf8)
    feedEveryWay(control + DeviceSide.version(version.rawValue), make: { Trace() }) { seen, way in
      #expect(
        seen == [.event(.message(.information, "hello")), .event(.up(version))], "\(way)")
    }
  }

  @Test("any other major number: the device cannot be used", arguments: [0, 3, UInt32.max] as [UInt32])
  func unsupported(major: UInt32) {
    let trace = Trace()
    #expect(
      trace.receive(DeviceSide.version(major)) == [.event(.failed(.unsupportedVersion(major: major)))])
    #expect(throws: LinkError.notUp) { try trace.connect(1) }
    #expect(trace.receive(DeviceSide.version(2)) == [])
    #expect(trace.sent() == [])
    #expect(trace.deadline == nil)
  }

  @Test("an answer too short to hold a version", arguments: 0...7)
  func shortAnswer(count: Int) {
    let trace = Trace()
    let bytes = DeviceSide.short(0, Array([0, 0, 0, 2, 0, 0, 0].prefix(count)))
    #expect(trace.receive(bytes) == [.event(.failed(.malformedVersion(byteCount: count)))])
  }

  @Test("an answer longer than usual is read by its first fields")
  func longAnswer() {
    let trace = Trace()
    let body = DeviceSide.be(UInt32(2)) + [UInt8](repeating: 0, count: 3000)
    #expect(
      trace.receive(DeviceSide.short(0, body) + DeviceSide.long(1, [3], number: 0)) == [
        .event(.up(.two)), .event(.message(.error, "")),
      ])
  }

  @Test("no answer: asked again every second, given up after four times")
  func retries() {
    let trace = Trace()
    #expect(trace.sent().count == 1)
    for _ in 1...3 {
      #expect(trace.advance(by: .milliseconds(999)) == [])
      #expect(trace.sent() == [])
      #expect(trace.deadline == trace.now.advanced(by: .milliseconds(1)))
      #expect(trace.advance(by: .milliseconds(1)) == [])
      #expect(trace.sent().map(\.content) == [0])
    }
    #expect(trace.advance(by: .milliseconds(999)) == [])
    #expect(trace.advance(by: .milliseconds(1)) == [.failed(.versionTimeout(attempts: 4))])
    #expect(trace.advance(by: .seconds(100)) == [])
    #expect(trace.sent() == [])
  }

  @Test("an answer to the third question does; a late one to the second is only noted")
  func lateAnswer() {
    let trace = Trace()
    _ = trace.advance(by: .seconds(1))
    _ = trace.advance(by: .seconds(1))
    #expect(trace.receive(DeviceSide.version(2)) == [.event(.up(.two))])
    // What was not sent yet is not asked any more.
    #expect(trace.sent().map(\.content) == [2])
    #expect(trace.receive(DeviceSide.version(2)) == [.event(.note(.repeatedVersion(major: 2)))])
    #expect(trace.receive(DeviceSide.short(0, [1])) == [])
    #expect(trace.version == .two)
    #expect(trace.deadline == nil)
  }

  /// A newly opened phone still delivers version 2 packets of the old session: "They must be discarded,
  /// and must not be taken for 8-byte-header packets or end the handshake."
  @Test("packets of an earlier host are discarded by their length")
  func stalePackets() {
    let segment = DeviceSide.segment(to: 51000, sequence: 700, ack: 90, DeviceSide.ack, [1, 2, 3, 4])
    let old = DeviceSide.long(6, segment, number: 4711, received: 99)
    let oldShort = DeviceSide.short(6, segment)
    let oldMessage = DeviceSide.long(1, [5] + "old".utf8, number: 4712)
    let note = LinkEvent.note(.stale(content: 6, length: UInt32(old.count)))
    let shortNote = LinkEvent.note(.stale(content: 6, length: UInt32(oldShort.count)))
    let bytes = old + oldMessage + oldShort + old + DeviceSide.version(2)
    feedEveryWay(bytes, make: { Trace() }) { seen, way in
      #expect(
        seen == [
          .event(note), .event(.message(.warning, "old")), .event(shortNote), .event(note),
          .event(.up(.two)),
        ], "\(way)")
    }
  }

  @Test("old packets are not answered before the link is up, and by RST after it")
  func strangersAround() {
    let trace = Trace()
    _ = trace.sent()
    let segment = DeviceSide.segment(from: 62078, to: 51000, sequence: 700, ack: 90, DeviceSide.ack, [1])
    _ = trace.receive(DeviceSide.long(6, segment, number: 4711))
    #expect(!trace.hasPendingPackets)
    _ = trace.receive(DeviceSide.version(2))
    #expect(
      trace.receive(DeviceSide.long(6, segment, number: 4712)) == [
        .event(.note(.stranger(hostPort: 51000, devicePort: 62078, .ack)))
      ])
    let sent = trace.sent()
    #expect(sent.map(\.content) == [2, 6])
    #expect(sent[1].ports == [51000, 62078])
    #expect(sent[1].flags == DeviceSide.rst)
    #expect(sent[1].ack == 700)
  }

  @Test("a device that restarts its numbers behind old packets is heard")
  func oldNumbers() throws {
    let trace = Trace.up()
    let old = DeviceSide.segment(from: 62078, to: 51000, sequence: 700, ack: 90, DeviceSide.ack, [1])
    _ = trace.receive(DeviceSide.long(6, old, number: 5))
    let id = try trace.connect()
    _ = trace.sent()
    trace.number = 0
    #expect(trace.segment(sequence: 0, ack: 1, DeviceSide.synAck) == [.event(.opened(id))])
  }

  @Test("nothing can be opened before the link is up")
  func notUp() {
    let trace = Trace()
    #expect(throws: LinkError.notUp) { try trace.connect() }
    #expect(trace.sendable(.first) == 0)
  }
}
