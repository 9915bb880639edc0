import Foundation
import Testing

extension EndToEnd {
  /// Which phone a connection goes to.
  @Suite(.serialized) struct Selection {
    @Test func twoPhonesAndNoNameIsRefusedWithTheList() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.attach(otherPhone)
      let tunnel = try Tunnel(mux, [7], ["--wait", "1"])
      #expect(try tunnel.client().ending() == .reset)
      #expect(tunnel.waitForLog { $0.contains(phone) && $0.contains(otherPhone) }, "\(tunnel.log)")
      #expect(mux.connects.isEmpty)
    }

    /// The daemon tells of the phones one by one; ListDevices tells of all of them. A connection that comes in
    /// between must not go to the phone that happened to be told first.
    @Test func aPhoneIsNotChosenBeforeAllAreKnown() throws {
      let mux = try FakeMux()
      mux.change { $0.announcementInterval = 0.5 }
      mux.attach(phone)
      mux.attach(otherPhone)
      let tunnel = try Tunnel(mux, [7], ["--wait", "1"])
      #expect(try tunnel.client().ending() == .reset, "\(tunnel.log)")
      #expect(mux.connects.isEmpty)
    }

    @Test func anyTakesOne() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.attach(otherPhone)
      let tunnel = try Tunnel(mux, [7], ["--any"])
      #expect(tunnel.works(), "\(tunnel.log)")
    }

    /// The second phone leaves: what was ambiguous is not any more.
    @Test func onePhoneLeftIsEnough() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let id = mux.attach(otherPhone)
      let tunnel = try Tunnel(mux, [7], ["--wait", "1"])
      #expect(try tunnel.client().ending() == .reset)
      mux.detach(id)
      #expect(eventually(within: 2) { tunnel.works() }, "\(tunnel.log)")
    }

    /// With and without dash, in any case, or the beginning; the mux lists serials in either form.
    @Test(arguments: [
      (phone, phone), ("00008110000A1B2C3D4E5F60", phone), ("00008110-000a1b2c3d4e5f60", phone),
      ("00008110000a1b2c3d4e5f60", phone), ("00008110-000A", phone), ("00008110000a1b", phone),
      ("00008110", phone),
      (phone, "00008110000A1B2C3D4E5F60"), ("00008110000a1b2c3d4e5f60", "00008110000A1B2C3D4E5F60"),
      ("00008110-000a", "00008110000A1B2C3D4E5F60"),
      (oldPhone, oldPhone), (oldPhone.uppercased(), oldPhone), ("01234567", oldPhone),
    ])
    func formsOfUDIDs(asked: String, listed: String) throws {
      let mux = try FakeMux()
      mux.attach(otherPhone)
      let id = mux.attach(listed)
      mux.attach("ffff4567-9999888877776666")
      let tunnel = try Tunnel(mux, [7], ["--udid", asked])
      #expect(tunnel.works(), "\(tunnel.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    @Test(arguments: ["-u", "--udid", "--serial"])
    func spellingsOfTheOption(option: String) throws {
      let mux = try FakeMux()
      mux.attach(otherPhone)
      let id = mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], [option, phone])
      #expect(tunnel.works(), "\(tunnel.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    @Test func aBeginningOfTwoIsRefused() throws {
      let mux = try FakeMux()
      mux.attach("00008110-000A1B2C3D4E5F60")
      mux.attach("00008110-000A1B2C3D4E5F61")
      let tunnel = try Tunnel(mux, [7], ["--udid", "00008110-000A", "--wait", "1"])
      #expect(try tunnel.client().ending() == .reset)
      #expect(mux.connects.isEmpty)
      #expect(tunnel.waitForLog { $0.contains("5F60") && $0.contains("5F61") }, "\(tunnel.log)")
    }

    /// An unknown phone never means another one, whatever the order of the list.
    @Test func anUnknownPhoneIsNobody() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--udid", otherPhone, "--wait", "0.5"])
      #expect(try tunnel.client().ending() == .reset)
      #expect(mux.connects.isEmpty)
      #expect(tunnel.logs(otherPhone), "\(tunnel.log)")
    }

    @Test func theOrderOfTheListDoesNotDecide() throws {
      for serials in [[phone, otherPhone], [otherPhone, phone]] {
        let mux = try FakeMux()
        for serial in serials {
          mux.attach(serial, ports: serial == phone ? [20: .open(.echo)] : [20: .refusing()])
        }
        let right = try Tunnel(mux, [20], ["--udid", phone])
        let wrong = try Tunnel(mux, [20], ["--udid", otherPhone])
        #expect(right.works(20))
        #expect(try wrong.client(20).ending() == .reset)
        #expect(wrong.logs("refused"))
      }
    }

    /// Two phones, the same port on both, one forwarder for each.
    @Test func twoForwardersForTwoPhones() throws {
      let mux = try FakeMux()
      mux.attach(phone, ports: [8100: .open(.send(100))])
      mux.attach(otherPhone, ports: [8100: .open(.send(200))])
      let first = try Tunnel(mux, [8100], ["--udid", phone])
      let second = try Tunnel(mux, [8100], ["--udid", otherPhone])
      #expect(try first.client(8100).receivePattern() == .whole(100))
      #expect(try second.client(8100).receivePattern() == .whole(200))
    }

    /// Trailing NULs occur in serial numbers; so does a serial that is no UDID at all.
    @Test func oddSerialNumbersDoNoHarm() throws {
      let mux = try FakeMux()
      mux.attach("")
      mux.attach("not a udid <&> \u{1F4F1}")
      mux.attach(String(repeating: "f", count: 40))
      mux.attach(String(repeating: "x", count: 4000))
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--udid", phone])
      #expect(tunnel.works(), "\(tunnel.log)")
      let unnamed = try Tunnel(mux, [7], ["--wait", "0.5"])
      #expect(try unnamed.client().ending() == .reset)
      #expect(String(validating: unnamed.logBytes, as: UTF8.self) != nil)
    }
  }

  /// Phones on Wi-Fi.
  @Suite(.serialized) struct NetworkPhones {
    static let wifi = FakeDevice.Kind.network(FakeDevice.networkAddress(.ipv4("127.0.0.1", 0)))

    /// USB wins over the twin, whichever is listed first.
    @Test(arguments: [false, true], [[], ["--usb-only"], ["--network"]])
    func usbIsPreferred(usbFirst: Bool, options: [String]) throws {
      let mux = try FakeMux()
      if !usbFirst { mux.attach(phone, kind: Self.wifi) }
      let id = mux.attach(phone)
      if usbFirst { mux.attach(phone, kind: Self.wifi) }
      let tunnel = try Tunnel(mux, [7], options)
      #expect(tunnel.works(), "\(tunnel.log)")
      #expect(mux.connects.map(\.deviceID) == [id])
    }

    /// Never silently over Wi-Fi.
    @Test func aPhoneOnWiFiOnlyNeedsTheOption() throws {
      let mux = try FakeMux()
      mux.attach(phone, kind: Self.wifi)
      let tunnel = try Tunnel(mux, [7], ["--wait", "0.5"])
      #expect(try tunnel.client().ending() == .reset)
      #expect(tunnel.logs("--network"), "\(tunnel.log)")
      #expect(mux.connects.isEmpty)
    }

    @Test(arguments: ["--network-only", "--network"])
    func aPhoneOnWiFiIsReachedAtItsAddress(option: String) throws {
      let mux = try FakeMux()
      let port4 = try mux.servePlainly(.echo)
      let port6 = try mux.servePlainly(.echo, at: .loopback6(0))
      mux.attach(phone, kind: .network(FakeDevice.networkAddress(.ipv4("127.0.0.1", 0))))
      mux.attach(otherPhone, kind: .network(FakeDevice.networkAddress(.ipv6("::1", 0))))
      let first = try Tunnel(mux, [port4], [option, "--udid", phone])
      #expect(first.works(port4), "\(first.log)")
      let second = try Tunnel(mux, [port6], [option, "--udid", otherPhone])
      #expect(second.works(port6), "\(second.log)")
    }

    /// What is said of half-close and endings holds there too.
    @Test func aPhoneOnWiFiEndsLikeOneOnUSB() throws {
      let mux = try FakeMux()
      let port = try mux.servePlainly(.answer(mebibyte))
      mux.attach(phone, kind: Self.wifi)
      let tunnel = try Tunnel(mux, [port], ["--network-only"])
      let client = try tunnel.client(port)
      try client.send("GET / HTTP/1.0\r\n\r\n")
      client.finishSending()
      #expect(
        client.receivePattern() == .whole(mebibyte), "\(tunnel.log)")
    }

    @Test func aRefusalOnWiFiIsAReset() throws {
      let mux = try FakeMux()
      let port = try freePort()
      mux.attach(phone, kind: Self.wifi)
      let tunnel = try Tunnel(mux, [port], ["--network-only"])
      #expect(try tunnel.client(port).ending() == .reset)
      #expect(tunnel.logs("refused", "\(port)"), "\(tunnel.log)")
    }

    @Test func networkOnlyIgnoresTheCable() throws {
      let mux = try FakeMux()
      let port = try mux.servePlainly(.echo)
      mux.attach(phone)
      mux.attach(phone, kind: Self.wifi)
      let tunnel = try Tunnel(mux, [port], ["--network-only"])
      #expect(tunnel.works(port), "\(tunnel.log)")
      #expect(mux.connects.isEmpty)
    }

    /// The twin comes and goes all the time; a transfer over USB does not care.
    @Test func flappingTwinsDisturbNothing() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux)
      let client = try tunnel.client()
      for _ in 0..<100 {
        let twin = mux.attach(phone, kind: Self.wifi)
        let (_, reception) = try client.exchange(send: 200_000, receive: 200_000, within: 5)
        #expect(reception == .part(200_000))
        mux.detach(twin)
      }
      #expect(tunnel.works())
    }

    /// The cable is pulled and the twin stays: no fall to Wi-Fi unasked.
    @Test func noFallFromUSBToWiFi() throws {
      let mux = try FakeMux()
      let port = try mux.servePlainly(.echo)
      let id = mux.attach(phone, ports: [port: .open(.echo)])
      mux.attach(phone, kind: Self.wifi)
      let tunnel = try Tunnel(mux, [port], ["--wait", "0.5"])
      #expect(tunnel.works(port), "\(tunnel.log)")
      mux.detach(id)
      #expect(try tunnel.client(port).ending() == .reset)
    }

    /// Address blobs of any length and content.
    @Test func addressesOfAnyLength() throws {
      let mux = try FakeMux()
      var generator = SeededGenerator(seed: 8_007)
      mux.attach(otherPhone)
      let tunnel = try Tunnel(mux, [7], ["--network", "--any", "--wait", "0.3", "--connect-timeout", "0.3"])
      #expect(tunnel.works())
      mux.change { state in
        for length in 0...256 {
          var blob = (0..<length).map { _ in UInt8.random(in: 0...255, using: &generator) }
          if length > 1 { blob[1] = [2, 30, 10, 255][length % 4] }
          _ = state.attach(String(format: "00008120-%016X", length), .network(blob), [7: .refusing()])
        }
      }
      #expect(tunnel.works(), "\(tunnel.log)")
      let named = try Tunnel(mux, [7], ["--network", "--udid", "00008120-0000000000000003", "--wait", "0.3"])
      #expect(try named.client().ending() == .reset, "\(named.log)")
      #expect(named.isRunning && tunnel.isRunning)
    }
  }
}
