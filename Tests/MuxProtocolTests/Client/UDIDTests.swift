import MuxProtocol
import Testing

@Suite struct UDIDTests {
  static let new = "00008110-000000C0FFEE0001"
  static let old = "0123456789abcdef0123456789abcdef01234567"

  @Test(arguments: [
    (new, new), ("00008110000000C0FFEE0001", new), ("00008110-000000c0ffee0001", new),
    ("00008110000000c0ffee0001", new), (old, old), (old.uppercased(), old),
  ])
  func readsEverySpelling(text: String, canonical: String) throws {
    #expect(try UDID(parsing: text).description == canonical)
    #expect(UDID(serialNumber: text).description == canonical)
    #expect(try UDID(parsing: text) == UDID(serialNumber: text + "\0\0"))
  }

  @Test(arguments: [
    ("", UDIDFormatError.empty),
    ("0000811", .incomplete(text: "0000811", digits: 7)),
    ("00008110-000000C0FFEE000", .incomplete(text: "00008110-000000C0FFEE000", digits: 23)),
    (String(old.dropLast()), .incomplete(text: String(old.dropLast()), digits: 39)),
    (old + "0", .tooLong(digits: 41)),
    ("0000811-0000000C0FFEE0001", .unexpectedCharacter(text: "0000811-0000000C0FFEE0001")),
    ("00008110--000000C0FFEE0001", .unexpectedCharacter(text: "00008110--000000C0FFEE0001")),
    ("00008110-00000-C0FFEE0001", .unexpectedCharacter(text: "00008110-00000-C0FFEE0001")),
    ("00008110_000000C0FFEE0001", .unexpectedCharacter(text: "00008110_000000C0FFEE0001")),
    ("00008110-000000C0FFEE000G", .unexpectedCharacter(text: "00008110-000000C0FFEE000G")),
    ("00008110-000000C0FFEE0001 ", .unexpectedCharacter(text: "00008110-000000C0FFEE0001 ")),
    (
      "01234567-89abcdef0123456789abcdef01234567",
      .unexpectedCharacter(text: "01234567-89abcdef0123456789abcdef01234567")
    ),
    ("٠٠٠٠٨١١٠", .unexpectedCharacter(text: "٠٠٠٠٨١١٠")),
  ])
  func refusesOtherText(text: String, error: UDIDFormatError) {
    #expect(throws: error) { try UDID(parsing: text) }
    #expect(!error.description.contains("\n"))
  }

  @Test func errorsRepeatABoundedText() {
    let text = String(repeating: "z", count: 10_000) + "\n"
    do {
      _ = try UDID(parsing: text)
      Issue.record("accepted")
    } catch {
      #expect(error.description.count < 200)
    }
  }

  @Test func keepsNamesOfOtherShapes() {
    #expect(UDID(serialNumber: "iBridge 7").description == "iBridge 7")
    #expect(UDID(serialNumber: "").description == "")
    #expect(UDID(serialNumber: "\0abc").description == "")
    #expect(UDID(serialNumber: "a\u{1B}[31m\nb\u{85}\u{7F}").description == "a[31mb")
  }

  @Test func tellsPhonesInRestoreModeApart() {
    let f24 = String(repeating: "F", count: 24)
    #expect(UDID(serialNumber: f24, location: 0x0002_0005).description == "FFFFFFFF-FFFFFFFF00020005")
    #expect(UDID(serialNumber: f24.lowercased(), location: .max).description == "FFFFFFFF-FFFFFFFFFFFFFFFF")
    let f40 = String(repeating: "f", count: 40)
    #expect(
      UDID(serialNumber: f40, location: 0x0002_0005).description == String(repeating: "f", count: 32)
        + "00020005")
    #expect(UDID(serialNumber: Self.new, location: 7).description == Self.new)
  }

  @Test(arguments: [
    "0", "0000811", "00008110", "00008110-", "00008110-0", "000081100", "00008110-000000C0FFEE0001",
    "00008110000000c0ffee0001",
  ])
  func findsByPrefix(text: String) throws {
    let phone = UDID(serialNumber: Self.new)
    let other = UDID(serialNumber: "11118110-000000C0FFEE0001")
    let prefix = try UDIDPrefix(parsing: text)
    #expect(prefix.matches(phone))
    #expect(!prefix.matches(other))
    // Listed twice, over USB and over the network, it is one phone.
    #expect(prefix.find(among: [other, phone, phone]) == .one(phone))
    #expect(prefix.find(among: [other]) == .none)
    #expect(prefix.find(among: []) == .none)
    #expect(prefix.description == text)
  }

  @Test func namesTheCandidatesOfAnAmbiguousPrefix() throws {
    let first = UDID(serialNumber: Self.new)
    let second = UDID(serialNumber: "00008110-000000C0FFEE0002")
    let third = UDID(serialNumber: Self.old)
    let prefix = try UDIDPrefix(parsing: "00008110")
    #expect(prefix.find(among: [second, third, first, second]) == .several([second, first]))
    #expect(UDIDPrefix(first).find(among: [second, first]) == .one(first))
  }

  /// 24 digits can be the beginning of 40; then the phone that is exactly meant wins.
  @Test func exactBeatsPrefix() throws {
    let short = UDID(serialNumber: "0123456789abcdef01234567")
    let long = UDID(serialNumber: Self.old)
    #expect(try UDIDPrefix(parsing: short.description).find(among: [long, short]) == .one(short))
  }

  @Test func namesOfOtherShapesCanBeFoundWhole() {
    let odd = UDID(serialNumber: "iBridge 7")
    #expect(UDIDPrefix(odd).find(among: [UDID(serialNumber: Self.new), odd]) == .one(odd))
  }

  @Test(arguments: ["-", "x", "0000-8110", "00008110--", " "])
  func refusesOtherPrefixes(text: String) {
    #expect(throws: UDIDFormatError.self) { try UDIDPrefix(parsing: text) }
  }

  @Test func recordIDsNameFilesOfOneDirectory() throws {
    for good in [Self.new, Self.old, "a", String(repeating: "A", count: 64)] {
      #expect(try RecordID(good).description == good)
    }
    for bad in [
      "..", ".", "a/b", "../x", "a.plist", "a b", "ä", "a\0", "a\n", "SystemConfiguration",
      "systemconfiguration", "", String(repeating: "A", count: 65),
    ] {
      #expect(throws: RecordIDError.self) { try RecordID(bad) }
    }
    #expect(RecordID(UDID(serialNumber: Self.new))?.description == Self.new)
    #expect(RecordID(UDID(serialNumber: "../x")) == nil)
  }

  @Test func portsAreNeverZero() {
    #expect(DevicePort(0) == nil)
    #expect(DevicePort(networkOrder: 0) == nil)
    #expect(DevicePort(1)?.number == 1)
    #expect(DevicePort.lockdown.number == 62078)
    #expect(DevicePort.lockdown.networkOrder == 32498)
    for number in UInt16(1)...UInt16.max {
      if DevicePort(number).flatMap({ DevicePort(networkOrder: $0.networkOrder) })?.number != number {
        Issue.record("\(number)")
      }
    }
  }
}
