import Foundation
import Testing

extension EndToEnd {
  /// Why a connection ended is visible: to the client as RST or a clean end, to the user in the log.
  @Suite(.serialized) struct Endings {
    @Test func aRefusalIsAResetAndSaysWhatToDo() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(8765, .refusing(3, after: 0.2))
      let tunnel = try Tunnel(mux, [8765])
      let client = try tunnel.client(8765)
      #expect(client.ending() == .reset)
      let request = try #require(mux.connects.first)
      #expect(uptime() - request.time - 0.2 < 1, "closed promptly after the verdict")
      #expect(tunnel.logs("refused", "8765", "app"), "\(tunnel.log)")
      #expect(tunnel.logCount("refused") == 1, "\(tunnel.log)")
      #expect(mux.connects.count <= 2, "no storm of retries")
    }

    /// Refused, no such phone, no usbmuxd: three lines that differ.
    @Test func reasonsCanBeToldApart() throws {
      let mux = try FakeMux()
      let id = mux.attach(phone)
      mux.setPort(20, .refusing(3))
      let tunnel = try Tunnel(mux, [20], ["--wait", "0.5"])
      #expect(try tunnel.client(20).ending() == .reset)
      #expect(tunnel.logs("refused"), "\(tunnel.log)")
      mux.detach(id)
      #expect(try tunnel.client(20).ending() == .reset)
      #expect(
        tunnel.waitForLog { $0.contains("no device") || $0.contains("no phone") || $0.contains("No device") },
        "\(tunnel.log)")
      mux.die()
      #expect(try tunnel.client(20).ending() == .reset)
      #expect(tunnel.logs("usbmuxd"), "\(tunnel.log)")
    }

    /// Result numbers come with words.
    @Test(arguments: [(1, "request"), (2, "device"), (3, "refused"), (6, "version"), (111, "111")])
    func resultNumbersHaveWords(number: UInt32, word: String) throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .refusing(number))
      let tunnel = try Tunnel(mux, [7, 20], ["--wait", "0.5"])
      #expect(try tunnel.client(20).ending() == .reset)
      #expect(tunnel.logs(word), "\(tunnel.log)")
      #expect(tunnel.works())
    }

    /// "Bad device" may be a number that is no longer true: look again before giving up.
    @Test func badDeviceLeadsToOneNewLook() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .refusing(2))
      let tunnel = try Tunnel(mux, [20], ["--wait", "1"])
      #expect(try tunnel.client(20).ending() == .reset)
      let count = mux.connects.count
      #expect((1...5).contains(count), "\(count) requests")
    }

    @Test func aLostPhoneIsAReset() throws {
      for eventFirst in [false, true] {
        let mux = try FakeMux()
        let id = mux.attach(phone)
        let tunnel = try Tunnel(mux, [7, 19])
        let idle = try tunnel.client()
        #expect(echoes(idle))
        let busy = try tunnel.client(19)
        #expect(busy.receivePattern(limit: mebibyte).count == mebibyte)
        mux.detach(id, eventFirst: eventFirst)
        #expect(idle.ending(within: 2) == .reset, "event first: \(eventFirst) \(tunnel.log)")
        let rest = busy.receivePattern(within: 3)
        #expect(rest.ending == .reset, "event first: \(eventFirst) \(tunnel.log)")
        #expect(rest.mismatch == nil)
      }
    }

    @Test func aDeadUsbmuxdIsAReset() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      let clients = try (0..<10).map { _ in try tunnel.client() }
      for client in clients { #expect(echoes(client)) }
      mux.die()
      for client in clients { #expect(client.ending(within: 2) == .reset, "\(tunnel.log)") }
      #expect(tunnel.isRunning)
    }

    /// A phone that goes before it has answered.
    @Test func aPhoneLostDuringConnectIsAReset() throws {
      let mux = try FakeMux()
      let id = mux.attach(phone)
      mux.setPort(20, .silent)
      let tunnel = try Tunnel(mux, [20], ["--wait", "0.5"])
      let client = try tunnel.client(20)
      #expect(mux.wait { $0.connects.count == 1 })
      mux.detach(id)
      #expect(client.ending() == .reset, "\(tunnel.log)")
    }

    /// Apple's own usbmuxd hangs now and then.
    @Test func anUnansweredConnectHasALimit() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .silent)
      let tunnel = try Tunnel(mux, [7, 20], ["--connect-timeout", "1"])
      let start = uptime()
      let client = try tunnel.client(20)
      #expect(mux.wait { $0.connects.count == 1 })
      #expect(tunnel.works(), "others are served meanwhile")
      #expect(client.ending(within: 6) == .reset)
      #expect(uptime() - start > 0.8)
      #expect(mux.wait { $0.openStreams == 0 && $0.cancelledConnects == 1 })
      #expect(tunnel.works())
    }

    @Test func aMuxThatNeverAnswersHasALimit() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setStyleOfAll(.silence)
      let tunnel = try Tunnel(mux, [7], ["--connect-timeout", "1", "--wait", "1"])
      let clients = try (0..<5).map { _ in try tunnel.client() }
      for client in clients { #expect(client.ending(within: 8) == .reset) }
      mux.setStyleOfAll(.normal)
      #expect(eventually(within: 15) { tunnel.works(7, within: 2) }, "\(tunnel.log)")
    }

    /// One client's abort is nobody else's business.
    @Test func abortsHurtNobody() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.answer(mebibyte)))
      let tunnel = try Tunnel(mux, [7, 20])
      let bystander = try tunnel.client()
      #expect(echoes(bystander))
      for _ in 0..<10 {
        let client = try tunnel.client(20)
        try client.send("GET / HTTP/1.0\r\n\r\n")
        client.reset()
      }
      for _ in 0..<10 { #expect(tunnel.works()) }
      #expect(echoes(bystander))
      #expect(mux.wait { $0.openStreams == 1 })
      #expect(tunnel.isRunning)
    }

    /// The app closes at once; the client, still writing, must learn of it.
    @Test func writingToAnAppThatHasClosedFails() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.hangUp))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      #expect(client.ending(within: 2) == .end)
      #expect(mux.wait { $0.openStreams == 0 })
      let failed = eventually(within: 5) {
        (try? client.send([UInt8](repeating: 0, count: 65536), within: 1)) == nil
      }
      #expect(failed)
    }

    @Test func noDescriptorIsLeftBehind() throws {
      let mux = try FakeMux()
      let id = mux.attach(phone)
      mux.setPort(20, .refusing())
      mux.setPort(21, .open(.send(1000)))
      let tunnel = try Tunnel(mux, [7, 20, 21])
      #expect(tunnel.works())
      #expect(mux.wait { $0.openStreams == 0 })
      #expect(settles(for: 0.2, within: 5) { tunnel.descriptors })
      let before = tunnel.settledDescriptors
      for round in 0..<200 {
        let client = try tunnel.client(UInt16([7, 20, 21][round % 3]))
        if round % 2 == 0 { _ = client.receiveAll(within: 0.01) }
        if round % 5 == 0 { client.reset() }
      }
      let held = try (0..<20).map { _ in try tunnel.client() }
      #expect(mux.wait { $0.openStreams >= 20 })
      mux.detach(id)
      for client in held { #expect(client.ending() == .reset) }
      mux.attach(phone)
      #expect(tunnel.works())
      #expect(eventually(within: 5) { tunnel.descriptors <= before }, "\(tunnel.descriptors) after \(before)")
      #expect(tunnel.logCount("bad file descriptor") == 0)
    }
  }
}
