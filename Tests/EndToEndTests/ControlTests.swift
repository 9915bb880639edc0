import Foundation
import Testing

extension EndToEnd {
  /// The control socket, and the commands that use it.
  @Suite(.serialized) struct Control {
    @Test func statusOfARunningDaemon() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .refusing())
      mux.setPort(21, .open(.send(8 * mebibyte, finish: .never)))
      let service = try ConfiguredTunnel(
        mux, section("echo", "0", 7) + section("shut", "0", 20) + section("bulk", "0", 21),
        ready: [7, 20, 21])
      let client = try service.tunnel.client()
      #expect(echoes(client, "12345"))
      #expect(try service.tunnel.client(20).ending() == .reset)
      let bulk = try service.tunnel.client(21)
      #expect(bulk.receivePattern(limit: 8 * mebibyte) == .part(8 * mebibyte))

      let status = try service.status()
      #expect(status["pid"] as? Int == Int(service.tunnel.pid))
      let devices = try service.list("devices")
      #expect(devices.count == 1 && devices[0]["udid"] as? String == phone)
      #expect(devices[0]["transport"] as? String == "usbmuxd" && devices[0]["connections"] as? Int == 2)
      let forwards = try service.list("forwards")
      #expect(forwards.map { $0["name"] as? String } == ["echo", "shut", "bulk"])
      #expect(forwards.map { $0["accepted"] as? Int } == [1, 1, 1])
      #expect(forwards.map { $0["connections"] as? Int } == [1, 0, 1])
      let connections = try service.list("connections")
      #expect(connections.map { $0["port"] as? Int } == [7, 21])
      #expect(connections.map { $0["received"] as? Int } == [5, 8 * mebibyte], "the bulk thread's as well")
      #expect(connections[0]["sent"] as? Int == 5 && connections[0]["state"] as? String == "open")
      let counters = try service.counters()
      #expect(counters["refusals"] as? Int == 1 && counters["resets"] as? Int == 1)
      #expect(counters["errors"] as? [String: Int] == ["refused": 1])
      #expect(counters["received"] as? Int == 8 * mebibyte + 5)

      let text = try service.ask("status").output
      for word in [phone, "bulk", "8.0 MiB", "refused 1", "main loop"] {
        #expect(text.contains(word), "\(text)")
      }
      let metrics = try service.ask("status", "--prometheus").output
      for line in [
        "tunneld_refusals_total 1", "tunneld_errors_total{kind=\"refused\"} 1",
        "tunneld_received_bytes_total \(8 * mebibyte + 5)", "tunneld_loop_turn_seconds_bucket{loop=\"main\"",
      ] { #expect(metrics.contains(line), "\(metrics)") }

      client.close()
      bulk.close()
      #expect(try eventually(within: 5) { try service.list("connections").isEmpty })
      #expect(try service.counters()["received"] as? Int == 8 * mebibyte + 5, "it stays counted")
    }

    @Test func watchingShowsRates() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let service = try ConfiguredTunnel(mux, section("echo", "0", 7), ready: [7])
      let client = try service.tunnel.client()
      #expect(echoes(client))
      let watch = try Tunnel(arguments: ["status", "--watch", "--control-socket", service.socket])
      #expect(watch.waitForOutput { $0.contains { $0.contains("RECEIVED/S") } }, "\(watch.output)")
      #expect(!watch.output.contains("\u{1b}"), "no terminal, no sequences for one")
      watch.signal(SIGINT)
      #expect(watch.waitForExit() != nil)
    }

    @Test func nobodyAnswers() throws {
      let directory = try temporaryDirectory()
      let asked = try Tunnel.run(["status", "--control-socket", directory + "/none"])
      #expect(asked.exitStatus == .exited(1))
      #expect(asked.logLines.count == 1 && asked.log.contains("is tunneld running"))
    }

    // MARK: Forwards

    @Test func forwardsComeAndGo() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.attach(otherPhone)
      let service = try ConfiguredTunnel(mux, "[daemon]\nudid = \(phone)\n")
      let port = try freePort()
      let added = try service.ask("forward", "add", "127.0.0.1:\(port):7", "--udid", otherPhone, "--json")
      #expect(added.exitStatus == .exited(0) && added.output.contains("\"port\":\(port)"), "\(added.log)")
      #expect(echoes(port))
      let twice = try service.ask("forward", "add", "127.0.0.1:\(port):9")
      #expect(twice.exitStatus == .exited(1) && twice.log.contains("forward 1 listens there"), "\(twice.log)")
      #expect(try service.list("forwards").count == 1, "what failed leaves nothing")

      let client = try Client(port: port)
      #expect(echoes(client))
      #expect(try service.ask("forward", "remove", "127.0.0.1:\(port)").exitStatus == .exited(0))
      #expect(client.ending() == .reset)
      let listener = try Socket.listen(.loopback(port))
      close(listener)
      #expect(try service.ask("forward", "remove", "1").exitStatus == .exited(1))

      for udid in [phone, otherPhone, otherPhone] {
        #expect(try service.ask("forward", "add", "0:7", "--udid", udid).exitStatus == .exited(0))
      }
      let removed = try service.ask("forward", "remove", "--udid", otherPhone.lowercased())
      #expect(removed.output == "removed 2\n")
      #expect(try service.ask("forward", "list").outputLines.count == 2, "a heading, and one forward")
    }

    @Test func aLeaseGoesWithItsConnection() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let service = try ConfiguredTunnel(mux, "")
      let port = try freePort()
      let agent = try Tunnel(
        arguments: ["forward", "add", "--lease", "\(port):7", "--control-socket", service.socket])
      #expect(agent.waitForOutput { $0.contains { $0.contains("device port 7") } }, "\(agent.log)")
      let client = try Client(port: port)
      #expect(echoes(client))
      agent.signal(SIGKILL)
      #expect(client.ending() == .reset)
      #expect(eventually(within: 2) { (try? Client(port: port)) == nil })
      #expect(try eventually(within: 2) { try service.list("forwards").isEmpty })
    }

    @Test func mistakesAreAnswered() throws {
      let mux = try FakeMux()
      let service = try ConfiguredTunnel(mux, "")
      let client = try Client(.unix(service.socket))
      try client.send(
        "{\"id\":1,\"command\":\"statsu\"}\nnonsense\n{\"id\":2,\"command\":\"forward-list\"}\n")
      client.finishSending()
      let lines = String(decoding: client.receiveAll().bytes, as: UTF8.self).split(separator: "\n")
      #expect(lines.count == 3, "\(lines)")
      #expect(lines[0].contains("\"id\":1,\"ok\":false") && lines[0].contains("did you mean status?"))
      #expect(lines[1].contains("this is no JSON"))
      #expect(lines[2] == "{\"id\":2,\"ok\":true,\"result\":{\"forwards\":[]}}")
    }

    @Test(.enabled(if: getuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv")))
    func strangersAreTurnedAway() throws {
      let mux = try FakeMux()
      let service = try ConfiguredTunnel(mux, "")
      chmod(service.directory, 0o755)
      // The file lets everybody in; the connection does not.
      chmod(service.socket, 0o666)
      let asked = try Tunnel(
        wrapper: ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        arguments: ["status", "--control-socket", service.socket])
      #expect(asked.waitForExit() == .exited(1))
      #expect(asked.log.contains("group"), "\(asked.log)")
      #expect(service.tunnel.logs("user 65534", "turned away"))
    }
  }
}
