#if os(Linux)
  import Foundation
  import Testing

  extension EndToEnd {
    /// Bytes over emulated USB, with a phone that checks the host strictly.
    @Suite(.serialized, .enabled(if: EmulatedUSB.isAvailable)) struct USBTransfers {
      @Test func hundredMebibytesBothWays() throws {
        let size = 100 * mebibyte
        let usb = try EmulatedUSB()
        let client = try usb.tunnel.client()
        let (sent, reception) = try client.exchange(send: size, receive: size, within: 240)
        #expect(sent == size)
        #expect(reception == Reception(count: size, mismatch: nil, ending: .stillOpen), "\(usb.tunnel.log)")
        #expect(try usb.isFaultless(), "\(usb.status())")
      }

      @Test func fiveHundredInParallel() throws {
        let usb = try EmulatedUSB()
        let clients = try Load.open(500, usb.tunnel)
        for client in clients { client.close() }
        #expect(usb.tunnel.works())
        #expect(eventually(within: 5) { (try? usb.count("sessions")) ?? 1 <= 1 })
        #expect(try usb.isFaultless(), "\(usb.status())")
      }

      /// Packets whose length is a multiple of the endpoint's are followed by an empty one, or the phone takes two
      /// for one.
      @Test(arguments: [("1-1", 512), ("1-1 packet=1024 speed=5000", 1024), ("1-1 version=1", 512)])
      func packetsThatFillTheEndpoint(_ device: String, size: Int) throws {
        let usb = try EmulatedUSB([device])
        let client = try usb.tunnel.client()
        let header = device.contains("version=1") ? 28 : 36
        for count in 1...8 {
          for payload in [size * count - header - 1, size * count - header, size * count - header + 1] {
            #expect(
              echoes(client, String(repeating: "x", count: payload)), "\(payload) bytes: \(usb.tunnel.log)")
          }
        }
        #expect(try usb.count("zero-length") >= 8)
        #expect(try usb.isFaultless(), "\(usb.status())")
      }

      @Test func halfClose() throws {
        let size = 10 * mebibyte
        let usb = try EmulatedUSB(ports: [8765])
        let client = try usb.tunnel.client(8765)
        try client.send(Simulated.get("/big?bytes=\(size)"))
        client.finishSending()
        let (bytes, ending) = client.receiveAll(within: 30)
        #expect(ending == .end, "\(usb.tunnel.log)")
        #expect(Simulated.split(bytes).body.count == size)
      }

      @Test func aRefusalIsAReset() throws {
        let usb = try EmulatedUSB(ports: [4321])
        #expect(try usb.tunnel.client(4321).ending() == .reset)
        #expect(usb.tunnel.logs("refused", "4321"), "\(usb.tunnel.log)")
      }

      @Test func oneStalledClientStallsNobodyElse() throws {
        let usb = try EmulatedUSB(ports: [7, 19])
        let stalled = try (0..<10).map { _ in try usb.tunnel.client(19) }
        #expect(settles(for: 0.5, within: 20) { (try? usb.count("in")) ?? 0 })
        for _ in 0..<20 { #expect(usb.tunnel.works(7, within: 2), "\(usb.tunnel.log)") }
        #expect(usb.memory < 64 * mebibyte)
        for client in stalled { #expect(try client.receive(1_000_000).count == 1_000_000) }
        #expect(try usb.isFaultless(), "\(usb.status())")
      }

      /// The next host finds no sessions that the phone still serves.
      @Test func theEndIsToldToThePhone() throws {
        let usb = try EmulatedUSB()
        let clients = try (0..<5).map { _ in try usb.tunnel.client() }
        for client in clients { #expect(echoes(client)) }
        for client in clients { client.close() }
        #expect(eventually(within: 3) { (try? usb.count("sessions")) == 0 }, "\(usb.tunnel.log)")
        let start = uptime()
        #expect(usb.tunnel.stop() == .exited(0))
        #expect(uptime() - start < 0.5)
      }

      @Test func idleCostsNothing() throws {
        let usb = try EmulatedUSB(["1-1", "1-2 serial=0123456789abcdef0123456789abcdef01234567"])
        #expect(eventually(within: 5) { usb.tunnel.logCount("is attached") == 2 })
        usleep(1_500_000)
        let before = usb.processorTime
        usleep(6_000_000)
        // Under the emulation a look at a file costs several times what it costs otherwise.
        #expect(usb.processorTime - before <= 0.09)
        #expect(usb.threads <= 4)
      }
    }

    /// A usbmuxd where one answers, else USB.
    @Suite(.serialized, .enabled(if: EmulatedUSB.isAvailable)) struct USBAutomatic {
      @Test func changesOverWhenTheDaemonComesAndGoes() throws {
        let mux = try FakeMux()
        mux.attach(phone)
        mux.die()
        let usb = try EmulatedUSB(
          ["1-1"], options: ["--wait", "8"], transport: "auto",
          environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        #expect(try usb.count("claimed") == 1)
        let first = try usb.tunnel.client()
        #expect(echoes(first))

        try mux.start()
        #expect(first.ending(within: 15) == .reset, "\(usb.tunnel.log)")
        #expect(usb.tunnel.works(7, within: 10), "\(usb.tunnel.log)")
        #expect(!mux.connects.isEmpty)
        #expect(eventually(within: 3) { (try? usb.count("claimed")) == 0 })

        mux.die()
        #expect(usb.tunnel.works(7, within: 10), "\(usb.tunnel.log)")
        #expect(try usb.count("claimed") == 1)
      }

      @Test func aDaemonGoesFirst() throws {
        let mux = try FakeMux()
        mux.attach(phone)
        let usb = try EmulatedUSB(
          ["1-1"], transport: "auto", environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        usleep(500_000)
        #expect(try usb.count("open") == 0)
      }
    }
  }
#endif
