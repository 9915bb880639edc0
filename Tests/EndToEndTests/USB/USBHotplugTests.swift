#if os(Linux)
  import Foundation
  import Testing

  extension EndToEnd {
    /// Emulated USB devices that come, go and fail.
    @Suite(.serialized, .enabled(if: EmulatedUSB.isAvailable)) struct USBHotplug {
      private static let old = "serial=0123456789abcdef0123456789abcdef01234567"

      @Test func aReplugNeedsNoRestart() throws {
        let usb = try EmulatedUSB(["1-1", "1-2 \(Self.old)"], options: ["--udid", "00008110"])
        let other = try EmulatedUSB(["1-2 \(Self.old)"])
        let bystander = try other.tunnel.client()
        #expect(echoes(bystander))
        for _ in 0..<5 {
          let client = try usb.tunnel.client()
          #expect(echoes(client), "\(usb.tunnel.log)")
          try usb.perform("unplug 1-1")
          #expect(client.ending(within: 1) == .reset, "\(usb.tunnel.log)")
          try usb.perform("attach 1-1")
          #expect(usb.tunnel.works(7, within: 2), "\(usb.tunnel.log)")
        }
        #expect(usb.tunnel.logCount("00008110", "is attached") == 6)
        #expect(usb.tunnel.logCount("00008110", "is gone (USB)") == 5)
        #expect(usb.tunnel.logCount("01234567", "is gone (USB)") == 0)
        #expect(try usb.isFaultless())
      }

      /// As in a container: nothing tells of coming and going.
      @Test func withoutEvents() throws {
        let usb = try EmulatedUSB([], options: ["--wait", "10"])
        usleep(300_000)
        try usb.perform("attach 1-1 silent")
        let start = uptime()
        let client = try usb.tunnel.client()
        try client.send("hello")
        #expect(try client.receive(5, within: 6) == Array("hello".utf8), "\(usb.tunnel.log)")
        #expect(uptime() - start < 5)
        try usb.perform("unplug 1-1 silent")
        #expect(client.ending(within: 1) == .reset, "failed transfers tell it")
        try usb.perform("attach 1-1 silent")
        #expect(usb.tunnel.works(7, within: 6), "\(usb.tunnel.log)")
      }

      /// Not even its transfers fail.
      @Test func goneFromTheListOnly() throws {
        let usb = try EmulatedUSB(["1-1"])
        let client = try usb.tunnel.client()
        #expect(echoes(client))
        try usb.perform("vanish 1-1")
        #expect(client.ending(within: 6) == .reset, "\(usb.tunnel.log)")
        try usb.perform("attach 1-1")
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
      }

      @Test func unpluggedDuringTransfers() throws {
        let usb = try EmulatedUSB(["1-1"], ports: [7, 19])
        for round in 0..<5 {
          let both = try usb.tunnel.client()
          let reader = try usb.tunnel.client(19)
          let first = try both.exchange(send: 2 * mebibyte, receive: 2 * mebibyte, within: 20)
          #expect(first.reception.mismatch == nil)
          #expect(try reader.receive(100_000).count == 100_000)
          Thread { usb.perform(later: "unplug 1-1 \(round % 2 == 0 ? "" : "silent")") }.start()
          let rest = try both.exchange(send: 400 * mebibyte, receive: 400 * mebibyte, within: 10)
          #expect(rest.reception.ending == .reset, "\(usb.tunnel.log)")
          #expect(rest.reception.mismatch == nil)
          #expect(reader.ending(within: 3) == .reset)
          #expect(usb.tunnel.isRunning, "\(usb.tunnel.log)")
          try usb.perform("attach 1-1")
          #expect(usb.tunnel.works(7, within: 5), "\(usb.tunnel.log)")
        }
        #expect(try usb.isFaultless())
      }

      @Test func eightAtOnce() throws {
        let usb = try EmulatedUSB([], options: ["--wait", "0"])
        for number in 1...8 {
          try usb.perform("attach 1-\(number) serial=0000803000112233445566\(number)\(number)")
        }
        let attached = eventually(within: 2) { usb.tunnel.logCount("is attached") == 8 }
        #expect(attached, "\(usb.tunnel.log)")
      }

      /// Memory, descriptors and threads after many lives of one device are those after a few.
      @Test func aHundredLives() throws {
        let usb = try EmulatedUSB([])
        var before = (memory: 0, descriptors: 0, threads: 0)
        for round in 1...100 {
          try usb.perform("attach 1-1 serial=0000803000112233445566\(round % 90 + 10)")
          #expect(usb.tunnel.works(), "round \(round): \(usb.tunnel.log)")
          try usb.perform("unplug 1-1")
          #expect(eventually(within: 3) { usb.tunnel.logCount("is gone (USB)") == round })
          if round == 20 {
            usleep(200_000)
            before = (usb.memory, usb.descriptors, usb.threads)
          }
        }
        #expect(eventually(within: 3) { usb.descriptors <= before.descriptors })
        #expect(usb.threads <= before.threads)
        #expect(usb.memory - before.memory < 2 * mebibyte, "\(usb.memory) \(before.memory)")
      }

      /// Everything at once, under load: it goes on, and ends when it is told to.
      @Test func chaos() throws {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SeededGenerator(seed: seed)
        let usb = try EmulatedUSB(["1-1"], ports: [7, 19])
        let (echo, characters) = (try usb.tunnel.port(7), try usb.tunnel.port(19))
        let isOver = Monitor()
        nonisolated(unsafe) var over = false
        for index in 0..<3 {
          Thread {
            while !isOver.reading({ over }) {
              guard let client = try? Client(port: index == 0 ? echo : characters) else { continue }
              _ = try? client.exchange(send: index == 0 ? 1 << 20 : 0, receive: 1 << 20, within: 1)
            }
          }.start()
        }
        defer { isOver.changing { over = true } }
        let faults = [
          "unplug 1-1", "unplug 1-1 silent", "vanish 1-1", "select 1-1 1", "set 1-1 next-in=71",
          "set 1-1 next-out=32", "set 1-1 out-of-memory=3", "set 1-1 hold=1 next-in=71", "set 1-1 hold=0",
        ]
        for _ in 0..<15 {
          usleep(.random(in: 50_000...500_000, using: &random))
          let fault = faults[.random(in: faults.indices, using: &random)]
          try usb.perform(fault)
          guard fault.hasPrefix("unplug") || fault.hasPrefix("vanish") else { continue }
          usleep(.random(in: 0...200_000, using: &random))
          let how = ["", "claim-errors=2", "active=0", "mute=1"][.random(in: 0..<4, using: &random)]
          try usb.perform("attach 1-1 \(how)")
        }
        try usb.perform("set 1-1 hold=0")
        #expect(eventually(within: 15) { usb.tunnel.works(7, within: 1) }, "seed \(seed): \(usb.tunnel.log)")
        // A claim that was lost shows in the next transfer, so that much is no fault here.
        #expect(try usb.count("violations") == 0, "seed \(seed): \(usb.status())")
        #expect(usb.tunnel.stop() == .exited(0), "seed \(seed): \(usb.tunnel.log)")
      }

      // MARK: Claims

      /// The kernel or udev selects another configuration: the claim is gone, the device is not.
      @Test(arguments: ["", "quiet"]) func aLostClaim(_ how: String) throws {
        let usb = try EmulatedUSB(["1-1"])
        let client = try usb.tunnel.client()
        #expect(echoes(client))
        try usb.perform("select 1-1 1 \(how)")
        #expect(client.ending(within: 6) == .reset, "\(usb.tunnel.log)")
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        #expect(try usb.count("active") == 4)
        #expect(usb.tunnel.logCount("is gone (USB)") == 1)
        #expect(usb.tunnel.logCount("is attached") == 2)
      }

      @Test func configurationZeroForAWhile() throws {
        let usb = try EmulatedUSB(["1-1"])
        #expect(usb.tunnel.works())
        for _ in 0..<3 {
          try usb.perform("select 1-1 0")
          usleep(100_000)
          try usb.perform("select 1-1 1")
          #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        }
      }

      // MARK: Transfers

      /// Any status but completed means that the device is gone, or must be treated so.
      @Test(arguments: ["next-in=32", "next-in=71", "next-in=75", "next-out=32", "next-out=71"])
      func aFailedTransfer(_ fault: String) throws {
        let usb = try EmulatedUSB(["1-1"])
        let client = try usb.tunnel.client()
        #expect(echoes(client))
        try usb.perform("set 1-1 \(fault)")
        if fault.hasPrefix("next-out") { try client.send("more") }
        #expect(client.ending(within: 2) == .reset, "\(usb.tunnel.log)")
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        #expect(usb.tunnel.logCount("is gone (USB)") == 1)
      }

      /// The kernel's memory for transfers is used up for a moment: nothing is lost.
      @Test func noMemoryForTransfers() throws {
        let usb = try EmulatedUSB(["1-1"])
        #expect(usb.tunnel.works())
        let client = try usb.tunnel.client()
        for _ in 0..<10 {
          try usb.perform("set 1-1 out-of-memory=2")
          let (_, reception) = try client.exchange(send: 100_000, receive: 100_000, within: 10)
          #expect(
            reception == Reception(count: 100_000, mismatch: nil, ending: .stillOpen), "\(usb.tunnel.log)")
        }
        #expect(try usb.isFaultless())
      }

      /// A transfer that never comes back does not hold up the others, nor the end.
      @Test func transfersThatNeverComeBack() throws {
        let usb = try EmulatedUSB(["1-1 hold=1", "1-2 \(Self.old)"], options: ["--udid", "0123"])
        #expect(usb.tunnel.works(), "\(usb.tunnel.log)")
        #expect(eventually(within: 5) { usb.tunnel.logCount("is attached") == 2 })
        try usb.perform("set 1-1 next-in=71")
        #expect(usb.tunnel.logs("00008110", "is gone (USB)"))
        for _ in 0..<20 { #expect(usb.tunnel.works(7, within: 0.5), "\(usb.tunnel.log)") }
        #expect(usb.tunnel.logs("did not give", within: 4), "\(usb.tunnel.log)")
        #expect(eventually(within: 5) { usb.tunnel.logCount("00008110", "is attached") == 2 })
        let start = uptime()
        #expect(usb.tunnel.stop() == .exited(0))
        #expect(uptime() - start < 0.8)
      }

      @Test func theEndWithADeviceThatTakesNothing() throws {
        let usb = try EmulatedUSB(["1-1"])
        let client = try usb.tunnel.client()
        #expect(echoes(client))
        try usb.perform("set 1-1 hold-output=1 hold=1")
        try client.sendPattern(10 * mebibyte, within: 0.5)
        let start = uptime()
        #expect(usb.tunnel.stop() == .exited(0))
        #expect(uptime() - start < 0.8, "\(usb.tunnel.log)")
      }
    }
  }
#endif
