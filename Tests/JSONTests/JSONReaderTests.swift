import JSON
import Testing

/// Reads a text from each place in which it may lie in a longer piece of memory: the reader sees only its span.
func read(
  _ text: String, limits: JSONReader.Limits = JSONReader.Limits()
) throws(JSONError) -> JSONValue {
  let bytes = Array(text.utf8)
  let padded = [0x5d, 0x22] + bytes + [0x7d, 0x31]
  let whole = try JSONReader.read(bytes.span, limits: limits)
  let inside = try JSONReader.read(padded.span.extracting(2..<2 + bytes.count), limits: limits)
  #expect(whole == inside)
  return whole
}

func failure(
  _ text: String, limits: JSONReader.Limits = JSONReader.Limits(),
  sourceLocation: SourceLocation = #_sourceLocation
) -> JSONError? {
  do throws(JSONError) {
    let value = try read(text, limits: limits)
    Issue.record("\(text) was read as \(value.text)", sourceLocation: sourceLocation)
    return nil
  } catch {
    return error
  }
}

@Suite("JSON is read strictly")
struct JSONReaderTests {
  @Test(
    "Values",
    arguments: [
      ("null", .null), (" true ", .boolean(true)), ("false\r\n", .boolean(false)), ("0", .integer(0)),
      ("-0", .integer(0)), ("42", .integer(42)), ("-9223372036854775808", .integer(.min)),
      ("9223372036854775807", .integer(.max)), ("9223372036854775808", .number(9_223_372_036_854_775_808)),
      ("1.5", .number(1.5)), ("-2e3", .number(-2000)), ("1E+2", .number(100)), ("\"\"", .string("")),
      ("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\"", .string("a\"\\/\u{8}\u{c}\n\r\t")),
      ("\"\\u00e9\\uD83D\\uDE00é\"", .string("é😀é")), ("[]", .array([])),
      ("[ 1 , [ ] ]", .array([1, .array([])])),
      ("{}", .object([])),
      (
        "{\"b\":1,\"a\":{\"c\":null}}",
        .object([.init("b", 1), .init("a", .object([.init("c", .null)]))])
      ),
    ] as [(String, JSONValue)])
  func values(text: String, value: JSONValue) throws { #expect(try read(text) == value) }

  @Test(
    "What is no JSON",
    arguments: [
      ("", .endsEarly, 0), ("  ", .endsEarly, 2), ("{", .endsEarly, 1), ("[1,", .endsEarly, 3),
      ("\"abc", .endsEarly, 4), ("tru", .endsEarly, 3), ("nulL", .unexpected(0x4c), 3), ("1 2", .trailing, 2),
      ("[1,]", .unexpected(0x5d), 3), ("{\"a\":1,}", .unexpected(0x7d), 7), ("{a:1}", .unexpected(0x61), 1),
      ("{\"a\" 1}", .unexpected(0x31), 5), ("'a'", .unexpected(0x27), 0), ("01", .malformedNumber, 2),
      ("+1", .unexpected(0x2b), 0), ("-", .endsEarly, 1), ("1.", .endsEarly, 2), ("1.x", .malformedNumber, 2),
      (".5", .unexpected(0x2e), 0), ("1e", .endsEarly, 2), ("1e999", .numberOutOfRange, 0),
      ("NaN", .unexpected(0x4e), 0), ("\"\\x\"", .malformedEscape, 2), ("\"\\u12g4\"", .malformedEscape, 5),
      ("\"\\ud800\"", .loneSurrogate, 3), ("\"\\ud800\\u0041\"", .loneSurrogate, 3),
      ("\"\\udc00\"", .loneSurrogate, 3), ("\"a\nb\"", .controlCharacter, 2),
      ("{\"a\":1,\"a\":2}", .duplicateName, 7), ("// x\n1", .unexpected(0x2f), 0),
      ("\u{feff}1", .unexpected(0xef), 0),
    ] as [(String, JSONError.Kind, Int)])
  func failures(text: String, kind: JSONError.Kind, offset: Int) {
    #expect(failure(text) == JSONError(kind: kind, offset: offset), "\(text)")
  }

  @Test("Strings are UTF-8")
  func encoding() {
    for bytes: [UInt8] in [[0xc0, 0xaf], [0xff], [0xed, 0xa0, 0x80], [0xe2, 0x82]] {
      let text = [0x22] + bytes + [0x22]
      #expect(throws: JSONError(kind: .invalidUTF8, offset: 0)) { try JSONReader.read(text.span) }
    }
  }

  @Test("Every beginning of a text is an error, and none of them is fatal")
  func beginnings() throws {
    let text = Array("{\"a\":[1.5e3,\"x\\u00e9\\n\",true,null,{\"b\":-7}]}".utf8)
    _ = try JSONReader.read(text.span)
    for end in 0..<text.count {
      let part = text.span.extracting(0..<end)
      #expect(throws: JSONError.self) { try JSONReader.read(part) }
    }
  }

  @Test("Limits, one below, at and one above")
  func limits() throws {
    var limits = JSONReader.Limits()
    limits.depth = 3
    limits.values = 5
    limits.bytes = 20
    #expect(try read("[[1]]", limits: limits)["x"] == nil)
    _ = try read("[[[]]]", limits: limits)
    #expect(failure("[[[[]]]]", limits: limits)?.kind == .tooDeep)
    _ = try read("[1,1,1]", limits: limits)
    _ = try read("[1,1,1,1]", limits: limits)
    #expect(failure("[1,1,1,1,1]", limits: limits)?.kind == .tooManyValues)
    _ = try read("\"" + String(repeating: "a", count: 17) + "\"", limits: limits)
    _ = try read("\"" + String(repeating: "a", count: 18) + "\"", limits: limits)
    #expect(
      failure("\"" + String(repeating: "a", count: 19) + "\"", limits: limits)
        == JSONError(kind: .tooLong, offset: 20))
  }

  @Test("Deep nesting is an error before it is a deep stack")
  func deep() {
    #expect(failure(String(repeating: "[", count: 60_000))?.kind == .tooDeep)
    #expect(failure(String(repeating: "{\"a\":", count: 10_000))?.kind == .tooDeep)
  }

  @Test("What is written is read back", arguments: 0..<20 as Range<UInt64>)
  func roundTrip(seed: UInt64) throws {
    var random = SplitMix(state: seed &* 0x9e37_79b9_7f4a_7c15 &+ 1)
    let value = random.value(depth: 0)
    #expect(try read(value.text) == value, "seed \(seed)")
    #expect(!value.text.contains("\n"), "one line")
  }

  @Test("Random bytes are never fatal", arguments: 0..<20 as Range<UInt64>)
  func garbage(seed: UInt64) {
    var random = SplitMix(state: seed &+ 77)
    let alphabet = Array("{}[]\",:\\u019-+.eEtrufalsn \n\u{1}é".utf8)
    for _ in 0..<500 {
      let bytes = (0..<Int.random(in: 0...40, using: &random)).map { _ in
        alphabet.randomElement(using: &random) ?? 0
      }
      if let value = try? JSONReader.read(bytes.span) {
        #expect((try? read(value.text)) == value, "seed \(seed)")
      }
    }
  }

  @Test("Control characters and line separators are escaped")
  func escapes() {
    let text = "\u{0}\u{1f}\"\\\u{7f}\u{85}\u{2028}\u{2029}é"
    #expect(
      JSONValue.string(text).text == "\"\\u0000\\u001f\\\"\\\\\\u007f\\u0085\\u2028\\u2029é\"")
    #expect(JSONValue.number(.infinity).text == "null")
    #expect(JSONValue.count(.max).text == "9223372036854775807")
    #expect(JSONValue.object(of: ["a": nil, "b": 1]).text == "{\"b\":1}")
  }
}

struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
    return mixed ^ (mixed >> 31)
  }

  mutating func value(depth: Int) -> JSONValue {
    switch Int.random(in: 0..<(depth < 4 ? 7 : 5), using: &self) {
    case 0: return .null
    case 1: return .boolean(Bool.random(using: &self))
    case 2: return .integer(Int64(bitPattern: next()))
    case 3: return .number(Double(next() >> 12) / 1000 + 0.5)
    case 4: return .string(text())
    case 5: return .array((0..<Int.random(in: 0...4, using: &self)).map { _ in value(depth: depth + 1) })
    default:
      return .object(
        (0..<Int.random(in: 0...4, using: &self)).map { .init("\($0)" + text(), value(depth: depth + 1)) })
    }
  }

  private mutating func text() -> String {
    var text = ""
    for _ in 0..<Int.random(in: 0...12, using: &self) {
      if let scalar = Unicode.Scalar(UInt32.random(in: 0...0x10ffff, using: &self)) {
        text.unicodeScalars.append(scalar)
      }
    }
    return text
  }
}
