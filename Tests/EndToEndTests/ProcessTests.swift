import Foundation
import Testing

extension EndToEnd {
  /// Signals, exit status, idle cost, log.
  @Suite(.serialized) struct Life {
    enum State: CaseIterable, Sendable { case idle, absent, waiting, connecting, open, stalled, halfClosed }

    @Test(arguments: State.allCases, [SIGTERM, SIGINT])
    func aSignalEndsItSoon(state: State, number: Int32) throws {
      let mux = try FakeMux()
      mux.setPort(20, .silent)
      mux.setPort(21, .open(.stuck))
      let tunnel = try Tunnel(mux, [7, 19, 20, 21], ["--wait", "60", "--connect-timeout", "60"])
      var clients: [Client] = []
      switch state {
      case .idle:
        mux.attach(phone)
        #expect(tunnel.works())
      case .absent:
        mux.die()
      case .waiting:
        clients.append(try tunnel.client())
      case .connecting:
        mux.attach(phone)
        clients.append(try tunnel.client(20))
        #expect(mux.wait { $0.connects.count == 1 })
      case .open:
        mux.attach(phone)
        clients = try (0..<50).map { _ in try tunnel.client() }
        for client in clients { #expect(echoes(client)) }
      case .stalled:
        mux.attach(phone)
        clients = [try tunnel.client(19), try tunnel.client(21)]
        try clients[1].sendPattern(64 * mebibyte, within: 0.5)
      case .halfClosed:
        mux.attach(phone)
        clients.append(try tunnel.client(21))
        try clients[0].send("x")
        clients[0].finishSending()
        #expect(mux.wait { $0.openStreams == 1 })
      }
      let start = uptime()
      tunnel.signal(number)
      #expect(tunnel.waitForExit(within: 5) == .exited(0), "\(tunnel.log)")
      #expect(uptime() - start < 1.5)
      for client in clients { #expect(client.ending() != .stillOpen) }
    }

    /// Open connections may finish; new ones are not taken.
    @Test func openConnectionsAreDrained() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--drain", "20"])
      let port = try tunnel.port()
      let client = try tunnel.client()
      #expect(echoes(client))
      tunnel.signal(SIGTERM)
      #expect(eventually(within: 5) { (try? Client(port: port)) == nil }, "the listener is closed at once")
      #expect(echoes(client))
      #expect(tunnel.isRunning)
      let start = uptime()
      client.close()
      #expect(tunnel.waitForExit(within: 10) == .exited(0), "\(tunnel.log)")
      #expect(uptime() - start < 3, "the last connection's end is the end")
    }

    @Test func drainingHasALimit() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--drain", "1"])
      let client = try tunnel.client()
      #expect(echoes(client))
      let start = uptime()
      tunnel.signal(SIGTERM)
      #expect(tunnel.waitForExit(within: 5) == .exited(0))
      #expect((0.8...3).contains(uptime() - start))
      #expect(client.ending() == .reset, "cut off, and visibly so")
    }

    @Test func aTransferMayFinishWhileDraining() throws {
      let size = 64 * mebibyte
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.send(size)))
      let tunnel = try Tunnel(mux, [20], ["--drain", "20"])
      let client = try tunnel.client(20)
      let first = client.receivePattern(limit: mebibyte)
      tunnel.signal(SIGTERM)
      let rest = client.receivePattern()
      #expect(first.count + rest.count == size)
      #expect(rest.mismatch == nil && rest.ending == .end)
      client.close()
      #expect(tunnel.waitForExit(within: 5) == .exited(0))
    }

    /// No timers while nothing is going on.
    @Test func nothingHappensWhileIdle() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      let clients = try (0..<20).map { _ in try tunnel.client() }
      for client in clients { #expect(echoes(client)) }
      let time = tunnel.processorTime
      let wakeUps = tunnel.wakeUps
      #expect(!tunnel.waitForLog(within: 3) { _ in false })
      #expect(tunnel.processorTime - time < 0.05)
      #expect(tunnel.wakeUps - wakeUps <= 6, "\(tunnel.wakeUps - wakeUps) in 3 s")
      #expect(clients.count == 20)
    }

    /// One line for each event, valid UTF-8, no payload, no structures.
    @Test func theLogIsLines() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .refusing())
      let tunnel = try Tunnel(mux, [7, 20], ["-v", "-v", "-v"])
      let client = try tunnel.client()
      #expect(echoes(client, "SECRET\nPAYLOAD"))
      client.close()
      #expect(try tunnel.client(20).ending() == .reset)
      #expect(tunnel.logs("refused"))
      #expect(tunnel.stop() == .exited(0))
      #expect(String(validating: tunnel.logBytes, as: UTF8.self) != nil)
      #expect(!tunnel.log.contains("SECRET") && !tunnel.log.contains("PAYLOAD"))
      #expect(tunnel.logLines.allSatisfy { $0.count < 500 && !$0.contains("Optional(") }, "\(tunnel.log)")
    }

    /// Quiet by default: a connection that works is no news.
    @Test func successIsSilent() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["-q"])
      for _ in 0..<20 { #expect(tunnel.works()) }
      #expect(tunnel.stop() == .exited(0))
      #expect(tunnel.log == "")
    }
  }
}
