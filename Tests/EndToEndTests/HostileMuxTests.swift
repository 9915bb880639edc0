import Foundation
import Testing

extension EndToEnd {
  /// A usbmuxd that is broken, or not one.
  @Suite(.serialized) struct HostileMux {
    static let harmless: [ReplyStyle] = [.oneByteAtATime, .headerVersion0, .binaryPropertyList, .decorated]

    static let harmful: [ReplyStyle] = [
      .wrongTag, .length(0), .length(1), .length(15), .length(16), .length(.max), .length(0x4000_0000),
      .garbage,
      .cut(after: 0), .cut(after: 1), .cut(after: 15), .cut(after: 16), .cut(after: 100), .empty, .wrongTypes,
      .hangUp,
    ]

    /// Unusual, but right.
    @Test(arguments: harmless)
    func unusualRepliesAreUnderstood(style: ReplyStyle) throws {
      let mux = try FakeMux()
      mux.setStyleOfAll(style)
      mux.attach(phone)
      mux.setPort(20, .open(.send(3 * mebibyte)))
      let tunnel = try Tunnel(mux, [7, 20])
      #expect(tunnel.works(7, within: 8), "\(tunnel.log)")
      let reception = try tunnel.client(20).receivePattern()
      #expect(reception == .whole(3 * mebibyte), "\(tunnel.log)")
      #expect(mux.violations == [])
    }

    /// Wrong answers to a Connect: a reset for that client, and life goes on.
    @Test(arguments: harmful)
    func wrongAnswersToConnect(style: ReplyStyle) throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--connect-timeout", "1", "--wait", "1"])
      #expect(tunnel.works(), "\(tunnel.log)")
      let before = tunnel.settledDescriptors
      mux.setStyle(.connect, style)
      let client = try tunnel.client()
      try? client.send("hello")
      let (bytes, ending) = client.receiveAll(within: 6)
      #expect(ending == .reset, "\(tunnel.log)")
      #expect(bytes == [], "not a byte of the reply is payload")
      #expect(mux.connects.count <= 6, "no storm of retries")
      mux.setStyle(.connect, .normal)
      #expect(tunnel.works(), "\(tunnel.log)")
      #expect(eventually(within: 5) { tunnel.descriptors <= before }, "\(tunnel.descriptors) after \(before)")
      #expect(tunnel.residentBytes < 64 * mebibyte)
    }

    /// The same for everything else that the daemon says, and for the events.
    @Test(arguments: harmful.filter { $0 != .cut(after: 1) && $0 != .cut(after: 16) && $0 != .length(1) })
    func wrongAnswersToEverythingElse(style: ReplyStyle) throws {
      let mux = try FakeMux()
      mux.setStyleOfAll(style)
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--connect-timeout", "1", "--wait", "1"])
      let client = try tunnel.client()
      #expect(client.ending(within: 6) == .reset, "\(tunnel.log)")
      #expect(tunnel.isRunning)
      #expect(mux.read { $0.accepted } < 60, "no storm of retries")
      mux.setStyleOfAll(.normal)
      mux.cutListeners()
      #expect(eventually(within: 15) { tunnel.works(7, within: 3) }, "\(tunnel.log)")
      #expect(tunnel.residentBytes < 64 * mebibyte)
    }

    /// Events that make no sense do not end the events that do.
    @Test(arguments: [ReplyStyle.empty, .wrongTypes, .decorated, .wrongTag])
    func oddEvents(style: ReplyStyle) throws {
      let mux = try FakeMux()
      let tunnel = try Tunnel(mux)
      #expect(mux.wait { $0.listeners > 0 || $0.clients == 0 })
      mux.setStyle(.event, style)
      mux.attach(otherPhone, kind: .network([]))
      mux.setStyle(.event, .normal)
      mux.attach(phone)
      #expect(tunnel.works(), "\(tunnel.log)")
    }

    @Test func noise() throws {
      for seed in 1...40 as ClosedRange<UInt64> {
        let mux = try FakeMux()
        mux.setStyleOfAll(.noise(seed: seed))
        mux.attach(phone)
        let tunnel = try Tunnel(mux, [7], ["--connect-timeout", "0.2", "--wait", "0.2"])
        #expect(try tunnel.client().ending(within: 6) == .reset, "seed \(seed)")
        #expect(tunnel.isRunning, "seed \(seed) \(tunnel.log)")
        #expect(tunnel.stop() == .exited(0), "seed \(seed) \(tunnel.log)")
      }
    }

    @Test func noiseInPlaceOfTheResult() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--connect-timeout", "0.2", "--wait", "0.5"])
      #expect(tunnel.works())
      for seed in 100...150 as ClosedRange<UInt64> {
        mux.setStyle(.connect, .noise(seed: seed))
        let (bytes, ending) = try tunnel.client().receiveAll(within: 6)
        #expect(ending == .reset && bytes == [], "seed \(seed)")
      }
      mux.setStyle(.connect, .normal)
      #expect(tunnel.works(), "\(tunnel.log)")
    }

    /// Early ends at every byte of the Result.
    @Test func earlyEndsEverywhere() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7], ["--wait", "0.5"])
      #expect(tunnel.works())
      for count in stride(from: 0, through: 260, by: 4) {
        mux.setStyle(.connect, .cut(after: count))
        let (bytes, ending) = try tunnel.client().receiveAll(within: 6)
        #expect(ending == .reset && bytes == [], "after \(count) bytes")
      }
      mux.setStyle(.connect, .normal)
      #expect(tunnel.works(), "\(tunnel.log)")
    }
  }
}
