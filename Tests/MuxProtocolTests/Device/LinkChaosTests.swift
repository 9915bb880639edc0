import Testing

@testable import MuxProtocol

/// Random input, from a seed that a failing check prints as its argument.
@Suite("Chaos")
struct LinkChaosTests {
  @Test("bytes without sense never trap, and a failed link stays silent", arguments: 0..<64 as Range<UInt64>)
  func garbage(seed: UInt64) throws {
    var random = SplitMix64(seed: seed)
    let trace = seed % 3 == 0 ? Trace() : Trace.up(seed % 3 == 1 ? .one : .two)
    _ = try? trace.connect()
    for _ in 0..<50 {
      let count = Int.random(in: 0..<200, using: &random)
      let bytes = (0..<count).map { _ in
        UInt8.random(in: 0...(.random(using: &random) ? 8 : 255), using: &random)
      }
      _ = trace.receive(bytes)
      _ = trace.sent()
      _ = trace.advance(by: .milliseconds(Int64.random(in: 0..<500, using: &random)))
    }
  }

  /// Well-formed packets with random fields, so that the sessions are reached.
  @Test("packets with random fields never trap", arguments: 0..<64 as Range<UInt64>)
  func fields(seed: UInt64) throws {
    var random = SplitMix64(seed: seed)
    let trace = Trace.up(.two, LinkConfiguration(receiveWindow: 4096, maximumSessions: 8))
    var ids: [SessionID] = []
    for _ in 0..<400 {
      act(trace, &ids, &random)
      let bytes = packet(&random, trace)
      var rest = bytes[...]
      while !rest.isEmpty {
        let piece = rest.prefix(Int.random(in: 1...60, using: &random))
        rest = rest.dropFirst(piece.count)
        for case .event(.closed(let id, _)) in trace.receive(Array(piece)) { ids.removeAll { $0 == id } }
      }
    }
    // Whatever came, the link is up and a new session can be had once room is made.
    #expect(trace.version == .two)
    for id in ids { trace.link.close(id) }
    _ = trace.sent()
    let id = try trace.connect()
    _ = trace.sent()
    trace.number += 1
    #expect(
      trace.segment(to: id.hostPort, sequence: 5, ack: 1, DeviceSide.synAck).contains(.event(.opened(id))))
  }

  private func act(_ trace: Trace, _ ids: inout [SessionID], _ random: inout SplitMix64) {
    switch Int.random(in: 0..<6, using: &random) {
    case 0:
      if let id = try? trace.connect() { ids.append(id) }
    case 1:
      if let id = ids.randomElement(using: &random) { trace.link.close(id) }
    case 2:
      if let id = ids.randomElement(using: &random) {
        let count = min(trace.sendable(id), 500)
        if count > 0 { #expect((try? trace.frame(id, count)) != nil) }
      }
    case 3:
      if let id = ids.randomElement(using: &random) {
        trace.consumed(id, Int.random(in: -5..<5000, using: &random))
      }
    case 4:
      _ = trace.advance(by: .milliseconds(Int64.random(in: 0..<40, using: &random)))
    default:
      _ = trace.sent()
    }
  }

  private func packet(_ random: inout SplitMix64, _ trace: Trace) -> [UInt8] {
    let flags: [UInt8] = [0x12, 0x10, 0x10, 0x10, 0x18, 0x04, 0x11, 0x02, 0x00, 0xff]
    let numbers: [UInt32] = [0, 1, 2, 100, 1000, 5000, .max, .random(in: 0...(.max), using: &random)]
    let body = DeviceSide.segment(
      to: 40000 + UInt16.random(in: 0..<10, using: &random),
      sequence: numbers.randomElement(using: &random) ?? 0, ack: numbers.randomElement(using: &random) ?? 0,
      flags.randomElement(using: &random) ?? 0, window: [0, 1, 512, .max].randomElement(using: &random) ?? 0,
      dataOffset: UInt8.random(in: 0..<20, using: &random) == 0 ? 7 : 5,
      testBytes(Int.random(in: 0..<300, using: &random)))
    let content = UInt8.random(in: 0..<10, using: &random) > 0 ? 6 : UInt32.random(in: 0..<8, using: &random)
    if UInt8.random(in: 0..<20, using: &random) > 0 { trace.number += 1 }
    return DeviceSide.long(content, body, number: trace.number)
  }

  /// The same packets, cut at random, always give the same events.
  @Test("how the bytes are cut does not matter", arguments: 0..<32 as Range<UInt64>)
  func cuts(seed: UInt64) throws {
    var random = SplitMix64(seed: seed)
    var bytes: [UInt8] = []
    let scribe = Trace.up()
    for _ in 0..<60 { bytes += packet(&random, scribe) }
    func run(cutting: Bool) throws -> [Seen] {
      let trace = Trace.up()
      for _ in 0..<10 { _ = try trace.connect() }
      _ = trace.sent()
      var seen: [Seen] = []
      var rest = bytes[...]
      while !rest.isEmpty {
        let piece = rest.prefix(cutting ? Int.random(in: 1...100, using: &random) : .max)
        rest = rest.dropFirst(piece.count)
        for item in trace.receive(Array(piece)) { seen.appendJoining(item) }
      }
      return seen
    }
    let whole = try run(cutting: false)
    #expect(!whole.isEmpty)
    for _ in 0..<5 { #expect(try run(cutting: true) == whole) }
  }
}
