import Foundation
import Testing

extension EndToEnd {
  /// Reading the configuration again.
  @Suite(.serialized) struct Reload {
    /// Forwards come, go and change around a hundred connections that transfer all the while.
    @Test func noByteIsLostUnderAHundredConnections() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let service = try ConfiguredTunnel(mux, section("echo", "0", 7, "wait = 4"), ready: [7])
      nonisolated(unsafe) let clients = try (0..<100).map { _ in try service.tunnel.client() }
      for client in clients {
        #expect(try client.exchange(send: 1, receive: 1, within: 5).reception == .part(1))
      }
      #expect(try service.list("connections").count == 100)
      let monitor = Monitor()
      nonisolated(unsafe) var goesOn = true
      nonisolated(unsafe) var rounds = 0
      nonisolated(unsafe) var faults: [String] = []
      let group = DispatchGroup()
      for index in clients.indices {
        group.enter()
        Thread {
          defer { group.leave() }
          let piece = mebibyte / 4
          while monitor.reading({ goesOn }) {
            let result = try? clients[index].exchange(send: piece, receive: piece, within: 30)
            monitor.changing {
              rounds += 1
              if result?.reception != .part(piece) {
                faults.append("\(index): \(String(describing: result))")
              }
            }
            if result?.reception != .part(piece) { return }
          }
        }.start()
      }
      for reload in 0..<12 {
        // The forward in use changes too; only its new connections are to notice.
        let text =
          section("echo", "0", 7, "wait = \(reload % 3)")
          + (reload % 2 == 0 ? section("other", "0", 9) : "")
        try ConfiguredTunnel.write(text, to: service.file)
        if reload % 4 == 3 { service.tunnel.signal(SIGHUP) }
        let before = monitor.reading { rounds }
        #expect(try service.ask("reload").exitStatus == .exited(0))
        #expect(monitor.wait(within: 20) { rounds > before }, "the transfers go on")
      }
      monitor.changing { goesOn = false }
      #expect(group.wait(timeout: .now() + 60) == .success)
      #expect(monitor.reading { faults } == [])
      #expect(try service.list("connections").count == 100)
      #expect(service.tunnel.works())
    }

    @Test func forwardsAreAddedRemovedAndChanged() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.send(5, finish: .whenSent)))
      let ports = try (0..<3).map { _ in try freePort() }
      let service = try ConfiguredTunnel(
        mux, section("a", "\(ports[0])", 7) + section("b", "\(ports[1])", 7), ready: [7])
      let kept = try Client(port: ports[0])
      let dropped = try Client(port: ports[1])
      #expect(echoes(kept) && echoes(dropped))
      try ConfiguredTunnel.write(
        section("a", "\(ports[0])", 20) + section("c", "\(ports[2])", 7), to: service.file)
      let reload = try service.ask("reload")
      #expect(reload.output == "1 added, 1 removed, 1 changed, 0 unchanged\n", "\(reload.log)")
      #expect(dropped.ending() == .reset)
      #expect((try? Client(port: ports[1])) == nil)
      #expect(echoes(ports[2]))
      #expect(echoes(kept), "what is open goes on to where it was opened")
      #expect(try Client(port: ports[0]).receivePattern() == .whole(5), "what is new goes elsewhere")
      #expect(service.tunnel.threads == 1, "all of it on the loop's thread")
    }

    @Test func aBadFileChangesNothing() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let service = try ConfiguredTunnel(mux, section("a", "0", 7), ready: [7])
      let client = try service.tunnel.client()
      #expect(echoes(client))
      try ConfiguredTunnel.write(section("a", "0", 7, "wiat = 3") + section("b", "0", 9), to: service.file)
      let reload = try service.ask("reload")
      #expect(reload.exitStatus == .exited(1))
      let mistake = "tunneld.conf:4: unknown key 'wiat' in [forward a]: did you mean wait?"
      #expect(reload.log.contains(mistake), "\(reload.log)")
      service.tunnel.signal(SIGHUP)
      #expect(
        service.tunnel.waitForLog { $0.components(separatedBy: mistake).count == 3 }, "\(service.tunnel.log)")
      #expect(service.tunnel.logs("left as it was"))
      #expect(try service.list("forwards").count == 1 && echoes(client))
      let configuration = try service.status()["configuration"] as? [String: Any]
      #expect((configuration?["problem"] as? String)?.contains(mistake) == true)
      try FileManager.default.removeItem(atPath: service.file)
      #expect(try service.ask("reload").exitStatus == .exited(1))
      #expect(service.tunnel.works())
    }

    @Test func whatNeedsARestartIsSaid() throws {
      let mux = try FakeMux()
      let service = try ConfiguredTunnel(mux, "[daemon]\nmax-connections = 5\n")
      try ConfiguredTunnel.write("[daemon]\nmax-connections = 6\nlog-level = debug\n", to: service.file)
      let reload = try service.ask("reload")
      #expect(reload.output.contains("after a restart only: max-connections"), "\(reload.output)")
    }

    /// Programs that read JSON are told of it as well.
    @Test func aForwardThatListensLaterIsAnnouncedAsJSON() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let listener = try Socket.listen(.loopback(0))
      let busy = Socket.localPort(listener)
      let service = try ConfiguredTunnel(mux, section("busy", "127.0.0.1:\(busy)", 9), ["--ready-json"])
      #expect(service.tunnel.waitForOutput { $0.first?.contains("\"state\":\"failed\"") == true })
      close(listener)
      #expect(
        service.tunnel.waitForOutput {
          $0.last?.hasPrefix("{\"event\":\"listening\",\"forwards\":[{") == true
            && $0.last?.contains("\"port\":\(busy)") == true
        }, "\(service.tunnel.output)")
    }

    /// The good forwards run, the bad one is shown, and comes when it can.
    @Test func aBusyPortIsTriedAgain() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let listener = try Socket.listen(.loopback(0))
      let busy = Socket.localPort(listener)
      let service = try ConfiguredTunnel(
        mux, section("busy", "127.0.0.1:\(busy)", 9) + section("good", "0", 7), ready: [7])
      #expect(service.tunnel.works())
      #expect(service.tunnel.logs("forward 1 (busy) failed", "\(busy)", "by process \(getpid())"))
      let forwards = try service.list("forwards")
      #expect(forwards.map { $0["state"] as? String } == ["failed", "listening"])
      #expect((forwards[0]["error"] as? String)?.contains("in use") == true)
      close(listener)
      #expect(
        try eventually(within: 10) { try service.list("forwards")[0]["state"] as? String == "listening" })
      #expect(service.tunnel.waitForOutput { $0.contains("ready: 127.0.0.1:\(busy) -> device port 9") })
    }

    @Test func aForwardsOwnLimitHoldsBackItsOwnOnly() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let service = try ConfiguredTunnel(
        mux, section("one", "0", 7, "max-connections = 1") + section("free", "0", 9), ready: [7, 9])
      let first = try service.tunnel.client()
      #expect(echoes(first))
      let second = try service.tunnel.client()
      try second.send("waits")
      #expect(try service.tunnel.client(9).ending(within: 0.3) == .stillOpen)
      #expect(try service.list("forwards")[0]["connections"] as? Int == 1)
      first.close()
      #expect(try second.receive(5) == Array("waits".utf8))
    }

    @Test func checkingAFile() throws {
      let directory = try temporaryDirectory()
      let path = directory + "/t.conf"
      try ConfiguredTunnel.write(section("a", "8765", 8765), to: path)
      let good = try Tunnel.run(["check-config", "-c", path])
      #expect(good.exitStatus == .exited(0) && good.output == "\(path) is in order; forwards: 1\n")
      try ConfiguredTunnel.write(section("a", "x", 8765) + "[deamon]\nwait = 1\n", to: path)
      let bad = try Tunnel.run(["check-config", "-c", path])
      #expect(bad.exitStatus == .exited(2) && bad.logLines.count == 2, "\(bad.log)")
      #expect(bad.log.contains("\(path):2: 'x' in local") && bad.log.contains("did you mean [daemon]?"))
      #expect(try Tunnel.run(["-c", path]).exitStatus == .exited(2))
    }
  }
}
