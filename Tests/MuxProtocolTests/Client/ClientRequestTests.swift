import MuxProtocol
import Testing

@Suite struct ClientRequestTests {
  static let record = known(RecordID(UDID(serialNumber: "00008110-000000C0FFEE0001")))
  static let port = known(DevicePort(8765))

  static let all: [ClientRequest] = [
    .listen, .listDevices, .listListeners, .readBUID,
    .connect(DeviceID(rawValue: 3), port),
    .connect(DeviceID(rawValue: .max), .lockdown),
    .readPairRecord(record), .deletePairRecord(record),
    .savePairRecord(record, data: [0, 1, 2, 0xFF], device: DeviceID(rawValue: 5)),
    .savePairRecord(record, data: [], device: nil),
  ]

  @Test func writesAConnectRequest() throws {
    let info = ClientInfo(
      programName: "tunneld", bundleID: "org.example", clientVersion: "1.0", libraryVersion: 3, processID: 42)
    let frame = try ClientRequest.connect(DeviceID(rawValue: 3), DevicePort(22)!).frame(tag: 9, info: info)
    let body = document(
      """
      <dict>
      \t<key>MessageType</key>
      \t<string>Connect</string>
      \t<key>BundleID</key>
      \t<string>org.example</string>
      \t<key>ClientVersionString</key>
      \t<string>1.0</string>
      \t<key>ProcessID</key>
      \t<integer>42</integer>
      \t<key>ProgName</key>
      \t<string>tunneld</string>
      \t<key>kLibUSBMuxVersion</key>
      \t<integer>3</integer>
      \t<key>DeviceID</key>
      \t<integer>3</integer>
      \t<key>PortNumber</key>
      \t<integer>5632</integer>
      </dict>
      """)
    GoldenBytes(
      ("length", le32(UInt32(16 + body.count))), ("version", le32(1)), ("message", le32(8)),
      ("tag", le32(9)), ("body", body)
    ).expect(EncodedFrame(frame).bytes)
  }

  @Test func writesABinaryConnectRequest() throws {
    let frame = try ClientRequest.connect(DeviceID(rawValue: 0x0102_0304), DevicePort(62078)!)
      .frame(tag: 7, dialect: .binary)
    GoldenBytes(
      ("length", le32(24)), ("version", le32(0)), ("message", le32(2)), ("tag", le32(7)),
      ("device", [4, 3, 2, 1]), ("port in network order", [0xF2, 0x7E]), ("zero", [0, 0])
    ).expect(EncodedFrame(frame).bytes)
  }

  @Test func writesABinaryListenRequest() throws {
    GoldenBytes(
      ("length", le32(16)), ("version", le32(0)), ("message", le32(3)), ("tag", le32(1))
    ).expect(EncodedFrame(try ClientRequest.listen.frame(tag: 1, dialect: .binary)).bytes)
  }

  @Test(arguments: all)
  func readsWhatItWrites(request: ClientRequest) throws {
    let info = ClientInfo(programName: "a <b> & c", bundleID: nil, clientVersion: "ü", processID: -1)
    let frame = try request.frame(tag: 77, info: info)
    #expect(frame.version == 1)
    let stream = decodeEveryWay(EncodedFrame(frame).bytes)
    #expect(stream.frames == [frame])
    let received = try ClientRequest.decode(frame)
    #expect(received == ReceivedRequest(request: request, info: info, dialect: .propertyList, tag: 77))
  }

  @Test(arguments: all)
  func binaryKnowsListenAndConnectOnly(request: ClientRequest) throws {
    switch request {
    case .listen, .connect:
      let received = try ClientRequest.decode(request.frame(tag: 5, dialect: .binary))
      #expect(received.request == request)
      #expect(received.dialect == .binary)
      #expect(received.tag == 5)
    case .listDevices, .listListeners, .readBUID, .readPairRecord, .savePairRecord, .deletePairRecord:
      #expect(throws: EncodingError.notInDialect) { try request.frame(tag: 5, dialect: .binary) }
    }
  }

  /// 0x0101 reads the same either way and proves nothing; it is here to be complete.
  @Test(
    arguments: [(22, 5632), (8100, 42015), (62078, 32498), (8765, 15650), (0x0101, 0x0101)]
      as [(UInt16, UInt16)])
  func sendsPortsInNetworkOrder(port: UInt16, sent: UInt16) throws {
    let port = try #require(DevicePort(port))
    #expect(port.networkOrder == sent)
    #expect(DevicePort(networkOrder: sent) == port)
    let frame = try ClientRequest.connect(DeviceID(rawValue: 1), port).frame(tag: 0)
    let dictionary = try #require(PropertyList(parsing: frame.body).dictionary)
    #expect(dictionary["PortNumber"] == .integer(Int64(sent)))
  }

  @Test func acceptsPropertyListsWithVersionZero() throws {
    let frame = propertyListFrame("<dict><key>MessageType</key><string>Listen</string></dict>", version: 0)
    let received = try ClientRequest.decode(frame)
    #expect(received.request == .listen)
    #expect(received.dialect == .propertyList)
    #expect(received.dialect.version == 1)
  }

  @Test func acceptsABinaryPropertyListAsTheBody() throws {
    let body = try PropertyList.dictionary(["MessageType": "ListDevices", "kLibUSBMuxVersion": .integer(3)])
      .binary()
    let received = try ClientRequest.decode(Frame(version: 1, message: 8, tag: 1, body: body))
    #expect(received.request == .listDevices)
    #expect(received.info.libraryVersion == 3)
  }

  @Test func ignoresUnknownKeysAndOddTypes() throws {
    let received = try ClientRequest.decode(
      propertyListFrame(
        """
        <dict><key>Zebra</key><array><dict/></array><key>ProgName</key><integer>3</integer>
        <key>kLibUSBMuxVersion</key><string>three</string><key>DeviceID</key><integer>4</integer>
        <key>PortNumber</key><integer>5632</integer><key>Since</key><date>2011-01-01T00:00:00Z</date>
        <key>MessageType</key><string>Connect</string></dict>
        """))
    #expect(received.request == .connect(DeviceID(rawValue: 4), DevicePort(22)!))
    #expect(received.info == ClientInfo(libraryVersion: nil))
  }

  @Test(arguments: [
    ("-1", "-1", DeviceID(rawValue: .max), 65535 as UInt16),
    ("-2147483648", "-32768", DeviceID(rawValue: 0x8000_0000), 0x0080),
    ("4294967295", "65535", DeviceID(rawValue: .max), 65535),
  ])
  func acceptsSignedNumbers(device: String, port: String, expected: DeviceID, expectedPort: UInt16) throws {
    let received = try ClientRequest.decode(connect(device: device, port: port))
    #expect(received.request == .connect(expected, DevicePort(expectedPort)!))
  }

  @Test(arguments: [
    ("4294967296", "1", RequestError.Reason.outOfRange(key: "DeviceID"), ResultCode.badCommand),
    ("-2147483649", "1", .outOfRange(key: "DeviceID"), .badCommand),
    ("1", "65536", .outOfRange(key: "PortNumber"), .badCommand),
    ("1", "-32769", .outOfRange(key: "PortNumber"), .badCommand),
    ("1", "0", .portZero, .connectionRefused),
  ])
  func refusesNumbersThatDoNotFit(
    device: String, port: String, reason: RequestError.Reason, result: ResultCode
  ) {
    expectError(reason, result, in: connect(device: device, port: port))
  }

  @Test(arguments: [
    ("<dict/>", RequestError.Reason.missing(key: "MessageType")),
    ("<array/>", .missing(key: "MessageType")),
    ("<string>Listen</string>", .missing(key: "MessageType")),
    ("<dict><key>MessageType</key><integer>1</integer></dict>", .missing(key: "MessageType")),
    ("<dict><key>MessageType</key><string>listen</string></dict>", .unknownType("listen")),
    ("<dict><key>MessageType</key><string>Connect</string></dict>", .missing(key: "DeviceID")),
    (
      "<dict><key>MessageType</key><string>Connect</string><key>DeviceID</key><string>1</string></dict>",
      .missing(key: "DeviceID")
    ),
    (
      "<dict><key>MessageType</key><string>Connect</string><key>DeviceID</key><integer>1</integer></dict>",
      .missing(key: "PortNumber")
    ),
    ("<dict><key>MessageType</key><string>ReadPairRecord</string></dict>", .missing(key: "PairRecordID")),
    (
      "<dict><key>MessageType</key><string>SavePairRecord</string><key>PairRecordID</key><string>A</string></dict>",
      .missing(key: "PairRecordData")
    ),
    (
      "<dict><key>MessageType</key><string>DeletePairRecord</string><key>PairRecordID</key>"
        + "<string>../../etc/passwd</string></dict>",
      .recordID(.unexpectedCharacter)
    ),
    ("garbage", .propertyList(.refused)),
  ])
  func saysWhatIsWrongAndWhatItDeserves(inner: String, reason: RequestError.Reason) {
    expectError(reason, .badCommand, in: propertyListFrame(inner))
  }

  @Test func answersInTheDialectOfTheRequest() throws {
    for dialect in [Dialect.binary, .propertyList] {
      let received = try ClientRequest.decode(ClientRequest.listen.frame(tag: 8, dialect: dialect))
      let reply = try received.reply(.result(.ok))
      #expect(reply.dialect == dialect)
      #expect(reply.version == dialect.version)
      #expect(reply.tag == 8)
      #expect(try DaemonMessage.decode(reply) == .result(.ok))
    }
    for frame in [
      Frame(version: 9, message: 3, tag: 8, body: []), Frame(version: 9, message: 8, tag: 8, body: []),
    ] {
      do {
        _ = try ClientRequest.decode(frame)
        Issue.record("accepted version 9")
      } catch {
        let reply = try error.reply()
        #expect(reply.dialect == frame.dialect)
        #expect(reply.tag == 8)
        #expect(try DaemonMessage.decode(reply) == .result(.badVersion))
      }
    }
  }

  @Test func refusesAnEmptyBody() {
    expectError(
      .propertyList(.empty), .badCommand, in: Frame(version: 1, message: 8, tag: 7, body: []))
  }

  @Test(arguments: [2, 3, 0xFFFF_FFFF] as [UInt32])
  func refusesOtherVersions(version: UInt32) {
    for message: UInt32 in [2, 3, 8] {
      let frame = Frame(version: version, message: message, tag: 7, body: [])
      expectError(.unsupportedVersion(version), .badVersion, in: frame)
    }
  }

  @Test(arguments: [0, 1, 4, 7, 9, 0xFFFF_FFFF] as [UInt32])
  func refusesBinaryMessagesThatAreNoRequests(message: UInt32) {
    expectError(
      .unknownMessage(message), .badCommand, in: Frame(version: 0, message: message, tag: 7, body: []))
  }

  @Test func wantsAWholeBinaryConnect() throws {
    for size in 0..<6 {
      let frame = Frame(version: 0, message: 2, tag: 7, body: [UInt8](repeating: 1, count: size))
      expectError(.bodySize(size), .badCommand, in: frame)
    }
    // The two zero bytes at the end say nothing, and what follows them neither.
    for size in 6...20 {
      let frame = Frame(
        version: 0, message: 2, tag: 7, body: [1, 0, 0, 0, 0, 22] + [UInt8](repeating: 0, count: size - 6))
      #expect(try ClientRequest.decode(frame).request == .connect(DeviceID(rawValue: 1), DevicePort(22)!))
    }
    expectError(
      .portZero, .connectionRefused,
      in: Frame(version: 0, message: 2, tag: 7, body: [1, 0, 0, 0, 0, 0, 0, 0]))
  }

  private func connect(device: String, port: String) -> Frame {
    propertyListFrame(
      "<dict><key>MessageType</key><string>Connect</string><key>DeviceID</key><integer>\(device)</integer>"
        + "<key>PortNumber</key><integer>\(port)</integer></dict>")
  }

  private func expectError(
    _ reason: RequestError.Reason, _ result: ResultCode, in frame: Frame,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    do {
      let received = try ClientRequest.decode(frame)
      Issue.record("\(received) instead of an error", sourceLocation: sourceLocation)
    } catch {
      #expect(error.reason == reason, sourceLocation: sourceLocation)
      #expect(error.result == result, sourceLocation: sourceLocation)
      #expect(error.tag == 7, sourceLocation: sourceLocation)
      #expect(error.dialect == frame.dialect, sourceLocation: sourceLocation)
      #expect(!error.description.isEmpty && !error.description.contains("\n"), sourceLocation: sourceLocation)
    }
  }
}
