import Foundation
import MuxProtocol
import Testing

@Suite struct PropertyListTests {
  static let sample: PropertyList = .dictionary([
    "string": "a <b> & \"c\" ü 😀", "empty": "", "a&b<c>": "key with entities",
    "integer": .integer(5_000_000_000), "negative": .integer(-5), "min": .integer(.min),
    "max": .integer(.max),
    "true": .boolean(true), "false": .boolean(false), "real": .real(1.5),
    "data": .data(Array(0...255)), "nothing": .data([]),
    "array": .array([.integer(1), "two", .array([]), .dictionary([:])]),
    "dictionary": .dictionary(["b": .integer(1), "a": .integer(2)]),
  ])

  @Test func readsWhatItWrites() throws {
    #expect(try PropertyList(parsing: Self.sample.xml()) == Self.sample)
    #expect(try PropertyList(parsing: Self.sample.binary()) == Self.sample)
  }

  /// Foundation is the other side: what it reads is what Apple's programs read.
  @Test func foundationReadsWhatItWrites() throws {
    for bytes in [try Self.sample.xml(), try Self.sample.binary()] {
      let value = try PropertyListSerialization.propertyList(from: Data(bytes), format: nil)
      let dictionary = try #require(value as? [String: Any])
      #expect(dictionary.count == Self.sample.dictionary?.count)
      #expect(dictionary["string"] as? String == "a <b> & \"c\" ü 😀")
      #expect(dictionary["a&b<c>"] as? String == "key with entities")
      #expect(dictionary["negative"] as? Int == -5)
      #expect(dictionary["integer"] as? Int == 5_000_000_000)
      #expect(dictionary["data"] as? Data == Data(0...255))
      #expect(dictionary["true"] as? Bool == true)
    }
  }

  @Test func readsWhatFoundationWrites() throws {
    let value: [String: Any] = [
      "MessageType": "Connect", "DeviceID": 3, "name": "ü & <x>", "data": Data([1, 2, 3]),
      "list": [1, "two"],
      "when": Date(timeIntervalSince1970: 0), "yes": true, "ratio": 0.25,
    ]
    for format in [PropertyListSerialization.PropertyListFormat.xml, .binary] {
      let bytes = try PropertyListSerialization.data(fromPropertyList: value, format: format, options: 0)
      let dictionary = try #require(PropertyList(parsing: Array(bytes)).dictionary)
      #expect(dictionary.count == 8)
      #expect(dictionary["MessageType"] == "Connect")
      #expect(dictionary["DeviceID"] == .integer(3))
      #expect(dictionary["name"] == "ü & <x>")
      #expect(dictionary["data"] == .data([1, 2, 3]))
      #expect(dictionary["list"] == .array([.integer(1), "two"]))
      #expect(dictionary["when"] == .opaque)
      #expect(dictionary["yes"] == .boolean(true))
      #expect(dictionary["ratio"] == .real(0.25))
    }
  }

  /// Every spelling of the same list that programs have been seen to send.
  @Test(arguments: [
    "<plist><dict><key>a</key><integer>1</integer></dict></plist>",
    "<plist version=\"1.0\"><dict><key>a</key><integer>1</integer></dict></plist>\n",
    "\u{FEFF}<?xml version=\"1.0\" encoding=\"UTF-8\"?>\r\n<plist>\r\n<dict>\r\n\t<key>a</key>\r\n"
      + "\t<integer>1</integer>\r\n</dict>\r\n</plist>\r\n",
    "<dict><key>a</key><integer>1</integer></dict>",
    " \n\t<plist> <dict> <key>a</key> <integer> 1 </integer> </dict> </plist> \n\n ",
    "<?xml version=\"1.0\"?><!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" "
      + "\"http://www.apple.com/DTDs/PropertyList-1.0.dtd\"><plist><dict><key>a</key><integer>1</integer></dict></plist>",
    "<!-- a <comment> & --><plist><dict><!-- <key>b</key> --><key>a</key><integer>0x1</integer></dict></plist>",
    "<plist><dict><key>&#97;</key><integer>1</integer></dict></plist>",
    "<plist><dict><key><![CDATA[a]]></key><integer>1</integer></dict></plist>",
  ])
  func readsEverySpelling(text: String) throws {
    #expect(try PropertyList(parsing: Array(text.utf8)) == .dictionary(["a": .integer(1)]))
  }

  @Test(arguments: [
    ("<integer>-5</integer>", PropertyList.integer(-5)),
    ("<integer>9223372036854775807</integer>", .integer(.max)),
    ("<integer>-9223372036854775808</integer>", .integer(.min)),
    ("<true/>", .boolean(true)), ("<false/>", .boolean(false)), ("<string/>", ""), ("<string></string>", ""),
    ("<data>\n\tAQ I=\r\n</data>", .data([1, 2])), ("<data/>", .data([])), ("<array/>", .array([])),
    ("<string><![CDATA[<a>]]>&lt;&#65;&#x263a;</string>", "<a><A☺"),
    ("<date>2011-01-01T00:00:00Z</date>", .opaque),
    ("<real>-0.5</real>", .real(-0.5)),
  ])
  func readsValues(text: String, value: PropertyList) throws {
    #expect(try PropertyList(parsing: Array("<plist>\(text)</plist>".utf8)) == value)
  }

  @Test func aRepeatedKeyCountsOnce() throws {
    let text = "<dict><key>a</key><integer>1</integer><key>a</key><integer>2</integer></dict>"
    #expect(try PropertyList(parsing: Array(text.utf8)) == .dictionary(["a": .integer(2)]))
  }

  @Test func invalidTextBecomesReplacementCharacters() throws {
    let bytes = Array("<plist><string>a".utf8) + [0xFF, 0xC0, 0x80] + Array("b</string></plist>".utf8)
    let text = try #require(PropertyList(parsing: bytes).string)
    #expect(text.hasPrefix("a\u{FFFD}") && text.hasSuffix("b"))
  }

  @Test func cannotWriteWhatItDoesNotKnow() {
    for value: PropertyList in [
      .opaque, .array([.integer(1), .opaque]), .dictionary(["a": .array([.dictionary(["b": .opaque])])]),
    ] {
      #expect(throws: PropertyListError.notWritable) { try value.xml() }
      #expect(throws: PropertyListError.notWritable) { try value.binary() }
    }
  }

  @Test func dictionariesKeepTheirOrder() {
    var dictionary: PropertyList.Dictionary = ["z": .integer(1), "a": .integer(2), "z": .integer(3)]
    #expect(dictionary.entries.map(\.key) == ["z", "a"])
    #expect(dictionary["z"] == .integer(3))
    dictionary["z"] = nil
    dictionary["missing"] = nil
    #expect(dictionary == ["a": .integer(2)])
  }

  @Test func oddTypesCountAsMissing() {
    let values: [PropertyList] = [
      .dictionary([:]), .array([]), .string("1"), .integer(1), .boolean(true), .real(1), .data([1]), .opaque,
    ]
    #expect(values.map { $0.dictionary != nil } == values.indices.map { $0 == 0 })
    #expect(values.map { $0.array != nil } == values.indices.map { $0 == 1 })
    #expect(values.map { $0.string != nil } == values.indices.map { $0 == 2 })
    #expect(values.map { $0.integer != nil } == values.indices.map { $0 == 3 })
    #expect(values.map { $0.bits16 != nil } == values.indices.map { $0 == 3 })
    #expect(values.map { $0.bits32 != nil } == values.indices.map { $0 == 3 })
    #expect(values.map { $0.boolean != nil } == values.indices.map { $0 == 3 || $0 == 4 })
    #expect(values.map { $0.data != nil } == values.indices.map { $0 == 6 })
  }
}
