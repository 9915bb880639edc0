import Foundation
import Testing

extension EndToEnd {
  /// The end of the client's bytes is not the end of the phone's; a client that has gone is both.
  @Suite(.serialized) struct HalfClose {
    enum Local: CaseIterable, Sendable { case ipv4, ipv6, unix }

    /// A tunnel with a listener of each kind, to the same device port.
    struct Setup {
      let mux: FakeMux
      let tunnel: Tunnel
      let directory: String

      init(_ port: Port, _ options: [String] = []) throws {
        mux = try FakeMux()
        mux.attach(phone)
        mux.setPort(20, port)
        directory = try temporaryDirectory()
        tunnel = try Tunnel(
          arguments: options + [
            "--local", "0", "--device-port", "20", "--local", "unix:\(directory)/local", "--device-port",
            "20",
          ],
          environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
        try tunnel.waitUntilReady([20], addresses: 3)
      }

      func client(_ local: Local) throws -> Client {
        for line in tunnel.readyLines {
          switch (line.endpoint, local) {
          case (.ipv4, .ipv4), (.ipv6, .ipv6), (.unix, .unix): return try Client(line.endpoint)
          case (.ipv4, _), (.ipv6, _), (.unix, _): continue
          }
        }
        throw Unmet("no listener of kind \(local): \(tunnel.output)")
      }

      func finish() { try? FileManager.default.removeItem(atPath: directory) }
    }

    @Test(arguments: Local.allCases)
    func tenMebibytesOfAnswerAfterShutdown(local: Local) throws {
      let size = 10 * mebibyte
      let setup = try Setup(.open(.answer(size)))
      defer { setup.finish() }
      let client = try setup.client(local)
      try client.send("GET / HTTP/1.0\r\n\r\n")
      client.finishSending()
      let reception = client.receivePattern()
      #expect(reception == .whole(size), "\(setup.tunnel.log)")
      #expect(setup.mux.stream(0)?.end == .byApp)
    }

    @Test func theWholeRequestIsDeliveredFirst() throws {
      let setup = try Setup(
        .open(Service(checks: true, sends: mebibyte, start: .afterBytes(8 * mebibyte), finish: .whenSent)))
      defer { setup.finish() }
      let client = try setup.client(.ipv4)
      #expect(try client.sendPattern(8 * mebibyte) == 8 * mebibyte)
      client.finishSending()
      #expect(client.receivePattern() == .whole(mebibyte))
      #expect(setup.mux.stream(0)?.received == 8 * mebibyte)
      #expect(setup.mux.stream(0)?.mismatch == nil)
    }

    /// Silence after the client's end is not for ever.
    @Test(arguments: Local.allCases)
    func theIdleTimeEndsIt(local: Local) throws {
      let setup = try Setup(.open(.discard), ["--half-close-timeout", "1"])
      defer { setup.finish() }
      let client = try setup.client(local)
      try client.send("request")
      #expect(setup.mux.wait { $0.streams.first?.report.received == 7 })
      client.finishSending()
      let start = uptime()
      #expect(client.ending(within: 8) != .stillOpen, "\(setup.tunnel.log)")
      #expect(uptime() - start > 0.8)
      #expect(setup.mux.wait { $0.openStreams == 0 })
    }

    /// It is a limit on silence, not on the length of an answer.
    @Test func anAnswerThatTricklesIsNotCut() throws {
      let setup = try Setup(
        .open(Service(sends: 24, start: .afterHeader, pace: (4, 0.4), finish: .whenSent)),
        ["--half-close-timeout", "1"])
      defer { setup.finish() }
      let client = try setup.client(.ipv4)
      try client.send("GET / HTTP/1.0\r\n\r\n")
      client.finishSending()
      #expect(
        client.receivePattern() == .whole(24), "\(setup.tunnel.log)")
    }

    /// A reader that stalls after its shutdown is not idle on the phone's account.
    @Test func aSlowReaderIsNotCutEither() throws {
      let size = 16 * mebibyte
      let setup = try Setup(.open(.answer(size)), ["--half-close-timeout", "5"])
      defer { setup.finish() }
      let client = try setup.client(.ipv4)
      try client.send("GET / HTTP/1.0\r\n\r\n")
      client.finishSending()
      #expect(settles(for: 1, within: 10) { setup.mux.stream(0)?.sent ?? 0 })
      #expect(
        client.receivePattern() == .whole(size), "\(setup.tunnel.log)")
    }

    /// A program that has closed its socket waits for nothing: the phone's connection goes at once.
    @Test(arguments: Local.allCases)
    func aClientThatIsGoneHoldsNothing(local: Local) throws {
      let setup = try Setup(.open(.discard))
      defer { setup.finish() }
      let client = try setup.client(local)
      try client.sendPattern(100_000)
      #expect(setup.mux.wait { $0.streams.first?.report.received == 100_000 })
      let start = uptime()
      client.close()
      #expect(setup.mux.wait { $0.openStreams == 0 }, "\(setup.tunnel.log)")
      #expect(uptime() - start < 1)
      #expect(setup.mux.stream(0)?.mismatch == nil)
    }

    @Test func aClientThatClosesWithoutAWordHoldsNothing() throws {
      let setup = try Setup(.open(.discard))
      defer { setup.finish() }
      for round in 1...20 {
        let client = try setup.client(.ipv4)
        #expect(setup.mux.wait { $0.streams.count == round })
        client.close()
        #expect(setup.mux.wait(within: 1) { $0.openStreams == 0 }, "\(setup.tunnel.log)")
      }
    }

    /// Shut down first, closed later: a Unix socket shows the hang-up.
    @Test func aUnixClientThatLeavesAfterItsShutdownIsNoticed() throws {
      let setup = try Setup(.open(.discard))
      defer { setup.finish() }
      let client = try setup.client(.unix)
      try client.send("request")
      client.finishSending()
      #expect(setup.mux.wait { $0.streams.first?.report.received == 7 })
      #expect(!setup.mux.wait(within: 0.5) { $0.openStreams == 0 })
      client.close()
      #expect(setup.mux.wait(within: 1) { $0.openStreams == 0 }, "\(setup.tunnel.log)")
    }

    @Test func anAbortGoesStraightThrough() throws {
      let setup = try Setup(.open(.endless))
      defer { setup.finish() }
      let client = try setup.client(.ipv4)
      #expect(client.receivePattern(limit: mebibyte).mismatch == nil)
      client.reset()
      #expect(setup.mux.wait(within: 1) { $0.openStreams == 0 }, "\(setup.tunnel.log)")
    }

    /// The client leaves while the phone is stuck: iproxy notices, and so does this.
    @Test func leavingAStuckPhoneIsNoticed() throws {
      let setup = try Setup(.open(.stuck))
      defer { setup.finish() }
      let client = try setup.client(.ipv4)
      try client.send("anybody there?")
      #expect(setup.mux.wait { $0.openStreams == 1 })
      client.reset()
      #expect(setup.mux.wait(within: 1) { $0.openStreams == 0 }, "\(setup.tunnel.log)")
    }

    /// A client that closes while the Connect is unanswered cancels it.
    @Test func leavingDuringConnectCancelsIt() throws {
      let setup = try Setup(.silent)
      defer { setup.finish() }
      let client = try setup.client(.ipv4)
      #expect(setup.mux.wait { $0.connects.count == 1 })
      client.reset()
      #expect(setup.mux.wait(within: 2) { $0.cancelledConnects == 1 }, "\(setup.tunnel.log)")
    }
  }
}
