import Foundation
import Testing

extension EndToEnd {
  /// Bytes arrive, all of them, in order, both ways.
  @Suite(.serialized) struct Transfer {
    @Test func aConnectionReachesThePort() throws {
      let mux = try FakeMux()
      let id = mux.attach(phone)
      let tunnel = try Tunnel(mux, [7])
      let client = try tunnel.client()
      #expect(echoes(client), "\(tunnel.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
      #expect(mux.connects.map(\.port) == [7])
      #expect(mux.violations == [])
    }

    /// `PortNumber` is the port in network byte order, read as a little-endian number.
    @Test(arguments: [(22, 5632), (8100, 42015), (62078, 32498), (1, 256), (65535, 65535)])
    func portNumbersAreSwapped(port: UInt16, written: Int) throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(port, .open(.echo))
      let tunnel = try Tunnel(mux, [port])
      #expect(tunnel.works(port), "\(tunnel.log)")
      #expect(mux.connects.map(\.rawPort) == [written])
    }

    @Test func hundredMebibytesBothWaysAtOnce() throws {
      let size = 100 * mebibyte
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.exchange(sends: size, receives: size)))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      let (sent, reception) = try client.exchange(send: size, receive: size, within: 60)
      #expect(sent == size)
      #expect(reception.count == size)
      #expect(reception.mismatch == nil)
      #expect(client.ending() == .end)
      #expect(mux.wait { $0.openStreams == 0 })
      let report = try #require(mux.stream(0))
      #expect(report.received == size)
      #expect(report.mismatch == nil)
      #expect(report.end == .byApp)
    }

    @Test func hundredMebibytesComeBackFromAnEcho() throws {
      let size = 100 * mebibyte
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      let client = try tunnel.client()
      let (sent, reception) = try client.exchange(send: size, receive: size, within: 60)
      #expect(sent == size)
      #expect(reception == .part(size))
    }

    /// Whatever the phone sent before it closed arrives, then the clean end, soon.
    @Test(arguments: [0, 1, 100_000, 10 * mebibyte])
    func anAppThatClosesEndsTheStreamCleanly(size: Int) throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.send(size)))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      let reception = client.receivePattern()
      #expect(reception == .whole(size), "\(tunnel.log)")
      let report = try #require(mux.stream(0))
      #expect(uptime() - (report.endedAt ?? 0) < 1.5)
    }

    /// The reader takes its time; the app has long gone.
    @Test func aSlowReaderGetsEverythingAfterTheAppHasClosed() throws {
      let size = 8 * mebibyte
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.send(size)))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20, receiveBuffer: 16 * 1024)
      // Nothing is read until nothing moves any more.
      #expect(settles(for: 2, within: 20) { mux.stream(0)?.sent ?? 0 })
      let reception = client.receivePattern(pieces: 8 * 1024)
      #expect(reception == .whole(size), "\(tunnel.log)")
    }

    /// What the client wrote just before it closed is delivered, however slow the phone is.
    @Test(arguments: [false, true])
    func bytesWrittenBeforeCloseAreDelivered(overUnixSocket: Bool) throws {
      let size = 4 * mebibyte
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.slowDiscard(4 * mebibyte)))
      let directory = try temporaryDirectory()
      defer { try? FileManager.default.removeItem(atPath: directory) }
      let place = "\(directory)/local"
      let tunnel = try Tunnel(
        arguments: ["--local", overUnixSocket ? "unix:\(place)" : "0", "--device-port", "20"],
        environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      try tunnel.waitUntilReady([20])
      let client = overUnixSocket ? try Client(.unix(place)) : try tunnel.client(20)
      #expect(try client.sendPattern(size) == size)
      client.close()
      #expect(mux.wait(within: 15) { $0.streams.first?.report.end != nil }, "\(tunnel.log)")
      let report = try #require(mux.stream(0))
      #expect(report.received == size)
      #expect(report.mismatch == nil)
    }

    /// Result and the first bytes of the stream in one packet: none of them is lost.
    @Test(arguments: [1, 7, 999, 1000, 1 * mebibyte])
    func payloadGluedToTheResultIsKept(size: Int) throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.change { $0.gluesPayload = true }
      mux.setPort(20, .open(.send(size)))
      let tunnel = try Tunnel(mux, [20])
      let reception = try tunnel.client(20).receivePattern()
      #expect(reception == .whole(size), "\(tunnel.log)")
    }

    /// What the client sends before the phone has accepted is kept for it.
    @Test func bytesSentBeforeAcceptanceArrive() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.echo, after: 0.5))
      let tunnel = try Tunnel(mux, [20])
      #expect(tunnel.works(20))
    }

    /// A client that shuts down before the phone has accepted, still gets its answer.
    @Test func aRequestThatIsCompleteBeforeAcceptanceIsAnswered() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.answer(200_000), after: 0.5))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      try client.send("GET / HTTP/1.0\r\n\r\n")
      client.finishSending()
      #expect(
        client.receivePattern() == .whole(200_000), "\(tunnel.log)")
    }

    /// With Nagle's algorithm the second of two small writes waits for the acknowledgement of the first,
    /// which the reader delays by 40 ms.
    @Test func smallWritesAreNotHeldBack() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(Service(sends: 60, start: .afterBytes(1), pace: (1, 0.002))))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      try client.send([0])
      let start = uptime()
      for index in 0..<60 {
        #expect(try client.receive(1) == Pattern.bytes(index..<index + 1))
        try client.send([0])
      }
      #expect(uptime() - start < 1.5)
    }

    @Test func anIdleConnectionStaysOpen() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(
        mux, [7], ["--wait", "0.3", "--connect-timeout", "0.3", "--half-close-timeout", "0.3"])
      let client = try tunnel.client()
      #expect(echoes(client))
      // Ten times every limit there is; nothing may happen.
      #expect(client.ending(within: 3) == .stillOpen)
      #expect(echoes(client))
    }
  }
}
