/// Why some bytes are no JSON that is accepted, and where, in bytes from their start.
package struct JSONError: Error, Equatable, CustomStringConvertible {
  package enum Kind: Equatable, Sendable {
    /// The text ends before the value does.
    case endsEarly
    /// A byte that cannot stand here.
    case unexpected(UInt8)
    /// A value is followed by something else than space.
    case trailing
    case malformedNumber
    /// Too large for a Double.
    case numberOutOfRange
    case malformedEscape
    /// Half of a surrogate pair.
    case loneSurrogate
    case controlCharacter
    case invalidUTF8
    case duplicateName
    case tooDeep
    case tooManyValues
    case tooLong
  }

  package let kind: Kind
  package let offset: Int

  package init(kind: Kind, offset: Int) {
    self.kind = kind
    self.offset = offset
  }

  package var description: String {
    let what =
      switch kind {
      case .endsEarly: "it ends too early"
      case .unexpected(let byte): "the byte \(byte) is not expected"
      case .trailing: "something follows the value"
      case .malformedNumber: "the number is malformed"
      case .numberOutOfRange: "the number is too large"
      case .malformedEscape: "the escape is malformed"
      case .loneSurrogate: "half of a surrogate pair stands alone"
      case .controlCharacter: "a control character is not escaped"
      case .invalidUTF8: "the text is not UTF-8"
      case .duplicateName: "the member was there before"
      case .tooDeep: "it is nested too deeply"
      case .tooManyValues: "it has too many values"
      case .tooLong: "it is too long"
      }
    return "\(what) (at byte \(offset))"
  }
}

/// Reads one JSON value, strictly: RFC 8259 and no more, no member twice, and within limits that are checked
/// before memory is taken.
package struct JSONReader {
  package struct Limits: Sendable {
    /// Bytes of the text.
    package var bytes = 65536
    /// Arrays and objects within each other.
    package var depth = 16
    /// Values in all, members' names not counted.
    package var values = 4096

    package init() {}
  }

  private let limits: Limits
  private var offset = 0
  private var values = 0

  private init(_ limits: Limits) { self.limits = limits }

  /// - Throws: ``JSONError``.
  package static func read(_ bytes: Span<UInt8>, limits: Limits = Limits()) throws(JSONError) -> JSONValue {
    var reader = JSONReader(limits)
    guard bytes.count <= limits.bytes else { throw JSONError(kind: .tooLong, offset: limits.bytes) }
    reader.skipSpace(bytes)
    let value = try reader.value(bytes, depth: 0)
    reader.skipSpace(bytes)
    guard reader.offset == bytes.count else { throw reader.error(.trailing) }
    return value
  }

  private func error(_ kind: JSONError.Kind) -> JSONError { JSONError(kind: kind, offset: offset) }

  // MARK: Bytes

  private func peek(_ bytes: Span<UInt8>) throws(JSONError) -> UInt8 {
    guard offset < bytes.count else { throw error(.endsEarly) }
    return bytes[offset]
  }

  private mutating func next(_ bytes: Span<UInt8>) throws(JSONError) -> UInt8 {
    let byte = try peek(bytes)
    offset += 1
    return byte
  }

  private mutating func expect(_ expected: UInt8, _ bytes: Span<UInt8>) throws(JSONError) {
    let byte = try peek(bytes)
    guard byte == expected else { throw error(.unexpected(byte)) }
    offset += 1
  }

  private mutating func skipSpace(_ bytes: Span<UInt8>) {
    while offset < bytes.count {
      switch bytes[offset] {
      case 0x20, 0x09, 0x0a, 0x0d: offset += 1
      default: return
      }
    }
  }

  // MARK: Values

  private mutating func value(_ bytes: Span<UInt8>, depth: Int) throws(JSONError) -> JSONValue {
    values += 1
    guard values <= limits.values else { throw error(.tooManyValues) }
    switch try peek(bytes) {
    case UInt8(ascii: "{"): return .object(try members(bytes, depth: depth + 1))
    case UInt8(ascii: "["): return .array(try elements(bytes, depth: depth + 1))
    case UInt8(ascii: "\""): return .string(try string(bytes))
    case UInt8(ascii: "t"):
      try word("true", bytes)
      return .boolean(true)
    case UInt8(ascii: "f"):
      try word("false", bytes)
      return .boolean(false)
    case UInt8(ascii: "n"):
      try word("null", bytes)
      return .null
    case UInt8(ascii: "-"), 0x30...0x39: return try number(bytes)
    case let byte: throw error(.unexpected(byte))
    }
  }

  private mutating func word(_ word: StaticString, _ bytes: Span<UInt8>) throws(JSONError) {
    for byte in "\(word)".utf8 { try expect(byte, bytes) }
  }

  private mutating func enter(_ depth: Int) throws(JSONError) {
    guard depth <= limits.depth else { throw error(.tooDeep) }
    offset += 1
  }

  private mutating func elements(_ bytes: Span<UInt8>, depth: Int) throws(JSONError) -> [JSONValue] {
    try enter(depth)
    var elements: [JSONValue] = []
    skipSpace(bytes)
    if try peek(bytes) == UInt8(ascii: "]") {
      offset += 1
      return elements
    }
    while true {
      skipSpace(bytes)
      elements.append(try value(bytes, depth: depth))
      if try isLast(UInt8(ascii: "]"), bytes) { return elements }
    }
  }

  private mutating func members(_ bytes: Span<UInt8>, depth: Int) throws(JSONError) -> [JSONValue.Member] {
    try enter(depth)
    var members: [JSONValue.Member] = []
    var names: Set<String> = []
    skipSpace(bytes)
    if try peek(bytes) == UInt8(ascii: "}") {
      offset += 1
      return members
    }
    while true {
      skipSpace(bytes)
      let start = offset
      let name = try string(bytes)
      guard names.insert(name).inserted else { throw JSONError(kind: .duplicateName, offset: start) }
      skipSpace(bytes)
      try expect(UInt8(ascii: ":"), bytes)
      skipSpace(bytes)
      members.append(JSONValue.Member(name, try value(bytes, depth: depth)))
      if try isLast(UInt8(ascii: "}"), bytes) { return members }
    }
  }

  /// After an element: a comma, or the end.
  private mutating func isLast(_ end: UInt8, _ bytes: Span<UInt8>) throws(JSONError) -> Bool {
    skipSpace(bytes)
    let byte = try peek(bytes)
    guard byte == end || byte == UInt8(ascii: ",") else { throw error(.unexpected(byte)) }
    offset += 1
    return byte == end
  }

  // MARK: Numbers

  /// RFC 8259: number = [ minus ] int [ frac ] [ exp ], and int has no leading zero.
  private mutating func number(_ bytes: Span<UInt8>) throws(JSONError) -> JSONValue {
    let start = offset
    var isWhole = true
    if bytes[offset] == UInt8(ascii: "-") { offset += 1 }
    let first = offset
    let digits = try skipDigits(bytes)
    guard digits == 1 || bytes[first] != UInt8(ascii: "0") else { throw error(.malformedNumber) }
    if offset < bytes.count, bytes[offset] == UInt8(ascii: ".") {
      isWhole = false
      offset += 1
      _ = try skipDigits(bytes)
    }
    if offset < bytes.count, bytes[offset] | 0x20 == UInt8(ascii: "e") {
      isWhole = false
      offset += 1
      if offset < bytes.count, bytes[offset] == UInt8(ascii: "+") || bytes[offset] == UInt8(ascii: "-") {
        offset += 1
      }
      _ = try skipDigits(bytes)
    }
    var text = ""
    for index in start..<offset { text.unicodeScalars.append(Unicode.Scalar(bytes[index])) }
    if isWhole, let integer = Int64(text) { return .integer(integer) }
    guard let double = Double(text) else { throw JSONError(kind: .malformedNumber, offset: start) }
    guard double.isFinite else { throw JSONError(kind: .numberOutOfRange, offset: start) }
    return .number(double)
  }

  private mutating func skipDigits(_ bytes: Span<UInt8>) throws(JSONError) -> Int {
    let start = offset
    while offset < bytes.count, (0x30...0x39).contains(bytes[offset]) { offset += 1 }
    guard offset > start else { throw error(offset < bytes.count ? .malformedNumber : .endsEarly) }
    return offset - start
  }

  // MARK: Strings

  private mutating func string(_ bytes: Span<UInt8>) throws(JSONError) -> String {
    let start = offset
    try expect(UInt8(ascii: "\""), bytes)
    var content: [UInt8] = []
    while true {
      let byte = try next(bytes)
      switch byte {
      case UInt8(ascii: "\""):
        guard let text = String(validating: content, as: UTF8.self) else {
          throw JSONError(kind: .invalidUTF8, offset: start)
        }
        return text
      case UInt8(ascii: "\\"): content.append(contentsOf: Array(String(try escaped(bytes)).utf8))
      case 0..<0x20: throw JSONError(kind: .controlCharacter, offset: offset - 1)
      default: content.append(byte)
      }
    }
  }

  private mutating func escaped(_ bytes: Span<UInt8>) throws(JSONError) -> Unicode.Scalar {
    switch try next(bytes) {
    case UInt8(ascii: "\""): return "\""
    case UInt8(ascii: "\\"): return "\\"
    case UInt8(ascii: "/"): return "/"
    case UInt8(ascii: "b"): return "\u{8}"
    case UInt8(ascii: "f"): return "\u{c}"
    case UInt8(ascii: "n"): return "\n"
    case UInt8(ascii: "r"): return "\r"
    case UInt8(ascii: "t"): return "\t"
    case UInt8(ascii: "u"): return try unicode(bytes)
    default: throw JSONError(kind: .malformedEscape, offset: offset - 1)
    }
  }

  private mutating func unicode(_ bytes: Span<UInt8>) throws(JSONError) -> Unicode.Scalar {
    let start = offset
    let first = try fourDigits(bytes)
    if let scalar = Unicode.Scalar(first) { return scalar }
    guard (0xd800..<0xdc00).contains(first) else { throw JSONError(kind: .loneSurrogate, offset: start) }
    guard try next(bytes) == UInt8(ascii: "\\"), try next(bytes) == UInt8(ascii: "u") else {
      throw JSONError(kind: .loneSurrogate, offset: start)
    }
    let second = try fourDigits(bytes)
    guard (0xdc00..<0xe000).contains(second),
      let scalar = Unicode.Scalar(0x10000 + (first & 0x3ff) << 10 + (second & 0x3ff))
    else { throw JSONError(kind: .loneSurrogate, offset: start) }
    return scalar
  }

  private mutating func fourDigits(_ bytes: Span<UInt8>) throws(JSONError) -> UInt32 {
    var number: UInt32 = 0
    for _ in 0..<4 {
      let byte = try next(bytes)
      guard let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
        throw JSONError(kind: .malformedEscape, offset: offset - 1)
      }
      number = number << 4 | UInt32(digit)
    }
    return number
  }
}
