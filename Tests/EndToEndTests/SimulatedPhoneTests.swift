import Foundation
import Testing

extension EndToEnd {
  /// The real binary with the phone that speaks the device protocol inside it.
  @Suite(.serialized) struct Simulated {
    /// A request, and everything that comes back until the end.
    static func request(_ port: UInt16, _ text: String, within seconds: Double = 10) throws -> (
      head: String, body: [UInt8]
    ) {
      let client = try Client(port: port)
      try client.send(text)
      let (bytes, ending) = client.receiveAll(limit: .max, within: seconds)
      #expect(ending == .end)
      return split(bytes)
    }

    static func split(_ bytes: [UInt8]) -> (head: String, body: [UInt8]) {
      let mark = Array("\r\n\r\n".utf8)
      guard let end = bytes.indices.first(where: { bytes[$0...].starts(with: mark) }) else {
        return ("", bytes)
      }
      return (String(decoding: bytes[..<end], as: UTF8.self), Array(bytes[(end + 4)...]))
    }

    static func get(_ path: String) -> String {
      "GET \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    }

    /// What the first command of the README promises.
    @Test func aPageAnswersAtOnce() throws {
      let tunnel = try Tunnel(simulated: [8765])
      let (head, body) = try Self.request(tunnel.port(8765), Self.get("/"))
      #expect(head.hasPrefix("HTTP/1.1 200"), "\(head) \(tunnel.log)")
      #expect(!body.isEmpty)
    }

    @Test func sizesOfAnswers() throws {
      let tunnel = try Tunnel(simulated: [8765])
      let port = try tunnel.port(8765)
      let small = try Self.request(port, Self.get("/small"))
      #expect(small.body.count == 200)
      for size in [0, 1, 1000, 32_728, 32_729, 1_000_000] {
        let (head, body) = try Self.request(port, Self.get("/big?bytes=\(size)"))
        #expect(head.contains("\(size)"), "\(head)")
        #expect(body.count == size)
      }
      #expect(try Self.request(port, Self.get("/nothing")).head.hasPrefix("HTTP/1.1 404"))
    }

    @Test func keepAlive() throws {
      let tunnel = try Tunnel(simulated: [8765])
      let client = try tunnel.client(8765)
      for _ in 0..<20 {
        try client.send("GET /small HTTP/1.1\r\nHost: phone\r\n\r\n")
        var bytes: [UInt8] = []
        while Self.split(bytes).head.isEmpty { bytes += try client.receive(1) }
        #expect(Self.split(bytes).head.hasPrefix("HTTP/1.1 200"))
        #expect(try client.receive(200).count == 200)
      }
    }

    @Test func anUpload() throws {
      let size = 3 * mebibyte
      let tunnel = try Tunnel(simulated: [8765])
      let client = try tunnel.client(8765)
      try client.send(
        "POST /upload HTTP/1.1\r\nHost: phone\r\nConnection: close\r\nContent-Length: \(size)\r\n\r\n")
      try client.sendPattern(size)
      let (bytes, ending) = client.receiveAll()
      #expect(ending == .end)
      #expect(Self.split(bytes).head.hasPrefix("HTTP/1.1 200"), "\(String(decoding: bytes, as: UTF8.self))")
    }

    @Test func tenMebibytesAfterShutdown() throws {
      let size = 10 * mebibyte
      let tunnel = try Tunnel(simulated: [8765])
      let client = try tunnel.client(8765)
      try client.send(Self.get("/big?bytes=\(size)"))
      client.finishSending()
      let (bytes, ending) = client.receiveAll(within: 30)
      #expect(ending == .end, "\(tunnel.log)")
      #expect(Self.split(bytes).body.count == size)
    }

    @Test func echo() throws {
      let tunnel = try Tunnel(simulated: [7])
      for size in [1, 100, 65_536, 5 * mebibyte] {
        let client = try tunnel.client()
        let (_, reception) = try client.exchange(send: size, receive: size, within: 30)
        #expect(reception == .part(size))
      }
    }

    @Test func hundredMebibytesBothWays() throws {
      let size = 100 * mebibyte
      let tunnel = try Tunnel(simulated: [7])
      let client = try tunnel.client()
      let (sent, reception) = try client.exchange(send: size, receive: size, within: 120)
      #expect(sent == size)
      #expect(reception == .part(size), "\(tunnel.log)")
    }

    /// A server on this machine's loopback as the app: both ends are checked.
    @Test func aServerOfOnesOwn() throws {
      let size = 16 * mebibyte
      let mux = try FakeMux()
      let server = try mux.servePlainly(.exchange(sends: size, receives: size))
      let tunnel = try Tunnel(simulated: [5000], ["--simulate", "5000=127.0.0.1:\(server)"])
      let client = try tunnel.client(5000)
      let (sent, reception) = try client.exchange(send: size, receive: size, within: 60)
      #expect(sent == size)
      #expect(reception == .part(size), "\(tunnel.log)")
      #expect(client.ending() == .end)
      #expect(mux.wait { $0.streams.first?.report.received == size })
      #expect(mux.stream(0)?.mismatch == nil)
    }

    @Test func theAppEndsCleanlyAfterItsData() throws {
      let mux = try FakeMux()
      let server = try mux.servePlainly(.send(3 * mebibyte))
      let tunnel = try Tunnel(simulated: [5000], ["--simulate", "5000=127.0.0.1:\(server)"])
      for _ in 0..<5 {
        let reception = try tunnel.client(5000).receivePattern()
        #expect(reception == .whole(3 * mebibyte), "\(tunnel.log)")
      }
    }

    /// Everything that the client wrote before it left reaches the app.
    @Test func bytesWrittenBeforeCloseAreDelivered() throws {
      let mux = try FakeMux()
      let server = try mux.servePlainly(.slowDiscard(4 * mebibyte))
      let tunnel = try Tunnel(simulated: [5000], ["--simulate", "5000=127.0.0.1:\(server)"])
      let client = try tunnel.client(5000)
      #expect(try client.sendPattern(4 * mebibyte) == 4 * mebibyte)
      client.close()
      #expect(mux.wait(within: 15) { $0.streams.first?.report.received == 4 * mebibyte }, "\(tunnel.log)")
      #expect(mux.stream(0)?.mismatch == nil)
    }

    @Test func aRefusalIsAReset() throws {
      let tunnel = try Tunnel(simulated: [4321])
      #expect(try tunnel.client(4321).ending() == .reset)
      #expect(tunnel.logs("refused", "4321"), "\(tunnel.log)")
    }

    @Test func servicesByName() throws {
      let tunnel = try Tunnel(
        simulated: [1001, 1002, 1003, 1004],
        [
          "--simulate", "1001=echo", "--simulate", "1002=discard", "--simulate", "1003=chargen", "--simulate",
          "1004=http",
        ])
      #expect(tunnel.works(1001), "\(tunnel.log)")
      let sink = try tunnel.client(1002)
      #expect(try sink.sendPattern(4 * mebibyte) == 4 * mebibyte)
      #expect(sink.ending(within: 0.2) == .stillOpen)
      #expect(try tunnel.client(1003).receive(100_000).count == 100_000)
      #expect(try Self.request(tunnel.port(1004), Self.get("/small")).body.count == 200)
    }

    @Test func fiveHundredInParallel() throws {
      let tunnel = try Tunnel(simulated: [7])
      let clients = try Load.open(500, tunnel)
      for client in clients { client.close() }
      #expect(tunnel.works())
    }

    @Test func twoThousandInSequence() throws {
      let tunnel = try Tunnel(simulated: [7])
      let port = try tunnel.port()
      #expect(tunnel.works())
      let before = tunnel.settledDescriptors
      for index in 0..<2000 {
        guard echoes(port) else {
          Issue.record("connection \(index) failed: \(tunnel.log)")
          return
        }
      }
      #expect(eventually(within: 5) { tunnel.descriptors <= before })
    }

    /// A client that never reads holds back its own stream only.
    @Test func oneStalledClientStallsNobodyElse() throws {
      let tunnel = try Tunnel(simulated: [7, 19])
      let memory = tunnel.residentBytes
      let stalled = try (0..<10).map { _ in try tunnel.client(19) }
      #expect(settles(for: 0.5, within: 10) { Int(tunnel.processorTime * 20) })
      for _ in 0..<20 { #expect(tunnel.works(7, within: 2), "\(tunnel.log)") }
      #expect(tunnel.residentBytes - memory < 10 * 8 * mebibyte)
      for client in stalled { #expect(try client.receive(1_000_000).count == 1_000_000) }
    }

    @Test func severalPhonesNeedAName() throws {
      let tunnel = try Tunnel(simulated: [7], ["--simulated-devices", "2", "--wait", "0.5"])
      #expect(try tunnel.client().ending() == .reset)
      #expect(tunnel.logs("00008110-000000C0FFEE0001"), "\(tunnel.log)")
      let named = try Tunnel(
        simulated: [7], ["--simulated-devices", "2", "--udid", "00008110000000c0ffee0001"])
      #expect(named.works(), "\(named.log)")
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func aSignalEndsItSoon(number: Int32) throws {
      let tunnel = try Tunnel(simulated: [7, 19])
      let clients = try [tunnel.client(7), tunnel.client(19)]
      #expect(echoes(clients[0]))
      let start = uptime()
      tunnel.signal(number)
      #expect(tunnel.waitForExit(within: 5) == .exited(0), "\(tunnel.log)")
      #expect(uptime() - start < 1.5)
    }

    @Test func nothingHappensWhileIdle() throws {
      let tunnel = try Tunnel(simulated: [7])
      let client = try tunnel.client()
      #expect(echoes(client))
      let time = tunnel.processorTime
      #expect(!tunnel.waitForLog(within: 2) { _ in false })
      #expect(tunnel.processorTime - time < 0.05)
      #expect(echoes(client))
    }
  }
}
