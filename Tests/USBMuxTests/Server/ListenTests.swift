import MuxProtocol
import Testing

@testable import USBMux

@Suite("The server tells of devices")
struct ListenTests {
  static let first = "00008110-000000C0FFEE0001"
  static let second = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

  @Test("Listen: Result, then the devices that are there, in one piece, USB before the network")
  func burst() throws {
    let harness = try ServerHarness(devices: [.network(4), .usb(9), .usb(7, Self.second)])
    let client = try harness.client()
    try client.request("Listen", tag: 77)
    // One read brings it all.
    let bytes = try #require(try client.receive())
    var messages: [MuxClient.Message] = []
    var rest = bytes[...]
    while rest.count >= 16 {
      let length = Int(rest[rest.startIndex]) | Int(rest[rest.startIndex + 1]) << 8
      let tag = rest.dropFirst(12).prefix(4).reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
      messages.append(
        MuxClient.Message(version: 1, message: 8, tag: tag, body: Array(rest.prefix(length).dropFirst(16))))
      rest = rest.dropFirst(length)
    }
    #expect(messages.map(\.type) == ["Result", "Attached", "Attached", "Attached"])
    #expect(messages.map(\.tag) == [77, 0, 0, 0])
    #expect(messages.map { $0.properties["ConnectionType"] as? String } == [nil, "USB", "USB", "Network"])
    #expect(
      messages.map { $0.properties["SerialNumber"] as? String } == [nil, Self.first, Self.second, Self.first])
    let usb = messages[1].properties
    #expect(usb["ConnectionSpeed"] as? Int == 480_000_000)
    #expect(usb["LocationID"] as? Int == 0x1_0002)
    #expect(usb["ProductID"] as? Int == 0x12A8)
    #expect(usb["DeviceID"] as? Int == messages[1].deviceID)
  }

  @Test("The list of devices: as many entries as there are ways, USB first, ids that differ")
  func list() throws {
    let harness = try ServerHarness(devices: [.network(4), .usb(9)])
    let devices = try harness.client().devices()
    #expect(devices.map(\.serial) == [Self.first, Self.first])
    #expect(Set(devices.map(\.id)).count == 2)
    #expect(try ServerHarness().client().devices().isEmpty)
  }

  @Test("A replugged phone has a new id, whatever id its transport gives it")
  func idsAreNotReused() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let client = try harness.client()
    var seen = [try #require(try client.listen(expecting: 1)[0].deviceID)]
    for _ in 0..<50 {
      harness.detach(1)
      harness.attach(.usb(1))
      let detached = try client.message()
      #expect(detached.type == "Detached" && detached.tag == 0 && detached.deviceID == seen.last)
      let attached = try client.message()
      #expect(attached.type == "Attached")
      seen.append(try #require(attached.deviceID))
    }
    #expect(Set(seen).count == 51)
    // An id that is over names nothing.
    #expect(try harness.client().result("Connect", ["DeviceID": seen[0], "PortNumber": 42015]) == 2)
  }

  @Test("A further command on a connection that listens: Result 1, then the end")
  func furtherCommand() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    for bytes in [
      MuxClient.request("ListDevices", tag: 5), MuxClient.request("Listen", tag: 5),
      MuxClient.frame(tag: 5, [1, 2, 3]),
    ] {
      let client = try harness.client()
      _ = try client.listen(expecting: 1)
      try client.send(bytes)
      let answer = try client.message()
      #expect(answer.number == 1 && answer.tag == 5)
      #expect(try client.receive() == nil)
    }
  }

  @Test("A listener that does not read is given up; another one misses nothing")
  func slowListener() throws {
    let harness = try ServerHarness { $0.limits.queuedBytes = 65536 }
    let slow = try harness.client()
    let good = try harness.client()
    _ = try slow.listen(expecting: 0)
    _ = try good.listen(expecting: 0)
    for id in 1...5000 as ClosedRange<UInt32> {
      harness.onLoop {
        harness.transport.attach(.usb(id))
        harness.transport.detach(id)
      }
      #expect(try good.message().type == "Attached")
      #expect(try good.message().type == "Detached")
    }
    // What the kernel had taken is still there to be read; then comes the end.
    let bytes = try slow.receiveAll()
    #expect(bytes.count < 5_000_000)
    #expect(harness.log.filter { $0.contains("does not read") }.count == 1)
    #expect(try harness.client().devices().isEmpty)
  }

  @Test("Who asks before all devices are known is answered when they are")
  func notReady() throws {
    let harness = try ServerHarness(isReady: false)
    let listener = try harness.client()
    let lister = try harness.client()
    try listener.request("Listen")
    try lister.request("ListDevices")
    // The answer to what needs no devices shows that the requests before it have been read.
    #expect(try harness.client().ask("ReadBUID").dictionary["BUID"] != nil)
    harness.attach(.usb(1))
    harness.onLoop { harness.transport.becomeReady() }
    #expect(try lister.message().dictionary["DeviceList"] as? [Any] != nil)
    #expect(try listener.message().number == 0)
    #expect(try listener.message().type == "Attached")
  }

  @Test("ListListeners tells who listens")
  func listeners() throws {
    let harness = try ServerHarness()
    let asker = try harness.client()
    #expect((try asker.ask("ListListeners").dictionary["ListenerList"] as? [Any])?.count == 0)
    let listener = try harness.client()
    _ = try listener.ask("Listen", ["BundleID": "org.example.test"])
    let list = try asker.ask("ListListeners").dictionary["ListenerList"] as? [[String: Any]] ?? []
    #expect(list.count == 1)
    #expect(list.first?["ProgName"] as? String == "test")
    #expect(list.first?["BundleID"] as? String == "org.example.test")
    #expect(list.first?["kLibUSBMuxVersion"] as? Int == 3)
    #expect(list.first?["Blacklisted"] as? Bool == false)
    #expect(list.first?["ConnType"] as? Int == 0)
    #expect((list.first?["ID String"] as? String)?.hasSuffix("-test") == true)
    listener.close()
    var left = 1
    while left > 0 {
      left = (try asker.ask("ListListeners").dictionary["ListenerList"] as? [Any])?.count ?? 0
    }
  }

  @Test("Serial numbers are written in the canonical form")
  func serials() throws {
    let harness = try ServerHarness(devices: [.usb(1, "00008110000000c0ffee0001"), .usb(2, "R\u{0}")])
    #expect(try harness.client().devices().map(\.serial) == [Self.first, "R"])
  }
}
