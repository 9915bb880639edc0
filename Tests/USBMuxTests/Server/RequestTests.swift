import Foundation
import MuxProtocol
import Testing

@testable import USBMux

@Suite("The server reads requests")
struct RequestTests {
  @Test("Whole, byte by byte and glued")
  func feeding() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let whole = MuxClient.request("ListDevices", tag: 1) + MuxClient.request("ReadBUID", tag: 2)
    let glued = try harness.client()
    try glued.send(whole)
    #expect(try [glued.message().tag, glued.message().tag] == [1, 2])
    let dripped = try harness.client()
    for byte in whole { try dripped.send([byte]) }
    #expect(try [dripped.message().tag, dripped.message().tag] == [1, 2])
    let many = try harness.client()
    try many.send((0..<200).flatMap { MuxClient.request("ListListeners", tag: UInt32($0)) })
    for tag in 0..<200 { #expect(try many.message().tag == UInt32(tag)) }
  }

  @Test("A length that cannot be right ends the connection", arguments: [0, 1, 15, 0x7FFF_FFFF, UInt32.max])
  func lengths(length: UInt32) throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    try client.send(MuxClient.littleEndian(length) + [1, 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0])
    #expect(try client.receive() == nil)
    #expect(try harness.client().devices().isEmpty)
  }

  @Test("The limit of a request: one below, at, one above", arguments: [-1, 0, 1])
  func limit(difference: Int) throws {
    let harness = try ServerHarness { $0.limits.requestBytes = 8192 }
    let client = try harness.client()
    var body = Array(MuxClient.request("ListDevices").dropFirst(16))
    body += [UInt8](repeating: UInt8(ascii: "\n"), count: 8192 - 16 + difference - body.count)
    try client.send(Array(MuxClient.frame(tag: 1, body).prefix(16)))
    if difference <= 0 {
      try client.send(body)
      #expect(try client.message().dictionary["DeviceList"] != nil)
    } else {
      // Not a byte of the body is waited for.
      #expect(try client.receive() == nil)
    }
  }

  @Test("A record close to the usual limit of a request is kept and given back")
  func largeRecord() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    let record = Data((0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 31) })
    #expect(try client.result("SavePairRecord", ["PairRecordID": "a", "PairRecordData": record]) == 0)
    #expect(
      try client.ask("ReadPairRecord", ["PairRecordID": "a"]).dictionary["PairRecordData"] as? Data == record)
  }

  @Test("A body that means nothing: Result 1 with the request's tag, and the connection is kept")
  func badBodies() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    let bodies: [[UInt8]] = [
      [], Array("garbage".utf8), Array("<plist></plist>".utf8), Array("bplist00".utf8),
      Array("<plist version=\"1.0\"><dict></dict></plist>".utf8),
      Array("<plist version=\"1.0\"><array><string>Listen</string></array></plist>".utf8),
      Array("<plist version=\"1.0\"><dict><key>MessageType</key><integer>3</integer></dict></plist>".utf8),
      Array("<plist version=\"1.0\"><dict><key>MessageType</key><string>Dance</string></dict></plist>".utf8),
      Array(MuxClient.request("Connect", ["DeviceID": "x", "PortNumber": 1]).dropFirst(16)),
      Array(MuxClient.request("Connect", ["DeviceID": 1, "PortNumber": 65536]).dropFirst(16)),
      Array(MuxClient.request("ReadPairRecord").dropFirst(16)),
    ]
    for (index, body) in bodies.enumerated() {
      try client.send(MuxClient.frame(tag: UInt32(index), body))
      let answer = try client.message()
      #expect(answer.number == 1 && answer.tag == UInt32(index), "body \(index)")
    }
    #expect(try client.devices().isEmpty)
  }

  @Test("Property lists of every shape are understood")
  func shapes() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    let head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n"
    let plain =
      "<dict>\r\n<key>kLibUSBMuxVersion</key><string>three</string>\r\n<key>ProgName</key><true/>"
      + "<key>Unknown</key><dict><key>a</key><array/></dict>\r\n<key>MessageType</key><string>ListDevices</string></dict>"
    let binary = try PropertyListSerialization.data(
      fromPropertyList: ["MessageType": "ListDevices"], format: .binary, options: 0)
    let bodies: [[UInt8]] = [
      Array("\(head)<plist version=\"1.0\">\(plain)</plist>".utf8),
      [0xEF, 0xBB, 0xBF] + Array("\(head)<plist version=\"1.0\">\(plain)</plist>\n\n".utf8),
      Array(
        "<plist version=\"1.0\"><dict><key>MessageType</key><string>ListDevices</string></dict></plist>".utf8),
      Array(binary),
    ]
    for body in bodies {
      // The version of the header does not decide: the message number does.
      for version in [1, 0] as [UInt32] {
        try client.send(MuxClient.frame(version: version, tag: 5, body))
        let answer = try client.message()
        #expect(answer.dictionary["DeviceList"] != nil)
        #expect(answer.version == 1 && answer.message == 8 && answer.tag == 5)
        let text = String(decoding: answer.body, as: UTF8.self)
        #expect(text.hasPrefix("<?xml version=\"1.0\" encoding=\"UTF-8\"?>"))
        #expect(text.contains("<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\""))
      }
    }
  }

  @Test("Ids written as negative numbers are the same ids")
  func signedIDs() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    #expect(try client.result("Connect", ["DeviceID": -1, "PortNumber": 42015]) == 2)
    #expect(try client.result("Connect", ["DeviceID": 1 << 40, "PortNumber": 42015]) == 1)
  }

  @Test("An unknown version: Result 6, and the connection is kept")
  func versions() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    let body = Array(MuxClient.request("Listen").dropFirst(16))
    for version in [2, 7, UInt32.max] {
      try client.send(MuxClient.frame(version: version, message: 8, tag: 4, body))
      let answer = try client.message()
      #expect(answer.number == 6 && answer.tag == 4)
      try client.send(MuxClient.frame(version: version, message: 3, tag: 6, []))
      #expect(try client.message().body == [6, 0, 0, 0])
    }
    #expect(try client.devices().isEmpty)
  }

  @Test("Random bytes end a connection at worst")
  func chaos() throws {
    let seed = UInt64.random(in: 0...UInt64.max)
    var generator = SeededGenerator(seed: seed)
    let harness = try ServerHarness(devices: [.usb(1)])
    for round in 0..<150 {
      let client = try harness.client()
      var bytes = MuxClient.request(
        ["Listen", "ListDevices", "Connect", "SavePairRecord"].randomElement(using: &generator) ?? "")
      for _ in 0..<Int.random(in: 1...8, using: &generator) {
        bytes[Int.random(in: 0..<bytes.count, using: &generator)] = UInt8.random(
          in: 0...255, using: &generator)
      }
      try? client.send(bytes)
      client.endSending()
      #expect(throws: Never.self, "seed \(seed), round \(round)") { _ = try client.receiveAll() }
    }
    #expect(try harness.client().devices().count == 1, "seed \(seed)")
  }
}

/// SplitMix64.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) { state = seed }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }
}
