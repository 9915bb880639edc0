import MuxProtocol
import Testing

/// Bytes that would make the library crash, hang, or take all memory, or that are merely wrong.
@Suite struct HostilePropertyListTests {
  typealias Builder = BinaryPropertyListBuilder

  // MARK: - XML

  @Test(arguments: [
    " ", "\n\n", "<", "<!", "<!--", "<?", "<?xml", "<plist", "<plist>", "<plist><dict>", "</plist>", "{}",
    "()",
    "<plist><dict><string>x</string></dict></plist>",
    "<plist><unknown/></plist>", "<plist><string>&nope;</string></plist>",
    "<plist><string>&#0;</string></plist>",
    "<plist><string>&#x110000;</string></plist>", "<plist><string>&", "<plist><string><![CDATA[", "bplis",
    "<!DOCTYPE plist [<!ENTITY a \"x\">]><plist><string>&a;</string></plist>", "< dict/>",
    "<plist></dict></plist>",
  ])
  func refusesBrokenXML(text: String) {
    #expect(throws: PropertyListError.self) { try PropertyList(parsing: Array(text.utf8)) }
  }

  @Test func refusesNothing() {
    #expect(throws: PropertyListError.empty) { try PropertyList(parsing: []) }
    #expect(throws: PropertyListError.self) { try PropertyList(parsing: [0xEF, 0xBB, 0xBF]) }
  }

  @Test func refusesANULAnywhereInXML() {
    let text = Array("<plist><dict><key>a</key><string>b</string></dict></plist>".utf8)
    for offset in text.indices {
      var bytes = text
      bytes.insert(0, at: offset)
      #expect(throws: PropertyListError.malformed(offset: offset)) { try PropertyList(parsing: bytes) }
    }
  }

  /// The library itself ends the process for 600,000 of them.
  @Test func refusesDeepXML() {
    let deep = String(repeating: "<array>", count: 590_000)
    for text in ["<plist>\(deep)", "<plist>" + String(repeating: "<dict><key>a</key>", count: 200_000)] {
      #expect(throws: PropertyListError.self) { try PropertyList(parsing: Array(text.utf8)) }
    }
    // Closing tags in comments do not hide the depth.
    let hidden = String(repeating: "<array><!-- </array> -->", count: 4000)
    let text = "<plist>\(hidden)\(String(repeating: "</array>", count: 4000))</plist>"
    #expect(throws: PropertyListError.tooDeep(limit: 32)) { try PropertyList(parsing: Array(text.utf8)) }
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsTheDepthOfXML(difference: Int, isAccepted: Bool) {
    let count = 32 + difference
    let text = String(repeating: "<array>", count: count) + String(repeating: "</array>", count: count)
    expect(Array(text.utf8), .tooDeep(limit: 32), unless: isAccepted)
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsTheDepthOfBinary(difference: Int, isAccepted: Bool) {
    var builder = Builder()
    var inner = builder.add(array: [])
    for _ in 1..<(32 + difference) { inner = builder.add(array: [inner]) }
    expect(builder.build(), .tooDeep(limit: 32), unless: isAccepted)
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsTheNumberOfValues(difference: Int, isAccepted: Bool) throws {
    let limits = PropertyListLimits(values: 50)
    let list = PropertyList.array(Array(repeating: .integer(1), count: 48 + difference))
    // In XML the <plist> counts as well.
    expect(try list.xml(), .tooManyValues(limit: 50), unless: isAccepted, limits: limits)
    let bigger = PropertyList.array(Array(repeating: .integer(1), count: 49 + difference))
    expect(try bigger.binary(), .tooManyValues(limit: 50), unless: isAccepted, limits: limits)
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsTheNumberOfContainers(difference: Int, isAccepted: Bool) throws {
    let limits = PropertyListLimits(containers: 20)
    let list = PropertyList.array((0..<(19 + difference)).map { $0 % 2 == 0 ? .array([]) : .dictionary([:]) })
    expect(try list.xml(), .tooManyContainers(limit: 20), unless: isAccepted, limits: limits)
    expect(try list.binary(), .tooManyContainers(limit: 20), unless: isAccepted, limits: limits)
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsTheNumberOfEntities(difference: Int, isAccepted: Bool) throws {
    let text = PropertyList.string(String(repeating: "<", count: 1024 + difference))
    expect(try text.xml(), .tooManyEntities(limit: 1024), unless: isAccepted)
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsTheSize(difference: Int, isAccepted: Bool) throws {
    let list = PropertyList.data([UInt8](repeating: 1, count: 1000))
    for bytes in [try list.xml(), try list.binary()] {
      let limit = bytes.count - difference
      expect(
        bytes, .tooLarge(bytes: bytes.count, limit: limit), unless: isAccepted,
        limits: PropertyListLimits(bytes: limit))
    }
  }

  /// The dearest lists that pass all limits take a bounded time.
  @Test(.timeLimit(.minutes(1)))
  func dearListsTakeABoundedTime() throws {
    let big = String(repeating: "x", count: 4_000_000)
    let lists = [
      "<string>" + String(repeating: "&lt;", count: 1024) + big + "</string>",
      "<array>" + String(repeating: "<true/>", count: 65_000) + "</array>",
      "<dict>" + (0..<32_000).map { "<key>\($0)</key><true/>" }.joined() + "</dict>",
      "<array>" + String(repeating: "<dict/>", count: 4_000) + "</array>",
      "<string>" + String(repeating: "<![CDATA[x]]>", count: 300_000) + "</string>",
      String(repeating: "<!-- -->", count: 500_000) + "<true/>",
      "<data>" + String(repeating: "A", count: 4_000_000) + "</data>",
    ]
    let clock = ContinuousClock()
    for list in lists {
      let bytes = Array("<plist>\(list)</plist>".utf8)
      let time = clock.measure { _ = try? PropertyList(parsing: bytes) }
      #expect(time < .seconds(30), "\(list.prefix(20))")
    }
  }

  // MARK: - Binary

  @Test func readsItsOwnBuilder() throws {
    var builder = Builder()
    let key = builder.add(ascii: "key")
    let other = builder.add(utf16: [0xFC, 0xD83D, 0xDE00])
    let text = builder.add(ascii: "a text of more than fifteen bytes")
    let data = builder.add(data: [0, 1])
    builder.add(keys: [key, other], values: [text, data])
    let expected: PropertyList = .dictionary([
      "key": "a text of more than fifteen bytes", "ü😀": .data([0, 1]),
    ])
    #expect(try PropertyList(parsing: builder.build()) == expected)
  }

  /// libplist 2.2 asserts that a string has no NUL in it, and Debian builds it with assertions.
  @Test func refusesNULsInStrings() throws {
    for isKey in [true, false] {
      for isWide in [true, false] {
        var builder = Builder()
        let bad = isWide ? builder.add(utf16: [0x61, 0, 0x62]) : builder.add(ascii: "a\0b")
        let good = builder.add(ascii: "good")
        builder.add(keys: [isKey ? bad : good], values: [isKey ? good : bad])
        #expect(throws: PropertyListError.self) { try PropertyList(parsing: builder.build()) }
      }
    }
    // A zero byte is half of a character in UTF-16.
    var builder = Builder()
    builder.add(utf16: [0x0100, 0x0061])
    #expect(try PropertyList(parsing: builder.build()) == "Āa")
  }

  @Test func acceptsLoneSurrogates() throws {
    for units: [UInt16] in [[0xD800], [0xDC00], [0xD800, 0x61], [0x61, 0xDBFF], [0xDC00, 0xD800]] {
      var builder = Builder()
      let text = builder.add(utf16: units)
      builder.add(keys: [text], values: [text])
      #expect(try PropertyList(parsing: builder.build()).dictionary?.count == 1)
    }
  }

  @Test func refusesCycles() {
    var builder = Builder()
    builder.add(array: [0])
    #expect(throws: PropertyListError.tooDeep(limit: 32)) { try PropertyList(parsing: builder.build()) }
    builder = Builder()
    builder.add(ascii: "k")
    builder.add(keys: [0], values: [2])
    builder.add(array: [1])
    #expect(throws: PropertyListError.tooDeep(limit: 32)) { try PropertyList(parsing: builder.build()) }
  }

  /// 25 levels of two references each are 33 million values in 200 bytes.
  @Test func refusesListsThatUnfold() {
    var builder = Builder()
    var inner = builder.add(ascii: "x")
    for _ in 0..<25 { inner = builder.add(array: [inner, inner]) }
    #expect(throws: PropertyListError.tooManyContainers(limit: 4096)) {
      try PropertyList(parsing: builder.build())
    }
    builder = Builder()
    inner = builder.add(ascii: "x")
    for _ in 0..<3 { inner = builder.add(array: Array(repeating: inner, count: 80)) }
    #expect(throws: PropertyListError.tooManyValues(limit: 65536)) {
      try PropertyList(parsing: builder.build())
    }
    builder = Builder()
    inner = builder.add(data: [UInt8](repeating: 1, count: 1 << 20))
    builder.add(array: Array(repeating: inner, count: 5))
    #expect(throws: PropertyListError.self) { try PropertyList(parsing: builder.build()) }
  }

  @Test func refusesTrailersThatLie() {
    var builder = Builder()
    let text = builder.add(ascii: "x")
    builder.add(array: [text, text])
    let huge = [Int.max, -1, 1 << 40, 1 << 62]
    var broken: [[UInt8]] = []
    broken += ([2, 1000] + huge).map { builder.build(top: $0) }
    broken += ([0, 100, 65537] + huge).map { builder.build(objectCount: $0) }
    broken += ([0, 7, 8, 100, 1000] + huge).map { builder.build(tableOffset: $0) }
    broken += [0, 9, 255].map { builder.build(offsetSize: $0) }
    broken += [0, 9, 255].map { builder.build(referenceSize: $0) }
    for (index, bytes) in broken.enumerated() {
      #expect(throws: PropertyListError.self, "case \(index)") { try PropertyList(parsing: bytes) }
    }
    #expect(throws: Never.self) { try PropertyList(parsing: builder.build()) }
  }

  @Test func refusesEveryTruncation() throws {
    let bytes = try PropertyListTests.sample.binary()
    for count in 0..<bytes.count {
      #expect(throws: PropertyListError.self, "\(count) bytes") {
        try PropertyList(parsing: Array(bytes.prefix(count)))
      }
    }
  }

  @Test func refusesCountsThatLie() {
    for high: UInt8 in [0x4, 0x5, 0x6, 0xA, 0xD] {
      for count in [
        [0x10, 0xFF], [0x12, 0xFF, 0xFF, 0xFF, 0xFF], [0x13] + [UInt8](repeating: 0xFF, count: 8),
        [0x13, 0x40, 0, 0, 0, 0, 0, 0, 0], [0x13, 0x7F] + [UInt8](repeating: 0xFF, count: 7), [0x14], [0x50],
        [0x12, 0],
      ] as [[UInt8]] {
        var builder = Builder()
        builder.add([high << 4 | 0xF] + count)
        #expect(throws: PropertyListError.self) { try PropertyList(parsing: builder.build()) }
      }
    }
  }

  @Test func looksAtEveryMarker() {
    for marker in UInt8.min...UInt8.max {
      for tail in [[], [UInt8](repeating: 0x01, count: 64)] {
        var builder = Builder()
        builder.add([marker] + tail)
        // Whether it is one or not: no crash.
        _ = try? PropertyList(parsing: builder.build())
      }
    }
  }

  @Test func refusesKeysThatAreNoStrings() {
    var builder = Builder()
    let number = builder.add([0x10, 5])
    builder.add(keys: [number], values: [number])
    #expect(throws: PropertyListError.self) { try PropertyList(parsing: builder.build()) }
  }

  private func expect(
    _ bytes: [UInt8], _ error: PropertyListError, unless isAccepted: Bool,
    limits: PropertyListLimits = .standard,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    if isAccepted {
      #expect(throws: Never.self, sourceLocation: sourceLocation) {
        try PropertyList(parsing: bytes, limits: limits)
      }
    } else {
      #expect(throws: error, sourceLocation: sourceLocation) {
        try PropertyList(parsing: bytes, limits: limits)
      }
    }
  }
}
