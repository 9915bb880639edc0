import Foundation
import Testing

extension EndToEnd {
  /// Many connections: at once, one after the other, and more than there are descriptors for.
  @Suite(.serialized) struct Load {
    init() { raiseDescriptorLimit() }

    /// Opens `count` connections, uses all of them, and leaves them open.
    static func open(_ count: Int, _ tunnel: Tunnel) throws -> [Client] {
      let port = try tunnel.port()
      let clients = try (0..<count).map { _ in try Client(port: port) }
      for (index, client) in clients.enumerated() { try client.send("number \(index)", within: 10) }
      for (index, client) in clients.enumerated() {
        let text = "number \(index)"
        #expect(try client.receive(text.utf8.count, within: 10) == Array(text.utf8), "\(tunnel.log)")
      }
      return clients
    }

    /// Opened close together, none gets lost.
    @Test func fiftyInOneBurst() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      for _ in 0..<10 { _ = try Self.open(50, tunnel) }
      #expect(mux.wait { $0.openStreams == 0 })
      #expect(mux.streamCount == 500)
    }

    @Test func fiveHundredInParallel() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      #expect(tunnel.works())
      let threads = tunnel.threads
      let before = tunnel.settledDescriptors
      let memory = tunnel.residentBytes
      let clients = try Self.open(500, tunnel)
      #expect(mux.openStreams == 500)
      #expect(tunnel.threads <= threads + 2, "no thread for each connection")
      #expect(tunnel.residentBytes - memory < 500 * 64 * 1024)
      for (index, client) in clients.enumerated() where index % 2 == 0 { client.close() }
      for (index, client) in clients.enumerated() where index % 2 == 1 { #expect(echoes(client)) }
      for client in clients { client.close() }
      #expect(mux.wait { $0.openStreams == 0 })
      #expect(eventually(within: 5) { tunnel.descriptors <= before }, "\(tunnel.descriptors) after \(before)")
    }

    @Test func fiveHundredWorkers() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.exchange(sends: 100_000, receives: 100_000)))
      let tunnel = try Tunnel(mux, [20])
      let port = try tunnel.port(20)
      let good = Tally()
      // Sixteen threads keep 500 connections going between them.
      inParallel(16) { worker in
        guard let clients = try? (0..<32).map({ _ in try Client(port: port) }) else { return }
        for client in clients {
          let result = try? client.exchange(send: 100_000, receive: 100_000, within: 20)
          let whole = Reception.part(100_000)
          if result?.reception == whole && client.ending() == .end { good.add(worker) }
        }
      }
      #expect(good.sum == 512, "\(tunnel.log)")
      #expect(
        mux.read { $0.streams.allSatisfy { $0.report.mismatch == nil && $0.report.received == 100_000 } })
    }

    /// iproxy 2.0.2 ends itself at 510. The soft limit is raised by the daemon, not by the user.
    @Test(.enabled(if: raiseDescriptorLimit() >= 12_000, "needs descriptors"))
    func fourThousandAtOnce() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(
        wrapper: ["/bin/sh", "-c", "ulimit -S -n 1024; exec \"$0\" \"$@\""],
        arguments: ["--transport", "usbmuxd", "--local", "0", "--device-port", "7"],
        environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      try tunnel.waitUntilReady([7])
      #expect(tunnel.works())
      let before = tunnel.settledDescriptors
      let clients = try Self.open(4000, tunnel)
      #expect(mux.openStreams == 4000)
      #expect(tunnel.works())
      for client in clients { client.close() }
      #expect(mux.wait(within: 20) { $0.openStreams == 0 })
      #expect(
        eventually(within: 10) { tunnel.descriptors <= before }, "\(tunnel.descriptors) after \(before)")
    }

    @Test func fiveThousandInSequence() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      let port = try tunnel.port()
      var slowest = 0.0
      for index in 0..<5000 {
        let start = uptime()
        guard echoes(port) else {
          Issue.record("connection \(index) failed: \(tunnel.log)")
          return
        }
        slowest = max(slowest, uptime() - start)
      }
      #expect(slowest < 1)
      #expect(mux.wait { $0.openStreams == 0 })
    }

    /// Eight workers open, use and drop connections in every way; nothing is left of it.
    @Test func churn() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .refusing())
      mux.setPort(21, .open(.send(30_000)))
      let tunnel = try Tunnel(mux, [7, 20, 21])
      #expect(tunnel.works())
      let ports = try [tunnel.port(7), tunnel.port(20), tunnel.port(21)]
      let before = tunnel.settledDescriptors
      let memory = tunnel.anonymousBytes
      let wrong = Tally()
      let rounds = Int(ProcessInfo.processInfo.environment["CHURN"] ?? "") ?? 500
      inParallel(8) { worker in
        var generator = SeededGenerator(seed: UInt64(worker + 1))
        // A daemon that hangs must not make the test hang.
        for _ in 0..<rounds where wrong.sum == 0 {
          switch Int.random(in: 0..<6, using: &generator) {
          case 0, 1:
            if !echoes(ports[0]) { wrong.add(worker) }
          case 2:
            if (try? Client(port: ports[1]).ending()) != .reset { wrong.add(worker) }
          case 3:
            let whole = Reception.whole(30_000)
            if (try? Client(port: ports[2]).receivePattern()) != whole { wrong.add(worker) }
          case 4:
            try? Client(port: ports[Int.random(in: 0..<3, using: &generator)]).reset()
          default:
            guard let client = try? Client(port: ports[0]) else { continue }
            try? client.send("x")
            client.finishSending()
          }
        }
      }
      #expect(wrong.sum == 0, "\(tunnel.log.suffix(2000))")
      #expect(mux.wait { $0.openStreams == 0 })
      #expect(eventually(within: 5) { tunnel.descriptors <= before }, "\(tunnel.descriptors) after \(before)")
      #expect(tunnel.logCount("bad file descriptor") == 0)
      #expect(tunnel.anonymousBytes - memory < 8 * mebibyte)
      #expect(tunnel.works())
    }

    /// Somebody tries for ever while the app is not running.
    @Test func refusalsByTheThousand() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .refusing())
      let tunnel = try Tunnel(mux, [7, 20])
      #expect(tunnel.works())
      let before = tunnel.settledDescriptors
      let port = try tunnel.port(20)
      let resets = Tally()
      inParallel(4) { worker in
        for _ in 0..<500 {
          if (try? Client(port: port).ending()) == .reset { resets.add(worker) }
        }
      }
      #expect(resets.sum == 2000)
      #expect(mux.connects.count < 2000 * 3)
      #expect(tunnel.logLines.count < 300, "\(tunnel.logLines.count) lines")
      #expect(eventually(within: 5) { tunnel.descriptors <= before }, "\(tunnel.descriptors) after \(before)")
      #expect(tunnel.works())
    }

    /// At the limit of descriptors accepting pauses; it goes on when some are free.
    @Test func theDescriptorLimit() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(
        wrapper: ["/bin/sh", "-c", "ulimit -n 64; exec \"$0\" \"$@\""],
        arguments: ["--transport", "usbmuxd", "--local", "0", "--device-port", "7"],
        environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      try tunnel.waitUntilReady([7])
      let port = try tunnel.port()
      var clients = try (0..<80).map { _ in try Client(port: port) }
      for client in clients { try? client.send("here") }
      #expect(settles(for: 0.5, within: 10) { mux.streamCount })
      let served = mux.openStreams
      #expect((10..<64).contains(served), "\(served) of 80")
      let time = tunnel.processorTime
      #expect(!tunnel.waitForLog(within: 1) { _ in false })
      #expect(tunnel.processorTime - time < 0.2, "no spinning at the limit")
      #expect(tunnel.logLines.count < 20, "\(tunnel.log)")
      clients.removeFirst(clients.count / 2)
      clients = []
      #expect(mux.wait(within: 10) { $0.openStreams == 0 }, "\(tunnel.log)")
      #expect(eventually(within: 10) { echoes(port, within: 2) }, "\(tunnel.log)")
      for _ in 0..<20 { #expect(echoes(port)) }
    }

    @Test func aLimitOnConnections() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--max-connections", "5"])
      let clients = try (0..<5).map { _ in try tunnel.client() }
      for client in clients { #expect(echoes(client)) }
      let sixth = try tunnel.client()
      try sixth.send("later")
      #expect(!mux.wait(within: 0.5) { $0.openStreams > 5 })
      clients[0].close()
      #expect(try sixth.receive(5) == Array("later".utf8), "\(tunnel.log)")
    }

    @Test func memoryStaysFlat() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      let client = try tunnel.client()
      let size = 100 * mebibyte
      _ = try client.exchange(send: size / 4, receive: size / 4, within: 30)
      let memory = tunnel.anonymousBytes
      for _ in 0..<4 {
        let (_, reception) = try client.exchange(send: size, receive: size, within: 60)
        #expect(reception == .part(size))
      }
      #expect(tunnel.anonymousBytes - memory < mebibyte)
    }

    /// A phone plugged in and out a thousand times.
    @Test func memoryStaysFlatOverReplugs() throws {
      let mux = try FakeMux()
      var id = mux.attach(phone)
      let tunnel = try Tunnel(mux)
      var memory = 0
      for round in 0..<600 {
        if round % 50 == 0 { #expect(tunnel.works(), "\(tunnel.log)") }
        if round == 100 { memory = tunnel.anonymousBytes }
        id = mux.replug(id)
      }
      #expect(tunnel.works(), "\(tunnel.log)")
      #expect(tunnel.anonymousBytes - memory < 2 * mebibyte)
    }
  }
}
