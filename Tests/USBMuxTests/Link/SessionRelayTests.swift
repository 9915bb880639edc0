import Foundation
import SimulatedPhone
import Testing

@testable import USBMux

/// Clients joined to sessions of a simulated phone: the whole of the device protocol is between the two.
@Suite("Session relay")
struct SessionRelayTests {
  @Test("Echo, both directions at once", arguments: RelayBench.Kind.allCases)
  func echo(_ kind: RelayBench.Kind) throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    let (client, _) = try bench.open(7, client: kind)
    let bytes = pattern(6_000_001)
    try together(
      { try client.send(bytes) }, { try expectSame(client.receive(exactly: bytes.count), bytes) })
  }

  @Test("A refused port")
  func refused() throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    #expect(throws: MuxError.refused(port(4444))) { _ = try bench.open(4444) }
  }

  @Test(
    "An app that closes: every byte, then a clean end", arguments: RelayBench.Kind.allCases, [false, true])
  func appCloses(_ kind: RelayBench.Kind, finishes: Bool) throws {
    var behaviour = PhoneBehaviour()
    behaviour.finishes = finishes
    let bench = try SessionBench(behaviour: behaviour)
    defer { bench.tearDown() }
    let (client, relay) = try bench.open(8765, client: kind)
    try client.send(Array("GET /big?bytes=3000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8))
    let got = try client.receiveToEnd()
    #expect(got.end == .clean && got.bytes.count > 3_000_000)
    client.close()
    let summary = try bench.summary(relay)
    #expect(summary.reason == .ended && summary.received == UInt64(got.bytes.count))
    #expect(bench.sessionCount == 0)
  }

  @Test("A half-closed client gets the whole answer", arguments: RelayBench.Kind.allCases)
  func halfClose(_ kind: RelayBench.Kind) throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    let (client, relay) = try bench.open(8765, client: kind)
    try client.send(Array("GET /big?bytes=10000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8))
    client.endSending()
    let got = try client.receiveToEnd()
    #expect(got.end == .clean && got.bytes.count > 10_000_000)
    #expect(try bench.summary(relay).reason == .ended)
  }

  #if os(Linux)
    @Test("A client that is gone: all that it sent arrives, then the session ends")
    func gone() throws {
      let server = try TCPListener()
      let bench = try SessionBench(servers: [5000: server.port])
      defer { bench.tearDown() }
      let (client, relay) = try bench.open(5000)
      let app = try server.accept()
      let bytes = pattern(4_000_000)
      try together(
        {
          try client.send(bytes)
          client.close()
        },
        { try expectSame(app.receiveToEnd().bytes, bytes) })
      #expect(try bench.summary(relay).reason == .clientGone)
      #expect(bench.sessionCount == 0)
    }
  #endif

  @Test("A client that ended while the app takes nothing is let go after the bounded time")
  func endedWhileStalled() throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    var times = RelayTimes()
    times.halfClose = 300_000_000
    let (client, relay) = try bench.open(8765, client: .unix, times: times)
    // The app is busy with an answer that the client does not read, so it does not read what follows.
    try client.send(Array("GET /big?bytes=100000000 HTTP/1.1\r\nHost: x\r\n\r\n".utf8))
    #expect(client.isReady(for: POLLIN, milliseconds: 10_000))
    // The client's end is announced while the window is open, and stays behind bytes that it does not let
    // through.
    try bench.onRelay(relay) { _ in
      let sent = (try? client.fill(pattern(1_000_000), quietMilliseconds: 0)) ?? 0
      #expect(sent > PhoneBehaviour().window)
      client.endSending()
    }
    #expect(try bench.summary(relay).reason == .idleAfterHalfClose)
    #expect(bench.sessionCount == 0)
    client.close()
  }

  @Test("A client that stalls holds back its own session only, and loses nothing")
  func stall() throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    let (slow, relay) = try bench.open(8765)
    try slow.send(Array("GET /big?bytes=40000000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8))
    // Its window fills up; then nothing more is taken from the phone for it.
    let counts = Box<[UInt64]>([])
    try bench.thread.eventually("it stalls") {
      guard let received = bench.link?.counters.payloadBytesReceived else { return false }
      counts.change { $0.append(received) }
      return counts.value.count > 300 && counts.value.suffix(200).allSatisfy { $0 == received }
    }
    let (quick, _) = try bench.open(7)
    let bytes = pattern(3_000_000)
    try together({ try quick.send(bytes) }, { try expectSame(quick.receive(exactly: bytes.count), bytes) })
    let got = try slow.receiveToEnd()
    #expect(got.end == .clean && got.bytes.count > 40_000_000)
    slow.close()
    #expect(try bench.summary(relay).received == UInt64(got.bytes.count))
  }

  @Test("A client that goes on sending after the app closed does not keep the loop to itself")
  func sendsAfterEnd() throws {
    var times = RelayTimes()
    times.linger = 200_000_000
    let server = try TCPListener()
    let bench = try SessionBench(servers: [5000: server.port])
    defer { bench.tearDown() }
    let (client, relay) = try bench.open(5000, times: times)
    try server.accept().close()
    let isOver = Box(false)
    let chunk = pattern(1 << 20)
    try together(
      { while !isOver.value { do { _ = try client.sendSome(chunk[...]) } catch { break } } },
      { while !isOver.value { do { _ = try client.sendSome(chunk[...]) } catch { break } } },
      {
        defer { isOver.value = true }
        let reason = try bench.summary(relay).reason
        #expect(reason == .ended)
      })
  }

  @Test("A link that fails resets its clients", arguments: [false, true])
  func linkFails(stops: Bool) throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    let clients = try (0..<3).map { _ in try bench.open(7) }
    for (client, _) in clients {
      try client.send([1])
      #expect(try client.receive(exactly: 1) == [1])
    }
    try bench.thread.run { if stops { bench.link?.stop() } else { bench.link?.pipeFailed("gone") } }
    for (client, relay) in clients {
      #expect(try client.receiveToEnd().end == .reset)
      #expect(try bench.summary(relay).reason == .deviceLost)
    }
    #expect(bench.failure.value == (stops ? nil : "gone"))
  }

  @Test("Stopped: the client is reset and the session ends")
  func stopped() throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    let (client, relay) = try bench.open(7)
    try bench.onRelay(relay) { $0.stop() }
    #expect(try client.receiveToEnd().end == .reset)
    #expect(try bench.summary(relay).reason == .stopped)
    #expect(bench.sessionCount == 0)
  }

  @Test("A client that resets ends its session")
  func clientResets() throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    let (client, relay) = try bench.open(19)
    _ = try client.receive(exactly: 1_000_000)
    client.abort()
    #expect(try bench.summary(relay).reason == .clientGone)
    #expect(bench.sessionCount == 0)
  }

  @Test("Many sessions at once, each with its own bytes")
  func many() throws {
    let bench = try SessionBench()
    defer { bench.tearDown() }
    let clients = try (0..<40).map { _ in try bench.open(7).0 }
    for (index, client) in clients.enumerated() {
      try client.send(pattern(20_000, seed: UInt8(index)))
    }
    for (index, client) in clients.enumerated() {
      expectSame(try client.receive(exactly: 20_000), pattern(20_000, seed: UInt8(index)))
    }
    for client in clients { client.close() }
    try eventually("all sessions end") { bench.sessionCount == 0 }
  }
}
