import Foundation
import Testing

extension EndToEnd {
  /// Phones come and go; listeners stay.
  @Suite(.serialized) struct Hotplug {
    @Test func aReplugNeedsNoRestart() throws {
      let mux = try FakeMux()
      var id = mux.attach(phone)
      let bystander = mux.attach(otherPhone)
      let tunnel = try Tunnel(mux, [7], ["--udid", phone])
      let other = try Tunnel(mux, [7], ["--udid", otherPhone])
      let untouched = try other.client()
      #expect(echoes(untouched))
      for _ in 0..<5 {
        let old = try tunnel.client()
        #expect(echoes(old))
        id = mux.replug(id)
        #expect(old.ending(within: 2) == .reset, "\(tunnel.log)")
        #expect(tunnel.works(7, within: 1.5), "\(tunnel.log)")
        #expect(mux.connects.last?.deviceID == id)
        #expect(echoes(untouched), "the other phone's connection goes on")
      }
      #expect(mux.read { $0.streams.count { $0.report.deviceID == bystander } } == 1)
    }

    @Test func replugDuringATransfer() throws {
      let mux = try FakeMux()
      var id = mux.attach(phone)
      mux.setPort(20, .open(.exchange(sends: 400 * mebibyte, receives: 400 * mebibyte)))
      let tunnel = try Tunnel(mux, [7, 20])
      for _ in 0..<3 {
        let client = try tunnel.client(20)
        let first = try client.exchange(send: 8 * mebibyte, receive: 8 * mebibyte, within: 10)
        #expect(first.reception.count == 8 * mebibyte)
        id = mux.replug(id)
        let rest = try client.exchange(send: 400 * mebibyte, receive: 400 * mebibyte, within: 10)
        #expect(rest.reception.ending == .reset, "\(tunnel.log)")
        #expect(rest.reception.mismatch == nil)
        #expect(tunnel.works(), "\(tunnel.log)")
      }
    }

    @Test func aConnectionWaitsForThePhone() throws {
      let mux = try FakeMux()
      let tunnel = try Tunnel(mux)
      let client = try tunnel.client()
      try client.send("early bird")
      #expect(!mux.wait(within: 0.7) { !$0.connects.isEmpty })
      mux.attach(phone)
      #expect(try client.receive(10, within: 1.5) == Array("early bird".utf8), "\(tunnel.log)")
    }

    @Test func theWaitIsBounded() throws {
      let mux = try FakeMux()
      let tunnel = try Tunnel(mux, [7], ["--wait", "1"])
      let start = uptime()
      let clients = try (0..<10).map { _ in try tunnel.client() }
      for client in clients { #expect(client.ending() == .reset) }
      #expect((0.8...3).contains(uptime() - start))
      mux.attach(phone)
      #expect(tunnel.works(), "\(tunnel.log)")
    }

    @Test func noWaitAtAll() throws {
      let mux = try FakeMux()
      let tunnel = try Tunnel(mux, [7], ["--wait", "0"])
      // The list of phones may still be on its way at the first moment.
      let start = uptime()
      #expect(try tunnel.client().ending() == .reset)
      #expect(uptime() - start < 2)
    }

    /// A named phone is waited for although another one is there.
    @Test func waitingForTheRightPhone() throws {
      let mux = try FakeMux()
      mux.attach(otherPhone)
      let tunnel = try Tunnel(mux, [7], ["--udid", phone])
      let client = try tunnel.client()
      try client.send("you")
      #expect(!mux.wait(within: 0.5) { !$0.connects.isEmpty })
      let id = mux.attach(phone)
      #expect(try client.receive(3, within: 2) == Array("you".utf8))
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    @Test func aClientThatTiresOfWaitingLeavesNothing() throws {
      let mux = try FakeMux()
      let tunnel = try Tunnel(mux, [7], ["--wait", "30"])
      let before = tunnel.settledDescriptors
      let clients = try (0..<50).map { _ in try tunnel.client() }
      #expect(eventually(within: 5) { tunnel.descriptors >= before + 50 })
      for client in clients { client.reset() }
      #expect(eventually(within: 5) { tunnel.descriptors <= before }, "\(tunnel.descriptors) after \(before)")
      mux.attach(phone)
      #expect(tunnel.works())
      #expect(mux.connects.count == 1)
    }

    /// Attach, detach, attach in one breath, as when trust is given.
    @Test func burstsDoNoHarm() throws {
      let mux = try FakeMux()
      let tunnel = try Tunnel(mux, [7], ["--udid", phone])
      let second = try Tunnel(mux, [7], ["--udid", otherPhone])
      mux.attach(otherPhone)
      let untouched = try second.client()
      #expect(echoes(untouched))
      for _ in 0..<20 {
        mux.change { state in
          var id = state.attach(phone, .usb, [:])
          for _ in 0..<3 {
            state.detach(id, eventFirst: false)
            id = state.attach(phone, .usb, [:])
          }
        }
        #expect(tunnel.works(7, within: 2), "\(tunnel.log)")
        mux.change { state in
          for device in state.devices where device.serial == phone {
            state.detach(device.id, eventFirst: false)
          }
        }
      }
      #expect(echoes(untouched))
    }

    /// The Listen connection is lost, and the phones change before it is back.
    @Test func eventsLostWithTheListenConnectionAreMadeUpFor() throws {
      let mux = try FakeMux()
      var id = mux.attach(phone)
      let tunnel = try Tunnel(mux)
      #expect(tunnel.works())
      for _ in 0..<3 {
        mux.change { state in
          state.cutListeners()
          state.detach(id, eventFirst: false)
          id = state.attach(phone, .usb, [:])
        }
        #expect(tunnel.works(7, within: 4), "\(tunnel.log)")
        #expect(mux.connects.last?.deviceID == id)
      }
    }

    /// Losing only the Listen connection says nothing about the phones: streams go on.
    @Test func streamsSurviveTheListenConnection() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      let client = try tunnel.client()
      #expect(echoes(client))
      for _ in 0..<3 {
        mux.cutListeners()
        #expect(echoes(client), "\(tunnel.log)")
        #expect(tunnel.works(7, within: 4), "\(tunnel.log)")
      }
      #expect(echoes(client))
    }

    /// Thirty phones at once, all usable.
    @Test func thirtyPhones() throws {
      let mux = try FakeMux()
      let serials = (0..<30).map { String(format: "00008110-%016X", 0xA000 + $0) }
      let tunnels = try [0, 13, 29].map { try Tunnel(mux, [7], ["--udid", serials[$0]]) }
      mux.change { state in for serial in serials { _ = state.attach(serial, .usb, [:]) } }
      for tunnel in tunnels { #expect(tunnel.works(), "\(tunnel.log)") }
      let reached = mux.read { state in
        state.connects.compactMap { request in state.devices.first { $0.id == request.deviceID }?.serial }
      }
      #expect(reached == [serials[0], serials[13], serials[29]])
    }
  }

  /// usbmuxd comes and goes.
  @Suite(.serialized) struct MuxLife {
    @Test func aRestartOfUsbmuxdNeedsNoRestartOfOurs() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      for _ in 0..<3 {
        let client = try tunnel.client()
        #expect(echoes(client), "\(tunnel.log)")
        mux.die()
        #expect(client.ending(within: 2) == .reset)
        // A new process at the same path: another inode, other numbers.
        try mux.change { state in
          state.devices = []
          _ = try state.listen(mux.endpoint)
          _ = state.attach(phone, .usb, [:])
        }
        #expect(tunnel.works(), "\(tunnel.log)")
      }
    }

    @Test func usbmuxdThatStartsLaterIsFound() throws {
      let mux = try FakeMux()
      mux.die()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--wait", "10"])
      let client = try tunnel.client()
      try client.send("patience")
      #expect(client.ending(within: 1.5) == .stillOpen)
      try mux.start()
      #expect(try client.receive(8, within: 5) == Array("patience".utf8), "\(tunnel.log)")
    }

    @Test func withoutUsbmuxdAConnectionIsReset() throws {
      let mux = try FakeMux()
      mux.die()
      let tunnel = try Tunnel(mux, [7], ["--wait", "1"])
      let start = uptime()
      #expect(try tunnel.client().ending() == .reset)
      #expect((0.8...3).contains(uptime() - start))
      #expect(tunnel.logs("usbmuxd"))
    }

    /// No usbmuxd, nothing to do: hardly any wake-ups, hardly any lines.
    @Test func waitingForUsbmuxdCostsNothing() throws {
      let mux = try FakeMux()
      mux.die()
      let tunnel = try Tunnel(mux)
      #expect(!tunnel.waitForLog(within: 2) { _ in false })
      let wakeUps = tunnel.wakeUps
      let time = tunnel.processorTime
      #expect(!tunnel.waitForLog(within: 4) { _ in false })
      #expect(tunnel.wakeUps - wakeUps <= 12, "\(tunnel.wakeUps - wakeUps) in 4 s")
      #expect(tunnel.processorTime - time < 0.1)
      #expect(tunnel.logLines.count <= 10, "\(tunnel.log)")
    }

    /// A usbmuxd that hangs up on everybody is asked again at a measured pace.
    @Test func aBrokenUsbmuxdIsNotHammered() throws {
      let mux = try FakeMux()
      mux.change { $0.hangsUp = true }
      let tunnel = try Tunnel(mux, [7], ["--wait", "3"])
      let client = try tunnel.client()
      #expect(client.ending(within: 8) == .reset)
      #expect(mux.read { $0.accepted } < 60)
      #expect(tunnel.logLines.count < 30, "\(tunnel.log)")
      mux.change { $0.hangsUp = false }
      mux.attach(phone)
      #expect(eventually(within: 15) { tunnel.works(7, within: 4) }, "\(tunnel.log)")
    }

    /// The same over TCP, with addresses in every form.
    @Test(arguments: [Endpoint.ipv4("127.0.0.1", 0), .ipv6("::1", 0)])
    func usbmuxdOverTCP(endpoint: Endpoint) throws {
      let mux = try FakeMux(at: endpoint)
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      #expect(tunnel.works(), "\(tunnel.log)")
      let client = try tunnel.client()
      let (_, reception) = try client.exchange(send: mebibyte, receive: mebibyte, within: 10)
      #expect(reception == .part(mebibyte))
      mux.die()
      #expect(client.ending() == .reset)
      try mux.start()
      #expect(tunnel.works(), "\(tunnel.log)")
    }

    @Test func aHostNameIsLookedUp() throws {
      let mux = try FakeMux(at: .ipv4("127.0.0.1", 0))
      mux.attach(phone)
      guard case .ipv4(_, let port) = mux.endpoint else { return }
      let tunnel = try Tunnel(mux, environment: ["USBMUXD_SOCKET_ADDRESS": "localhost:\(port)"])
      #expect(tunnel.works(), "\(tunnel.log)")
    }

    @Test func aBarePathIsAccepted() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, environment: ["USBMUXD_SOCKET_ADDRESS": mux.path])
      #expect(tunnel.works(), "\(tunnel.log)")
    }

    /// The option counts more than the environment.
    @Test func theOptionOverridesTheEnvironment() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let wrong = try FakeMux()
      let tunnel = try Tunnel(
        mux, [7], ["--usbmuxd", mux.address], environment: ["USBMUXD_SOCKET_ADDRESS": wrong.address])
      #expect(tunnel.works(), "\(tunnel.log)")
      #expect(wrong.read { $0.accepted } == 0)
    }
  }
}
