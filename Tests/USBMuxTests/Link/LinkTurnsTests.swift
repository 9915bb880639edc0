import SimulatedPhone
import Testing

@testable import MuxProtocol
@testable import USBMux

/// Whose packets go when, with transfers that end when the test says so.
@Suite("Turns on a link")
struct LinkTurnsTests {
  /// A bulk session, whose packets take all transfers that they may, and a silent one.
  private struct Scene {
    let bench: LinkBench
    let bulk = TestSession()
    let other = TestSession()
    let bulkSession: SessionID
    let otherSession: SessionID

    init(endpointPacketSize: Int) throws {
      var behaviour = PhoneBehaviour()
      behaviour.window = 4 << 20
      behaviour.endpointPacketSize = endpointPacketSize
      bench = try LinkBench(behaviour: behaviour, transfers: 8, endpointPacketSize: endpointPacketSize)
      bulkSession = try bench.open(9, bulk)
      otherSession = try bench.open(9, other)
      bulk.outgoing = pattern(10_000_000)
      bench.pipe.isFlowing = false
      bench.link.wantsToSend(bulkSession)
    }

    var underWay: Int { bench.pipe.underWay.reduce(0) { $0 + $1.bytes.count } }

    /// The oldest transfer ends.
    func turn() {
      bench.pipe.complete(1)
      bench.pipe.receiver?.pipeCanSend()
      _ = bench.pipe.deliver()
    }

    /// The other session has one more byte to send; how many packets are framed before it.
    func speak() -> Int {
      let before = bench.pipe.payloadPorts.count
      other.outgoing.append(1)
      bench.link.wantsToSend(otherSession)
      return bench.pipe.payloadPorts[before...].firstIndex(of: otherSession.hostPort).map { $0 - before }
        ?? -1
    }
  }

  /// Packets that are under way to a device whose OUT endpoint has packets of `endpoint` bytes, alone and beside
  /// another session, and bytes of the former.
  @Test(
    "More packets are under way while one stream is alone; a message is framed at once in any case",
    arguments: [(endpoint: 512, alone: 3, bytes: 48 * 1024), (endpoint: 1024, alone: 4, bytes: 128 * 1024)])
  func underWay(endpoint: Int, alone: Int, bytes: Int) throws {
    let scene = try Scene(endpointPacketSize: endpoint)
    for _ in 0..<5 {
      #expect(scene.bench.pipe.underWay.count == alone)
      #expect(scene.underWay <= bytes)
      scene.turn()
    }
    #expect(scene.speak() == 0)
    for _ in 0..<20 {
      for _ in 0..<10 { scene.turn() }
      #expect(scene.bench.pipe.underWay.count == 2)
      #expect(scene.underWay <= LinkConfiguration().maximumPacketSize, "one packet of the longest kind")
      #expect(scene.speak() == 0, "no packet is framed between its coming and its framing")
    }
  }

  @Test("A message of a session waits for no more than a packet each of others that were silent")
  func severalMessages() throws {
    let bench = try LinkBench(transfers: 1)
    let users = (0..<6).map { _ in TestSession() }
    let sessions = try users.map { try bench.open(9, $0) }
    bench.pipe.isFlowing = false
    for (user, session) in zip(users[..<3], sessions) {
      user.outgoing = pattern(1_000_000)
      bench.link.wantsToSend(session)
    }
    let before = bench.pipe.payloadPorts.count
    for (user, session) in zip(users[3...], sessions[3...]) {
      user.outgoing = [1]
      bench.link.wantsToSend(session)
    }
    for _ in 0..<8 {
      bench.pipe.complete(1)
      bench.pipe.receiver?.pipeCanSend()
    }
    let ports = Array(bench.pipe.payloadPorts[before...])
    // The two of the first three that had not had a turn were silent before, too.
    #expect(Array(ports.prefix(5)) == sessions[1...].map(\.hostPort))
    // From then on the three that go on take turns.
    #expect(Array(ports[5...]) == sessions[..<3].map(\.hostPort))
  }
}

@Suite("Pacing")
struct SendPacingTests {
  private func session(_ index: UInt16) -> SessionID {
    SessionID(index: index, hostPort: 1000 + index, serial: 0)
  }

  @Test("As among others from a message beside bulk on, for a second")
  func memory() {
    var pacing = SendPacing(endpointPacketSize: 1024)
    let second = SendPacing.memory
    pacing.sent(session(1), isNew: true, isFull: false, at: 0)
    pacing.sent(session(2), isNew: true, isFull: true, at: 0)
    #expect(pacing.limits(at: 0) == SendPacing.aloneAtSuperSpeed, "the message was before the bulk")
    pacing.sent(session(2), isNew: true, isFull: true, at: 1)
    #expect(pacing.limits(at: 1) == SendPacing.aloneAtSuperSpeed, "a bulk stream is no other to itself")
    pacing.sent(session(1), isNew: true, isFull: false, at: second)
    #expect(pacing.limits(at: second) == SendPacing.shared)
    #expect(pacing.limits(at: 2 * second - 1) == SendPacing.shared)
    #expect(pacing.limits(at: 2 * second) == SendPacing.aloneAtSuperSpeed)
    pacing.sent(session(1), isNew: true, isFull: false, at: 5 * second)
    #expect(pacing.limits(at: 5 * second) == SendPacing.aloneAtSuperSpeed, "the bulk was long ago")
  }
}
