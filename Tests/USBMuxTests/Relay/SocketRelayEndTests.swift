import EventLoop
import Foundation
import Testing

@testable import USBMux

/// How each side's end is shown to the other one.
@Suite("Socket relay: ends")
struct SocketRelayEndTests {
  @Test(
    "An app that closes ends the client's stream cleanly, after every byte",
    arguments: RelayBench.Kind.allCases)
  func appCloses(_ client: RelayBench.Kind) throws {
    let bench = try RelayBench(client: client)
    defer { bench.tearDown() }
    try bench.start()
    let bytes = pattern(3_000_001)
    try together(
      {
        try bench.device.send(bytes)
        bench.device.close()
      },
      {
        let got = try bench.client.receiveToEnd()
        #expect(same(got.bytes, bytes) && got.end == .clean)
      })
    #expect(!bench.hasEnded, "the client has not ended yet")
    bench.client.close()
    #expect(try bench.summary() == RelaySummary(reason: .ended, sent: 0, received: UInt64(bytes.count)))
  }

  @Test("A client that never ends after the app did is let go after a bounded time")
  func linger() throws {
    var times = RelayTimes()
    times.linger = 50_000_000
    let bench = try RelayBench(times: times)
    defer { bench.tearDown() }
    try bench.start()
    bench.device.close()
    #expect(try bench.client.receiveToEnd().end == .clean)
    // What it still sends is read and forgotten, and does not keep it.
    while !bench.hasEnded {
      do { _ = try bench.client.sendSome(pattern(65536)[...]) } catch { break }
    }
    #expect(try bench.summary().reason == .ended)
  }

  @Test(
    "A daemon's end is explained first: clean",
    arguments: RelayBench.Kind.allCases, RelayBench.Kind.allCases)
  func verdictClean(_ client: RelayBench.Kind, _ device: RelayBench.Kind) throws {
    let bench = try RelayBench(client: client, device: device, needsVerdict: true)
    defer { bench.tearDown() }
    try bench.start()
    let bytes = pattern(300_000)
    try bench.device.send(bytes)
    bench.device.close()
    let got = try bench.client.receiveToEnd()
    #expect(same(got.bytes, bytes) && got.end == .clean)
    bench.client.close()
    #expect(try bench.summary().reason == .ended)
  }

  @Test("A daemon's end is explained first: lost, and the client is reset after what came before")
  func verdictReset() throws {
    let bench = try RelayBench(needsVerdict: true)
    defer { bench.tearDown() }
    bench.verdict.value = .reset
    try bench.start()
    let bytes = pattern(300_000)
    try together(
      {
        try bench.device.send(bytes)
        bench.device.close()
      },
      {
        let got = try bench.client.receiveToEnd()
        #expect(same(got.bytes, bytes) && got.end == .reset)
      })
    #expect(try bench.summary().reason == .deviceLost)
  }

  @Test("Nothing is shown before the explanation")
  func verdictPending() throws {
    let bench = try RelayBench(needsVerdict: true)
    defer { bench.tearDown() }
    bench.verdict.value = nil
    try bench.start()
    bench.device.close()
    #expect(!bench.client.isReady(for: POLLIN, milliseconds: 100))
    try bench.onLoop { $0.deviceEndVerified(.clean) }
    #expect(try bench.client.receiveToEnd().end == .clean)
  }

  @Test("A reset by the device is shown as one")
  func deviceResets() throws {
    let bench = try RelayBench(device: .tcp)
    defer { bench.tearDown() }
    try bench.start()
    try bench.device.send([1, 2, 3])
    #expect(try bench.client.receive(exactly: 3) == [1, 2, 3])
    bench.device.abort()
    #expect(try bench.client.receiveToEnd().end == .reset)
    #expect(try bench.summary().reason == .deviceLost)
  }

  @Test("A lost device resets the client at once, also a half-closed one", arguments: [false, true])
  func deviceLost(halfClosed: Bool) throws {
    let bench = try RelayBench()
    defer { bench.tearDown() }
    try bench.start()
    if halfClosed { bench.client.endSending() }
    try bench.onLoop { $0.deviceLost() }
    #expect(try bench.client.receiveToEnd().end == .reset)
    #expect(try bench.summary().reason == .deviceLost)
    #expect(try bench.device.receiveToEnd().bytes.isEmpty)
  }

  @Test("Stopped: the client is reset, both sides are closed")
  func stopped() throws {
    let bench = try RelayBench()
    defer { bench.tearDown() }
    try bench.start()
    try bench.onLoop { $0.stop() }
    #expect(try bench.client.receiveToEnd().end == .reset)
    #expect(try bench.summary().reason == .stopped)
    _ = try bench.device.receiveToEnd()
  }

  @Test(
    "A half-closed client gets the whole answer, and the device sees no end before it",
    arguments: RelayBench.Kind.allCases)
  func halfClose(_ client: RelayBench.Kind) throws {
    let bench = try RelayBench(client: client)
    defer { bench.tearDown() }
    try bench.start()
    let request = pattern(200_000, seed: 1)
    let answer = pattern(10_000_000, seed: 2)
    try bench.client.send(request)
    bench.client.endSending()
    #expect(same(try bench.device.receive(exactly: request.count), request))
    // Longer than the first looks for a client that is gone.
    #expect(!bench.device.isReady(for: POLLIN | 0x2000, milliseconds: 100))
    try together(
      {
        try bench.device.send(answer)
        bench.device.close()
      },
      {
        let got = try bench.client.receiveToEnd()
        #expect(same(got.bytes, answer) && got.end == .clean)
      })
    #expect(
      try bench.summary()
        == RelaySummary(reason: .ended, sent: UInt64(request.count), received: UInt64(answer.count)))
  }

  @Test("An idle half-close ends after a bounded time without progress")
  func idle() throws {
    var times = RelayTimes()
    times.halfClose = 150_000_000
    let bench = try RelayBench(times: times)
    defer { bench.tearDown() }
    try bench.start()
    bench.client.endSending()
    // Progress keeps it.
    for _ in 0..<10 {
      try bench.device.send([1])
      _ = try bench.client.receive(exactly: 1)
      #expect(!bench.device.isReady(for: POLLIN, milliseconds: 30))
    }
    #expect(try bench.summary().reason == .idleAfterHalfClose)
    _ = try bench.device.receiveToEnd()
  }

  #if os(Linux)
    @Test("A client that is gone does not hold the device: what it sent is delivered, then it is closed")
    func goneTCP() throws {
      let bench = try RelayBench(client: .tcp)
      defer { bench.tearDown() }
      try bench.start()
      let bytes = pattern(1_000_000)
      try together(
        {
          try bench.client.send(bytes)
          bench.client.close()
        },
        { try expectSame(bench.device.receiveToEnd().bytes, bytes) })
      #expect(try bench.summary().reason == .clientGone)
    }

    @Test("A client that first shuts down and then leaves is noticed")
    func goneLater() throws {
      let bench = try RelayBench(client: .tcp)
      defer { bench.tearDown() }
      try bench.start()
      bench.client.endSending()
      #expect(!bench.device.isReady(for: POLLIN, milliseconds: 100))
      bench.client.close()
      #expect(try bench.device.receiveToEnd().end == .clean)
      #expect(try bench.summary().reason == .clientGone)
    }

    @Test("A Unix client that is gone is noticed at once; one that only shut down is kept")
    func goneUnix() throws {
      for leaves in [true, false] {
        let bench = try RelayBench(client: .unix)
        defer { bench.tearDown() }
        try bench.start()
        let bytes = pattern(100_000)
        try bench.client.send(bytes)
        if leaves { bench.client.close() } else { bench.client.endSending() }
        if leaves {
          #expect(same(try bench.device.receiveToEnd().bytes, bytes))
          #expect(try bench.summary().reason == .clientGone)
        } else {
          #expect(same(try bench.device.receive(exactly: bytes.count), bytes))
          #expect(!bench.device.isReady(for: POLLIN, milliseconds: 100))
        }
      }
    }

    @Test("A client that leaves while the device takes nothing is let go after the bounded time")
    func goneWhileStalled() throws {
      var times = RelayTimes()
      times.halfClose = 200_000_000
      let bench = try RelayBench(times: times)
      defer { bench.tearDown() }
      try bench.start()
      // The client's end is behind bytes that the device does not take, and in the relay's socket.
      try together(
        {
          try bench.client.send(pattern(2_000_000))
          bench.client.close()
        },
        { _ = try bench.device.receive(exactly: 1_700_000) })
      #expect(try bench.summary().reason == .idleAfterHalfClose)
    }
  #endif

  @Test("A client that resets: what was read of it is delivered, and the device is closed at once")
  func clientResets() throws {
    let bench = try RelayBench(client: .tcp)
    defer { bench.tearDown() }
    try bench.start()
    try bench.client.send([1, 2, 3])
    #expect(try bench.device.receive(exactly: 3) == [1, 2, 3])
    bench.client.abort()
    #expect(try bench.device.receiveToEnd().bytes.isEmpty)
    #expect(try bench.summary().reason == .clientGone)
  }

  @Test("A client that resets while the device sends at full speed")
  func clientResetsDownload() throws {
    let bench = try RelayBench(client: .tcp)
    defer { bench.tearDown() }
    try bench.start()
    let sent = Box(0)
    try together(
      {
        let chunk = pattern(100_000)
        while true {
          do { try bench.device.send(chunk) } catch is SystemError { break }
          sent.change { $0 += chunk.count }
        }
      },
      {
        _ = try bench.client.receive(exactly: 2_000_000)
        bench.client.abort()
      })
    #expect(try bench.summary().reason == .clientGone)
  }

  @Test("A device that takes no more bytes still delivers its own")
  func deviceRefusesBytes() throws {
    let bench = try RelayBench(device: .unix)
    defer { bench.tearDown() }
    try bench.start()
    _ = shutdown(bench.device.number, CInt(SHUT_RD))
    try bench.client.send(pattern(100_000))
    let answer = pattern(500_000, seed: 3)
    try together(
      {
        try bench.device.send(answer)
        bench.device.close()
      },
      { try expectSame(bench.client.receiveToEnd().bytes, answer) })
  }

  #if os(Linux)
    @Test("A daemon that dies under a bulk upload raises no signal")
    func brokenPipe() async {
      await #expect(processExitsWith: .success) {
        signal(SIGPIPE, SIG_DFL)
        for _ in 0..<5 {
          let bench = try RelayBench(client: .tcp, device: .unix)
          defer { bench.tearDown() }
          try bench.start()
          let chunk = pattern(1_000_000)
          try together(
            { while (try? bench.client.send(chunk)) != nil {} },
            {
              _ = try bench.device.receive(exactly: 8_000_000)
              bench.device.close()
            })
          _ = try bench.summary()
        }
        exit(EXIT_SUCCESS)
      }
    }
  #endif
}
