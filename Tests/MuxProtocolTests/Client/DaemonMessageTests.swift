import MuxProtocol
import Testing

@Suite struct DaemonMessageTests {
  static let usb = DeviceRecord(
    id: DeviceID(rawValue: 3), serialNumber: "00008110000000C0FFEE0001",
    connection: .usb(DeviceRecord.USB(speed: 5_000_000_000, locationID: 0x0002_0005, productID: 0x12A8)))
  static let network = DeviceRecord(
    id: DeviceID(rawValue: 4), serialNumber: "00008110-000000C0FFEE0001",
    connection: .network(
      DeviceRecord.Network(
        address: NetworkAddress(host: .ipv6(high: 0xFE80 << 48, low: 0x1234, scope: 5), port: 0),
        interfaceIndex: 5, serviceName: "aa:bb@fe80::1._apple-mobdev2._tcp.local.")))

  static let all: [DaemonMessage] = [
    .result(.ok), .result(.badCommand), .result(.other(0xFFFF_FFFF)),
    .attached(usb), .attached(network),
    .detached(DeviceID(rawValue: 3)), .paired(DeviceID(rawValue: .max)),
    .deviceList([]), .deviceList([network, usb]),
    .listenerList([]),
    .listenerList([
      ListenerRecord(
        isBlacklisted: true, bundleID: "org.example", connectionType: 1, identifier: "12-tunneld",
        programName: "tunneld", libraryVersion: 3)
    ]),
    .buid("30142955-444094379208051516"),
    .pairRecord([0, 1, 2, 255]), .pairRecord([]),
  ]

  @Test func writesAResult() throws {
    let body = document(
      """
      <dict>
      \t<key>MessageType</key>
      \t<string>Result</string>
      \t<key>Number</key>
      \t<integer>3</integer>
      </dict>
      """)
    GoldenBytes(
      ("length", le32(UInt32(16 + body.count))), ("version", le32(1)), ("message", le32(8)),
      ("tag", le32(2)), ("body", body)
    ).expect(EncodedFrame(try DaemonMessage.result(.connectionRefused).frame(tag: 2)).bytes)
  }

  @Test func writesAnAttachedDevice() throws {
    let body = document(
      """
      <dict>
      \t<key>DeviceID</key>
      \t<integer>3</integer>
      \t<key>MessageType</key>
      \t<string>Attached</string>
      \t<key>Properties</key>
      \t<dict>
      \t\t<key>ConnectionSpeed</key>
      \t\t<integer>5000000000</integer>
      \t\t<key>ConnectionType</key>
      \t\t<string>USB</string>
      \t\t<key>DeviceID</key>
      \t\t<integer>3</integer>
      \t\t<key>LocationID</key>
      \t\t<integer>131077</integer>
      \t\t<key>ProductID</key>
      \t\t<integer>4776</integer>
      \t\t<key>SerialNumber</key>
      \t\t<string>00008110-000000C0FFEE0001</string>
      \t</dict>
      </dict>
      """)
    #expect(try DaemonMessage.attached(Self.usb).frame(tag: 0).body == body)
  }

  @Test func writesABinaryAttachedDevice() throws {
    let serial = Array("00008110-000000C0FFEE0001".utf8)
    GoldenBytes(
      ("length", le32(16 + 268)), ("version", le32(0)), ("message", le32(4)), ("tag", le32(0)),
      ("device", le32(3)), ("product", [0xA8, 0x12]),
      ("serial", serial), ("padding", [UInt8](repeating: 0, count: 256 - serial.count)),
      ("zero", [0, 0]), ("location", [5, 0, 2, 0])
    ).expect(EncodedFrame(try DaemonMessage.attached(Self.usb).frame(tag: 0, dialect: .binary)).bytes)
  }

  @Test func writesBinaryResultsAndEvents() throws {
    func expect(_ message: DaemonMessage, number: UInt32, value: UInt32) throws {
      GoldenBytes(
        ("length", le32(20)), ("version", le32(0)), ("message", le32(number)), ("tag", le32(6)),
        ("value", le32(value))
      ).expect(EncodedFrame(try message.frame(tag: 6, dialect: .binary)).bytes)
    }
    try expect(.result(.badVersion), number: 1, value: 6)
    try expect(.detached(DeviceID(rawValue: 258)), number: 5, value: 258)
    try expect(.paired(DeviceID(rawValue: 1)), number: 6, value: 1)
  }

  @Test(arguments: all)
  func readsWhatItWrites(message: DaemonMessage) throws {
    let frame = try message.frame(tag: 11)
    #expect(decodeEveryWay(EncodedFrame(frame).bytes).frames == [frame])
    #expect(normalized(try DaemonMessage.decode(frame)) == normalized(message))
    // Daemons have been seen to announce version 0 for a property list.
    var misannounced = frame
    misannounced.version = 0
    #expect(normalized(try DaemonMessage.decode(misannounced)) == normalized(message))
  }

  @Test(arguments: all)
  func readsWhatItWritesInBinary(message: DaemonMessage) throws {
    switch message {
    case .result, .detached, .paired:
      #expect(try DaemonMessage.decode(message.frame(tag: 0, dialect: .binary)) == message)
    case .attached(let device) where device.isUSB:
      let decoded = try DaemonMessage.decode(message.frame(tag: 0, dialect: .binary))
      guard case .attached(let read) = decoded, case .usb(let usb) = read.connection else {
        Issue.record("\(decoded)")
        return
      }
      #expect(read.id == device.id)
      #expect(read.udid == device.udid)
      // Version 0 does not carry the speed.
      #expect(usb == DeviceRecord.USB(speed: 480_000_000, locationID: 0x0002_0005, productID: 0x12A8))
    case .attached, .deviceList, .listenerList, .buid, .pairRecord:
      #expect(throws: EncodingError.notInDialect) { try message.frame(tag: 0, dialect: .binary) }
    }
  }

  @Test func readsADeviceWithTheLeastKeys() throws {
    let message = try DaemonMessage.decode(
      propertyListFrame(
        """
        <dict><key>MessageType</key><string>Attached</string><key>Properties</key><dict>
        <key>DeviceID</key><integer>9</integer><key>SerialNumber</key><string>abc</string></dict></dict>
        """))
    let expected = DeviceRecord(
      id: DeviceID(rawValue: 9), serialNumber: "abc", connection: .usb(DeviceRecord.USB()))
    #expect(message == .attached(expected))
  }

  @Test func leavesOutDevicesThatItCannotUnderstand() throws {
    let good =
      "<dict><key>DeviceID</key><integer>1</integer><key>Properties</key><dict><key>SerialNumber</key>"
      + "<string>x</string></dict></dict>"
    let odd = [
      "<string>no dictionary</string>", "<dict/>",
      "<dict><key>DeviceID</key><integer>2</integer></dict>",
      "<dict><key>DeviceID</key><integer>2</integer><key>Properties</key><dict/></dict>",
      "<dict><key>DeviceID</key><integer>99999999999</integer><key>Properties</key><dict><key>SerialNumber</key>"
        + "<string>x</string></dict></dict>",
      "<dict><key>DeviceID</key><integer>2</integer><key>Properties</key><dict><key>SerialNumber</key>"
        + "<string>x</string><key>ConnectionType</key><string>Carrier pigeon</string></dict></dict>",
    ]
    let list = odd.joined() + good + odd.joined()
    let message = try DaemonMessage.decode(
      propertyListFrame("<dict><key>DeviceList</key><array>\(list)</array></dict>"))
    guard case .deviceList(let devices) = message else {
      Issue.record("\(message)")
      return
    }
    #expect(devices.map(\.id) == [DeviceID(rawValue: 1)])
  }

  @Test func acceptsANetworkDeviceWithAnyAddress() throws {
    for length in 0...300 {
      let data = PropertyList.data([UInt8](repeating: 30, count: length))
      let properties: PropertyList.Dictionary = [
        "ConnectionType": "Network", "NetworkAddress": data, "SerialNumber": "x",
      ]
      let body = try PropertyList.dictionary([
        "MessageType": "Attached", "DeviceID": .integer(1), "Properties": .dictionary(properties),
      ]).xml()
      let message = try DaemonMessage.decode(Frame(version: 1, message: 8, tag: 0, body: body))
      guard case .attached(let device) = message, case .network(let network) = device.connection else {
        Issue.record("\(message)")
        return
      }
      #expect((network.address != nil) == (24...256).contains(length), "length \(length)")
    }
  }

  @Test(arguments: [
    ("<dict/>", MessageError.missing(key: "MessageType")),
    ("<array/>", .missing(key: "MessageType")),
    ("<dict><key>MessageType</key><string>Result</string></dict>", .missing(key: "Number")),
    (
      "<dict><key>MessageType</key><string>Result</string><key>Number</key><string>0</string></dict>",
      .missing(key: "Number")
    ),
    ("<dict><key>MessageType</key><string>Attached</string></dict>", .missing(key: "Properties")),
    ("<dict><key>MessageType</key><string>Detached</string></dict>", .missing(key: "DeviceID")),
    ("<dict><key>MessageType</key><string>Paired</string></dict>", .missing(key: "DeviceID")),
    ("<dict><key>MessageType</key><string>Weather</string></dict>", .unknownType("Weather")),
    ("<dict><key>DeviceList</key><string>none</string></dict>", .missing(key: "MessageType")),
    ("nonsense", .propertyList(.refused)),
  ])
  func saysWhatIsWrong(inner: String, error: MessageError) {
    #expect(throws: error) { try DaemonMessage.decode(propertyListFrame(inner)) }
    #expect(!error.description.contains("\n"))
  }

  @Test func wantsWholeBinaryMessages() {
    for (message, size): (UInt32, Int) in [(1, 4), (4, 268), (5, 4), (6, 4)] {
      let body = [UInt8](repeating: 0x41, count: size)
      for short in 0..<size {
        #expect(throws: MessageError.bodySize(short)) {
          try DaemonMessage.decode(
            Frame(version: 0, message: message, tag: 0, body: Array(body.prefix(short))))
        }
      }
      #expect(throws: Never.self) {
        _ = try DaemonMessage.decode(Frame(version: 0, message: message, tag: 0, body: body))
        _ = try DaemonMessage.decode(Frame(version: 0, message: message, tag: 0, body: body + [0]))
      }
    }
    for message: UInt32 in [0, 2, 3, 7, 9, .max] {
      #expect(throws: MessageError.unknownMessage(message)) {
        try DaemonMessage.decode(Frame(version: 0, message: message, tag: 0, body: []))
      }
    }
  }

  @Test func neverWritesWhatIsNoText() throws {
    let device = DeviceRecord(
      id: DeviceID(rawValue: 1), serialNumber: "a\u{1}b\u{0}c",
      connection: .network(DeviceRecord.Network(address: nil, serviceName: "\u{1}<&>\u{0}\u{7F}ü")))
    let frame = try DaemonMessage.attached(device).frame(tag: 0)
    let text = try #require(String(validating: frame.body, as: UTF8.self))
    #expect(text.contains("<string>ab</string>"))
    #expect(!text.unicodeScalars.contains { $0.value < 0x20 && $0 != "\n" && $0 != "\t" })
    guard case .attached(let read) = try DaemonMessage.decode(frame),
      case .network(let network) = read.connection
    else {
      Issue.record("no network device")
      return
    }
    #expect(network.serviceName == "\u{FFFD}<&>\u{FFFD}\u{7F}ü")
  }

  @Test func resultsHaveWordsAndKeepTheirNumbers() {
    for number: UInt32 in [0, 1, 2, 3, 4, 5, 6, 7, 22, .max] {
      let code = ResultCode(rawValue: number)
      #expect(code.rawValue == number)
      #expect(code.description.contains("\(number)"))
    }
    #expect(ResultCode(rawValue: 3) == .connectionRefused)
    #expect(ResultCode(rawValue: 5) == .other(5))
  }

  /// A device is written with its canonical name, whatever it was read with.
  private func normalized(_ message: DaemonMessage) -> DaemonMessage {
    func canonical(_ device: DeviceRecord) -> DeviceRecord {
      DeviceRecord(id: device.id, serialNumber: device.udid.description, connection: device.connection)
    }
    switch message {
    case .attached(let device): return .attached(canonical(device))
    case .deviceList(let devices): return .deviceList(devices.map(canonical))
    case .result, .detached, .paired, .listenerList, .buid, .pairRecord: return message
    }
  }
}
