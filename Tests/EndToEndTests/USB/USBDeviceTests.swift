#if os(Linux)
  import Foundation
  import Testing

  extension EndToEnd {
    /// Devices of all kinds on emulated USB.
    @Suite(.serialized, .enabled(if: EmulatedUSB.isAvailable)) struct USBDevices {
      /// A phone that is used over USB as it is.
      @Test(arguments: [
        "1-1", "1-1 swap", "1-1 active=0", "1-1 active=1", "1-1 active=3", "1-1 active=1 driver=usbtmc",
        "1-1 mode=2", "1-1 mode=3 active=5", "1-1 mode=4 active=0", "1-1 mode=5 active=1", "1-1 product=8600",
        "1-1 product=1905", "1-1 speed=5000 packet=1024", "1-1 version=1", "1-1 version=1 packet=1024",
        "1-1 piece=512", "1-1 piece=4096 glue", "1-1 piece=1", "1-1 stale=3", "1-1 mute=1",
        "2-1.4.3 address=127",
      ])
      func works(_ device: String) throws {
        let usb = try EmulatedUSB([device], options: ["--wait", "10"])
        let client = try usb.tunnel.client()
        let size = device.contains("piece=1 ") || device.hasSuffix("piece=1") ? 20_000 : mebibyte
        let (_, reception) = try client.exchange(send: size, receive: size, within: 30)
        #expect(
          reception == Reception(count: size, mismatch: nil, ending: .stillOpen), "\(usb.tunnel.log)")
        let name = String(device.prefix { $0 != " " })
        #expect(try usb.isFaultless(name), "\(usb.status(name))")
        #expect(try usb.count("reset", of: name) == 0)
        // Leave the phone's mode alone unless the user asks.
        #expect(try usb.count("control-45", of: name) == 0)
        #expect(try usb.count("control-52", of: name) == 0)
      }

      /// Stay in the active configuration when it holds a mux interface; else the highest that can be had.
      @Test(arguments: [
        ("1-1 active=3", 3, 0), ("1-1 active=1", 4, 1), ("1-1 active=0", 4, 1), ("1-1 active=1 mode=4", 6, 1),
        ("1-1 active=1 mode=4 config-error=6", 5, 2), ("1-1 active=1 driver=usbtmc", 4, 1),
        ("1-1 active=4 driver=ipheth", 4, 0),
      ])
      func configurations(_ device: String, configuration: Int, changes: Int) throws {
        let usb = try EmulatedUSB([device])
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        #expect(try usb.count("active") == configuration)
        #expect(try usb.count("set-configuration") == changes)
        // Drivers of the configuration in use keep it: tethering goes on.
        #expect(try usb.count("driver-detached") == (device.contains("usbtmc") ? 1 : 0))
      }

      @Test(arguments: [
        ("serial=00008030001122334455667A", "00008030-001122334455667A"),
        ("serial=00008030001122334455667a hidden-serial", "00008030-001122334455667A"),
        ("serial=0123456789ABCDEF0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
        ("serial=ffffffffffffffffffffffff address=9", "FFFFFFFF-FFFFFFFF00010009"),
        ("serial=none address=10", "ffffffffffffffffffffffffffffffff0001000a"),
      ])
      func serialNumbers(_ device: String, udid: String) throws {
        let usb = try EmulatedUSB(
          ["1-1 \(device)"], command: ["devices", "--json", "--transport", "usb"])
        #expect(usb.tunnel.waitForExit(within: 10) == .exited(0), "\(usb.tunnel.log)")
        #expect(usb.tunnel.output.contains(udid), "\(usb.tunnel.output)")
      }

      @Test func aListOfDevices() throws {
        let usb = try EmulatedUSB(
          ["1-1 speed=5000 product=12a8 address=6"], command: ["devices", "--json", "--transport", "usb"])
        #expect(usb.tunnel.waitForExit(within: 10) == .exited(0), "\(usb.tunnel.log)")
        for word in ["00008110-000000C0FFEE0001", "5000000000", "65542"] {
          #expect(usb.tunnel.output.contains(word), "\(usb.tunnel.output)")
        }
      }

      /// What has no mux interface is nobody's phone; what cannot be read (yet) is skipped.
      @Test(arguments: [
        "classes=ff/fe/01", "classes=ff/fd/02", "classes=fe/fe/02", "vendor=1234", "unreadable",
      ])
      func othersAreLeftAlone(_ device: String) throws {
        let usb = try EmulatedUSB(["1-1 \(device)"], options: ["--wait", "0.5"])
        #expect(try usb.tunnel.client().ending() == .reset)
        #expect(try usb.count("open") == 0)
        try usb.perform("attach 1-2 serial=0123456789abcdef0123456789abcdef01234567")
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
      }

      // MARK: Modes

      @Test func theWantedModeIsSet() throws {
        let usb = try EmulatedUSB(["1-1"], environment: ["USBMUXD_DEFAULT_DEVICE_MODE": "3"])
        #expect(usb.tunnel.works(7, within: 10), "\(usb.tunnel.log)")
        #expect(usb.tunnel.logs("mode 3"))
        // It came back as another device, in mode 3, and is left there.
        #expect(try usb.count("active") == 5)
        #expect(try usb.count("control-52") == 0)
        #expect(usb.tunnel.logCount("is attached") == 1)
      }

      @Test(arguments: ["stall-modes", "ignore-control", "mode=3 active=5"])
      func aModeThatCannotBeSetIsNoHindrance(_ device: String) throws {
        let usb = try EmulatedUSB(["1-1 \(device)"], environment: ["USBMUXD_DEFAULT_DEVICE_MODE": "3"])
        #expect(usb.tunnel.works(7, within: 10), "\(usb.tunnel.log)")
        #expect(try usb.count("control-45") == 1)
        #expect(try usb.count("control-52") == 0)
      }

      // MARK: What goes wrong

      @Test func aDeviceThatIsNotReadyAtOnce() throws {
        let usb = try EmulatedUSB(["1-1 claim-errors=3"])
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        #expect(try usb.count("open") == 4, "each try has a fresh handle")
        #expect(usb.tunnel.logCount("libusb_claim_interface") == 0, "no news: \(usb.tunnel.log)")
      }

      @Test func aDeviceThatAnotherProgramHas() throws {
        let usb = try EmulatedUSB(["1-1 busy=-1"], options: ["--wait", "0.5"])
        #expect(try usb.tunnel.client().ending() == .reset)
        #expect(usb.tunnel.logs("busy", "systemctl stop usbmuxd"), "\(usb.tunnel.log)")
        let tries = try usb.count("claim")
        usleep(3_000_000)
        #expect(try usb.count("claim") - tries <= 14)
        #expect(usb.tunnel.logCount("is busy") <= 3, "\(usb.tunnel.log)")
        try usb.perform("set 1-1 busy=0")
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
      }

      /// The node, its owner and the fix are named.
      @Test func aDeviceThatMayNotBeOpened() throws {
        let usb = try EmulatedUSB(
          ["1-1 denied"], options: ["--wait", "0.5"], user: getuid() == 0 ? "nobody" : nil)
        #expect(try usb.tunnel.client().ending() == .reset)
        #expect(usb.tunnel.logs("/dev/bus/usb/001/002", "denied", "udev rule"), "\(usb.tunnel.log)")
        if getuid() == 0 { #expect(usb.tunnel.logs("belongs to nobody"), "\(usb.tunnel.log)") }
        #expect(usb.tunnel.logCount("denied") <= 2, "\(usb.tunnel.log)")
        try usb.perform("set 1-1 allowed")
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
      }

      @Test func aDeviceThatDoesNotAnswerHoldsUpNobody() throws {
        let usb = try EmulatedUSB(
          ["1-1 mute=1000000", "1-2 serial=0123456789abcdef0123456789abcdef01234567"])
        #expect(usb.tunnel.works(7, within: 2), "\(usb.tunnel.log)")
        // It is reset as the last means, once, and never listed.
        #expect(eventually(within: 20) { (try? usb.count("reset")) == 1 }, "\(usb.tunnel.log)")
        #expect(usb.tunnel.logCount("is attached") == 1)
        #expect(usb.tunnel.works())
      }
    }
  }
#endif
