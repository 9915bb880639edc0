import EventLoop
import Foundation
import Testing

@testable import USBMux

/// Bytes: all of them, in order, in bounded memory, on whatever thread.
@Suite("Socket relay: flow")
struct SocketRelayFlowTests {
  /// What the relay may hold of a direction: a copy buffer, or a pipe, and a slice under way.
  private static let held = 2 << 20

  @Test(
    "Both directions at once, each with its own bytes",
    arguments: RelayBench.Kind.allCases, RelayBench.Kind.allCases)
  func duplex(_ client: RelayBench.Kind, _ device: RelayBench.Kind) throws {
    let bench = try RelayBench(client: client, device: device)
    defer { bench.tearDown() }
    try bench.start()
    let up = pattern(9_000_001, seed: 1)
    let down = pattern(8_000_003, seed: 2)
    try together(
      { try bench.client.send(up) }, { try bench.device.send(down) },
      { try expectSame(bench.device.receive(exactly: up.count), up) },
      { try expectSame(bench.client.receive(exactly: down.count), down) })
  }

  @Test(
    "A reader that stalls holds its sender back, and then gets every byte", arguments: [false, true],
    RelayBench.Kind.allCases)
  func stall(upload: Bool, _ client: RelayBench.Kind) throws {
    let bench = try RelayBench(client: client)
    defer { bench.tearDown() }
    try bench.start()
    let (source, sink) = upload ? (bench.client, bench.device) : (bench.device, bench.client)
    let bytes = pattern(60_000_000)
    let taken = try source.fill(bytes)
    #expect(taken < bytes.count, "somebody holds it all")
    // The relay itself reads no more while its sink is full: what moved between two looks is nothing.
    let counts = Box<[UInt64]>([])
    for _ in 0..<2 {
      try bench.onLoop { relay in
        counts.change { $0.append(upload ? relay.delivered.sent : relay.delivered.received) }
      }
    }
    #expect(counts.value[0] == counts.value[1])
    try together(
      {
        try source.send(Array(bytes[taken...]))
        source.endSending()
      },
      { try expectSame(sink.receive(exactly: bytes.count), bytes) })
  }

  #if os(Linux)
    @Test("What the relay holds is bounded by a buffer or a pipe", arguments: [false, true])
    func bounded(upload: Bool) throws {
      // Unix sockets, whose buffers do not grow: what is taken beyond them is in the relay.
      let bench = try RelayBench(client: .unix)
      defer { bench.tearDown() }
      try bench.start()
      let (source, sink) = upload ? (bench.client, bench.device) : (bench.device, bench.client)
      // Make it bulk first.
      let warm = pattern(3_000_000)
      try together({ try source.send(warm) }, { _ = try sink.receive(exactly: warm.count) })
      let taken = try source.fill(pattern(40_000_000))
      var option: CInt = 0
      var length = socklen_t(MemoryLayout<CInt>.size)
      getsockopt(source.number, SOL_SOCKET, SO_SNDBUF, &option, &length)
      #expect(taken <= 2 * Int(option) + Self.held)
    }
  #endif

  @Test("Each direction goes on while the other one is blocked")
  func alternate() throws {
    let bench = try RelayBench()
    defer { bench.tearDown() }
    try bench.start()
    let up = pattern(60_000_000, seed: 1)
    let down = pattern(60_000_000, seed: 2)
    // Block the upload: the device reads nothing.
    let blocked = try bench.client.fill(up, quietMilliseconds: 100)
    try #require(blocked < up.count)
    // The download runs all the same.
    try together(
      { try bench.device.send(Array(down[..<4_000_000])) },
      { try expectSame(bench.client.receive(exactly: 4_000_000), Array(down[..<4_000_000])) })
    // Now the other way round: block the download, unblock the upload.
    let downRest = Array(down[4_000_000...])
    let downBlocked = try bench.device.fill(downRest, quietMilliseconds: 100)
    try #require(downBlocked < downRest.count)
    let next = min(blocked + 4_000_000, up.count)
    try together(
      { try bench.client.send(Array(up[blocked..<next])) },
      { try expectSame(bench.device.receive(exactly: next), Array(up[..<next])) })
    // And all of the rest.
    let upRest = Array(up[next...])
    try together(
      { try bench.client.send(upRest) },
      { try bench.device.send(Array(downRest[downBlocked...])) },
      { try expectSame(bench.device.receive(exactly: upRest.count), upRest) },
      { try expectSame(bench.client.receive(exactly: downRest.count), downRest) })
  }

  @Test(
    "Bulk, then single messages, then bulk again: spliced, copied, spliced",
    arguments: RelayBench.Kind.allCases)
  func switchOver(_ client: RelayBench.Kind) throws {
    let bench = try RelayBench(client: client)
    defer { bench.tearDown() }
    try bench.start()
    for round in 0..<4 as Range<UInt8> {
      let bulk = pattern(3_000_000 + Int(round), seed: round)
      try together(
        { try bench.client.send(bulk) },
        { try expectSame(bench.device.receive(exactly: bulk.count), bulk) })
      for size in [1, 64, 1000, 70_000, 3, 2, 1] {
        let message = pattern(size, seed: round &+ UInt8(truncatingIfNeeded: size))
        try bench.client.send(message)
        #expect(same(try bench.device.receive(exactly: size), message))
        try bench.device.send(message)
        #expect(same(try bench.client.receive(exactly: size), message))
      }
    }
    // The end of a spliced stream.
    let last = pattern(5_000_000, seed: 9)
    try together(
      {
        try bench.client.send(last)
        bench.client.endSending()
      },
      { try expectSame(bench.device.receive(exactly: last.count), last) })
  }

  @Test("A spliced stream whose reader takes one small piece at a time")
  func smallSteps() throws {
    let bench = try RelayBench(client: .tcp)
    defer { bench.tearDown() }
    try bench.start()
    let bytes = pattern(4_000_000)
    try together(
      {
        try bench.client.send(bytes)
        bench.client.endSending()
      },
      {
        var got: [UInt8] = []
        var step = 1
        while got.count < bytes.count {
          got += try bench.device.receive(exactly: min(step % 7001 + 1, bytes.count - got.count))
          step = step &* 13 &+ 7
        }
        #expect(same(got, bytes))
      })
  }

  // MARK: Two threads

  /// Takes a relay over from the bench's thread.
  private final class Second: RelayOwner, @unchecked Sendable {
    let thread: LoopThread
    private var resources: RelayResources?
    private var relay: SocketRelay?
    let summary = Box<RelaySummary?>(nil)
    let needsVerdict = Box(false)
    var quiet: (SocketRelay) -> Void = { $0.goOn() }
    let quietCalls = Box(0)

    init() throws { thread = try LoopThread() }

    func take(_ relay: SocketRelay) {
      relay.detach()
      let transit = BulkWorker.Transit(relay: relay)
      thread.loop.execute { [self] in
        let resources = RelayResources(loop: thread.loop)
        self.resources = resources
        self.relay = transit.relay
        transit.relay.attach(to: resources, owner: self)
      }
    }

    func tearDown() {
      _ = try? thread.run { [self] in
        relay?.stop()
        relay = nil
        resources = nil
      }
    }

    func relayNeedsVerdict(_ relay: SocketRelay) {
      needsVerdict.value = true
      thread.loop.execute { [self] in self.relay?.deviceEndVerified(.clean) }
    }

    func relayIsBulk(_ relay: SocketRelay) { relay.goOn() }

    func relayIsQuiet(_ relay: SocketRelay) {
      quietCalls.change { $0 += 1 }
      quiet(relay)
    }

    func relayEnded(_ relay: any Relay, _ summary: RelaySummary) { self.summary.value = summary }
  }

  @Test(
    "A relay moves to another thread in mid-stream, both ways under load",
    arguments: RelayBench.Kind.allCases, [false, true])
  func move(_ client: RelayBench.Kind, uploadOnly: Bool) throws {
    let bench = try RelayBench(client: client, needsVerdict: true)
    let second = try Second()
    defer {
      second.tearDown()
      bench.tearDown()
    }
    bench.bulk = { second.take($0) }
    try bench.start()
    let up = pattern(20_000_001, seed: 1)
    let down = pattern(uploadOnly ? 5 : 20_000_003, seed: 2)
    try together(
      { try bench.client.send(up) },
      { try bench.device.send(down) },
      { try expectSame(bench.device.receive(exactly: up.count), up) },
      { try expectSame(bench.client.receive(exactly: down.count), down) })
    #expect(bench.bulkCalls.value == 1, "asked once only")
    bench.device.close()
    #expect(try bench.client.receiveToEnd().end == .clean)
    bench.client.close()
    try eventually("the relay ends") { second.summary.value != nil }
    #expect(second.needsVerdict.value)
    #expect(
      second.summary.value
        == RelaySummary(reason: .ended, sent: UInt64(up.count), received: UInt64(down.count)))
    #expect(!bench.hasEnded)
  }

  @Test("A relay that has become quiet comes back, and goes again", arguments: RelayBench.Kind.allCases)
  func comesBack(_ client: RelayBench.Kind) throws {
    let bench = try RelayBench(client: client)
    let second = try Second()
    defer {
      second.tearDown()
      bench.tearDown()
    }
    bench.bulk = { second.take($0) }
    second.quiet = { relay in
      relay.detach()
      let transit = BulkWorker.Transit(relay: relay)
      bench.thread.loop.execute {
        if let resources = bench.resources { transit.relay.attach(to: resources, owner: bench) }
      }
    }
    try bench.start()
    for round in 1...3 {
      let down = pattern(6_000_001, seed: UInt8(round))
      // How much a turn moves depends on who runs when; in the end it is bulk.
      for _ in 1...20 where bench.bulkCalls.value < round {
        try together(
          { try bench.device.send(down) },
          { try expectSame(bench.client.receive(exactly: down.count), down) })
      }
      #expect(bench.bulkCalls.value == round)
      for number in 0..<UInt8(Pace.quietTurns) {
        try bench.client.send([number])
        #expect(try bench.device.receive(exactly: 1) == [number])
        try bench.device.send([number, number])
        #expect(try bench.client.receive(exactly: 2) == [number, number])
      }
      #expect(second.quietCalls.value == round)
    }
    bench.client.abort()
    #expect(try bench.summary().reason == .clientGone)
  }

  @Test("A relay whose client is ending stays where its clock runs")
  func noMoveWhileEnding() throws {
    let bench = try RelayBench(client: .unix)
    defer { bench.tearDown() }
    try bench.start()
    // The client has ended, and its last bytes cross the threshold while the device takes them slowly.
    let bytes = pattern(Pace.bulkThreshold + 8_000_000)
    let before = Pace.bulkThreshold - 300_000
    let first = Array(bytes[..<before])
    try together(
      { try bench.client.send(first) }, { _ = try bench.device.receive(exactly: before) })
    let sent = try bench.client.fill(Array(bytes[before...]))
    bench.client.endSending()
    try bench.onLoop { _ in }
    var got: [UInt8] = []
    while got.count < sent { got += try bench.device.receive(exactly: min(8192, sent - got.count)) }
    expectSame(got, Array(bytes[before..<before + sent]))
    #expect(bench.bulkCalls.value == 0)
  }
}
