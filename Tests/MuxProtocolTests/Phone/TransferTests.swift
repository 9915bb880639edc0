import MuxProtocol
import SimulatedPhone
import Testing

@Suite("A host link against a simulated phone: data")
struct TransferTests {
  /// Behaviours under which the same must happen.
  static let behaviours: [(String, PhoneBehaviour)] = {
    func variant(_ name: String, _ change: (inout PhoneBehaviour) -> Void) -> (String, PhoneBehaviour) {
      var behaviour = PhoneBehaviour()
      change(&behaviour)
      return (name, behaviour)
    }
    return [
      variant("usual") { _ in },
      variant("version 1") { $0.version = 1 },
      variant("reads of 4096 bytes") { $0.readPieceSize = 4096 },
      variant("reads of 512 bytes") { $0.readPieceSize = 512 },
      variant("reads of 1000 bytes, packets glued") {
        $0.readPieceSize = 1000
        $0.gluesPackets = true
      },
      variant("reads of 64 KiB, packets glued") {
        $0.readPieceSize = 65536
        $0.gluesPackets = true
        $0.maximumPacketSize = 5000
      },
      variant("PSH on data") { $0.pushes = true },
      variant("small windows") {
        $0.window = 1024
        $0.sendBuffer = 700
      },
      variant("numbers about to wrap") { $0.initialSequence = .max - 1000 },
      variant("super speed") { $0.endpointPacketSize = 1024 },
      variant("slow start, old packets, messages") {
        $0.ignoredVersions = 2
        $0.stalePackets = 3
        $0.messages = [PhoneMessage(.warning, "careful")]
      },
    ]
  }()

  @Test("an echo comes back whole, and the host broke no rule", arguments: behaviours)
  func echo(name: String, behaviour: PhoneBehaviour) throws {
    var bench = Bench(behaviour: behaviour)
    bench.advance(by: .seconds(3))
    #expect(bench.linkEvents.contains(.up(behaviour.version == 1 ? .one : .two)))
    let sent = testBytes(200_000)
    let id = try bench.connect(7, sending: sent)
    bench.settle()
    #expect(bench.locals[id]?.received == sent)
    bench.close(id)
    bench.settle()
    #expect(bench.phone.sessionCount == 0)
    #expect(bench.link.sessionCount == 0)
    #expect(bench.phone.violations.first == [])
    #expect(bench.phone.strangers == 0)
    #expect(bench.link.counters.gaps == 0)
    #expect(bench.link.counters.repeats == 0)
    #expect(bench.link.counters.strangers == 0)
  }

  @Test(
    "an echo of 1 MiB through windows of every size",
    arguments: [(256, 37), (4096, 1000), (131072, 0x7ffc), (1 << 20, 65535)])
  func windows(window: Int, packet: Int) throws {
    var bench = Bench(LinkConfiguration(receiveWindow: window, maximumPacketSize: packet))
    let sent = testBytes(window < 4096 ? 20_000 : 1 << 20)
    bench.run()
    let id = try bench.connect(7, sending: sent)
    bench.advance(by: .seconds(3600))
    #expect(bench.locals[id]?.received == sent)
    #expect(bench.phone.violations.first == [])
  }

  @Test("packets whose length is a multiple of wMaxPacketSize get through", arguments: [512, 1024])
  func multiples(size: Int) throws {
    var behaviour = PhoneBehaviour()
    behaviour.endpointPacketSize = size
    var bench = Bench(behaviour: behaviour)
    bench.run()
    for multiple in 1...8 {
      let sent = testBytes(multiple * size - 36)
      let id = try bench.connect(7, sending: sent)
      bench.settle()
      #expect(bench.locals[id]?.received == sent)
    }
    #expect(bench.phone.violations.first == [])
  }

  @Test("without the zero-length packet the phone merges, rejects and says so")
  func missingZeroLengthPacket() {
    var phone = PhoneLink(behaviour: PhoneBehaviour())
    phone.receive(ContiguousArray<UInt8>(repeating: 0, count: 512).span)
    var violations = phone.violations
    #expect(violations.count == 0)
    phone.receive(ContiguousArray<UInt8>(repeating: 0, count: 100).span)
    violations = phone.violations
    #expect(
      violations.first == [
        .missingZeroLengthPacket(transfer: 512), .wrongLength(field: 0, transfer: 612),
      ])
    for _ in 0..<128 { phone.receive(ContiguousArray<UInt8>(repeating: 0, count: 512).span) }
    violations = phone.violations
    #expect(violations.first.last == .oversizedPacket(65536))
    var text: [UInt8] = []
    text.append(addingCapacity: 1000) { output in
      _ = phone.nextTransfer(into: &output)
    }
    #expect(
      String(decoding: text.dropFirst(9), as: UTF8.self) == "message was too large (65536 bytes, max = 65535)"
    )
  }

  @Test("a refusal, on a port without a server")
  func refusal() throws {
    var bench = Bench()
    bench.run()
    let id = try bench.connect(8100, sending: [1, 2, 3])
    bench.settle()
    #expect(bench.locals[id]?.refusal == "")
    #expect(bench.link.sessionCount == 0)
    #expect(bench.phone.sessionCount == 0)
    #expect(bench.phone.violations.first == [])
  }

  @Test("data right before the app's close comes out first", arguments: [false, true])
  func closeAfterData(finishes: Bool) throws {
    var behaviour = PhoneBehaviour()
    behaviour.finishes = finishes
    behaviour.resetReason = "done"
    var bench = Bench(behaviour: behaviour, ports: [5000: .external])
    bench.run()
    let id = try bench.connect(5000)
    bench.run()
    guard case .opening(let session, 5000)? = bench.phone.nextEvent() else {
      Issue.record("no session at the phone")
      return
    }
    bench.phone.accept(session)
    let answer = testBytes(100_000)
    #expect(bench.phone.write(session, answer.stored.span) == answer.count)
    bench.phone.close(session)
    bench.settle()
    #expect(bench.locals[id]?.received == answer)
    #expect(bench.locals[id]?.end == (finishes ? .finished : .resetByDevice(reason: "done")))
    #expect(bench.phone.sessionCount == 0)
    #expect(bench.link.sessionCount == 0)
    #expect(bench.phone.violations.first == [])
  }

  @Test("what came before the host's end is the app's, also what it had not read")
  func unreadAtTheEnd() throws {
    var bench = Bench(ports: [5000: .external])
    bench.run()
    let sent = testBytes(50_000)
    let id = try bench.connect(5000, sending: sent)
    bench.run()
    guard case .opening(let session, _)? = bench.phone.nextEvent() else {
      Issue.record("no session at the phone")
      return
    }
    bench.phone.accept(session)
    bench.settle()
    bench.phone.read(session) { _ in 20_000 }
    bench.close(id)
    bench.settle()
    var ends: [PhoneEvent] = []
    while let event = bench.phone.nextEvent() { if case .closed = event { ends.append(event) } }
    #expect(ends == [.closed(session, unread: ContiguousArray(sent[20_000...]))])
    #expect(bench.phone.sessionCount == 0)
  }

  @Test("an app that does not read: its window fills, then the host stops; nothing else does")
  func stalledApp() throws {
    var bench = Bench(ports: [5000: .external, 7: .echo])
    bench.run()
    let sent = testBytes(500_000)
    let id = try bench.connect(5000, sending: sent)
    bench.run()
    guard case .opening(let session, _)? = bench.phone.nextEvent() else {
      Issue.record("no session at the phone")
      return
    }
    bench.phone.accept(session)
    bench.settle()
    // The window on the wire is in units of 256 bytes.
    #expect(bench.locals[id].map { (128 * 1024 - 255...128 * 1024).contains($0.sent) } == true)
    #expect(bench.link.sendable(id) == 0)
    let other = try bench.connect(7, sending: sent)
    bench.settle()
    #expect(bench.locals[other]?.received == sent)
    // Now it reads, in small steps.
    var read: [UInt8] = []
    for _ in 0..<10_000 where read.count < sent.count {
      bench.phone.read(session) { bytes in
        let piece = bytes.extracting(first: 1000)
        for index in piece.indices { read.append(piece[index]) }
        return piece.count
      }
      bench.run()
    }
    #expect(read == sent)
    #expect(bench.phone.violations.first == [])
  }

  @Test("a reader that stalls holds back its own session and costs one window")
  func stalledReader() throws {
    var bench = Bench(LinkConfiguration(receiveWindow: 65536))
    bench.run()
    let stalled = try bench.connect(19)
    bench.locals[stalled]?.isStalled = true
    bench.settle()
    #expect(bench.locals[stalled]?.received.count == 65536)
    let sent = testBytes(300_000)
    let other = try bench.connect(7, sending: sent)
    bench.settle()
    #expect(bench.locals[other]?.received == sent)
    #expect(bench.locals[stalled]?.received.count == 65536)
    // It goes on for one window, then stalls again.
    bench.locals[stalled]?.isStalled = false
    bench.link.consumed(stalled, count: 65536, at: bench.now)
    bench.locals[stalled]?.untaken = 0
    bench.locals[stalled]?.isStalled = true
    bench.settle()
    #expect(bench.locals[stalled]?.received.count == 2 * 65536)
    #expect(bench.phone.violations.first == [])
  }

  @Test("500 sessions at a time")
  func manySessions() throws {
    var bench = Bench()
    bench.run()
    var expected: [SessionID: [UInt8]] = [:]
    for number in 0..<500 {
      let bytes = testBytes(2000, seed: UInt64(number))
      expected[try bench.connect(7, sending: bytes)] = bytes
    }
    bench.settle()
    #expect(bench.link.sessionCount == 500)
    #expect(expected.allSatisfy { bench.locals[$0.key]?.received == $0.value })
    for id in expected.keys { bench.close(id) }
    bench.settle()
    #expect(bench.phone.sessionCount == 0)
    #expect(bench.phone.violations.first == [])
  }

  @Test("a restarted host: the phone's old sessions are answered by RST and go away")
  func restart() throws {
    var bench = Bench()
    bench.run()
    let old = try bench.connect(19)
    bench.locals[old]?.isStalled = true
    bench.run()
    #expect(bench.phone.sessionCount == 1)
    bench.link = HostLink(configuration: LinkConfiguration(), firstPort: 50000)
    bench.locals = [:]
    bench.link.start(at: bench.now)
    bench.settle()
    let sent = testBytes(5000)
    let id = try bench.connect(7, sending: sent)
    bench.settle()
    #expect(bench.locals[id]?.received == sent)
    #expect(bench.phone.violations.first == [])
  }
}
