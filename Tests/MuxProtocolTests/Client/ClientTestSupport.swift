import Foundation
import MuxProtocol
import Testing

/// Bytes that a test knows by heart, field by field, so that a difference names the field.
struct GoldenBytes {
  var fields: [(name: String, bytes: [UInt8])] = []

  var bytes: [UInt8] { fields.flatMap(\.bytes) }

  init(_ fields: (String, [UInt8])...) {
    self.fields = fields.map { (name: $0.0, bytes: $0.1) }
  }

  /// Expects `actual` to be exactly these bytes.
  func expect(_ actual: [UInt8], sourceLocation: SourceLocation = #_sourceLocation) {
    var offset = 0
    for field in fields {
      let part = Array(actual.dropFirst(offset).prefix(field.bytes.count))
      #expect(part == field.bytes, "\(field.name) at \(offset)", sourceLocation: sourceLocation)
      offset += field.bytes.count
    }
    #expect(actual.count == offset, "length", sourceLocation: sourceLocation)
  }
}

/// What a decoder made of a stream.
struct DecodedStream: Equatable {
  var frames: [Frame] = []
  var error: FrameError?
  var remainder: [UInt8] = []
}

/// Feeds a stream to a decoder whole, byte by byte, split at every point, and exactly as the decoder asks for,
/// and expects the same of all ways. Gives back what came out.
@discardableResult
func decodeEveryWay(
  _ stream: [UInt8], limit: Int = FrameLimit.reply, sourceLocation: SourceLocation = #_sourceLocation
) -> DecodedStream {
  let whole = decode([stream[...]], limit: limit)
  let dripped = decode(stream.indices.map { stream[$0...$0] }, limit: limit)
  #expect(dripped == whole, "byte by byte", sourceLocation: sourceLocation)
  for split in 0...stream.count {
    let halves = decode([stream[..<split], stream[split...]], limit: limit)
    if halves != whole {
      Issue.record("split at \(split): \(halves) instead of \(whole)", sourceLocation: sourceLocation)
    }
  }
  let asked = decodeAsAsked(stream, limit: limit)
  #expect(asked.frames == whole.frames, "as asked", sourceLocation: sourceLocation)
  #expect(asked.error == whole.error, "as asked", sourceLocation: sourceLocation)
  return whole
}

/// Appends piece after piece and drains after each.
func decode(_ pieces: [ArraySlice<UInt8>], limit: Int) -> DecodedStream {
  var decoder = FrameDecoder(limit: limit)
  var result = DecodedStream()
  for piece in pieces {
    decoder.feed(piece)
    do {
      while let frame = try decoder.nextFrame() { result.frames.append(frame) }
    } catch {
      result.error = error
    }
  }
  result.remainder = decoder.takeRemainder()
  return result
}

/// Reads never more than the decoder asks for, as a driver must before a raw stream begins.
func decodeAsAsked(_ stream: [UInt8], limit: Int) -> DecodedStream {
  var decoder = FrameDecoder(limit: limit)
  var result = DecodedStream()
  var rest = stream[...]
  while true {
    do {
      while let frame = try decoder.nextFrame() { result.frames.append(frame) }
    } catch {
      result.error = error
      break
    }
    let wanted = decoder.bytesWanted
    #expect(wanted > 0)
    guard wanted > 0, rest.count >= wanted else { break }
    decoder.feed(rest.prefix(wanted))
    rest = rest.dropFirst(wanted)
  }
  result.remainder = decoder.takeRemainder() + rest
  return result
}

/// A generator that gives the same numbers for the same seed (SplitMix64).
struct SeededGenerator: RandomNumberGenerator {
  let seed: UInt64
  private var state: UInt64

  /// The seed of `MUX_TEST_SEED`, else a fixed one; it is printed.
  init(_ name: String) {
    let environment = ProcessInfo.processInfo.environment["MUX_TEST_SEED"].flatMap { UInt64($0) }
    seed = environment ?? 0x5EED
    state = seed
    print("\(name): MUX_TEST_SEED=\(seed)")
  }

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var mixed = state
    mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
    mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
    return mixed ^ (mixed >> 31)
  }

  /// How many rounds a test runs: `MUX_TEST_ROUNDS` times its usual number.
  static func rounds(_ usual: Int) -> Int {
    let factor = ProcessInfo.processInfo.environment["MUX_TEST_ROUNDS"].flatMap { Int($0) } ?? 1
    return usual * max(factor, 1)
  }
}

/// A value that the test's author knows to be one.
func known<Value>(_ value: Value?) -> Value {
  guard let value else { fatalError("the test itself is wrong") }
  return value
}

/// Little-endian bytes.
func le32(_ value: UInt32) -> [UInt8] {
  (0..<4).map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
}

/// Little-endian bytes.
func le16(_ value: UInt16) -> [UInt8] {
  [UInt8(truncatingIfNeeded: value), UInt8(truncatingIfNeeded: value >> 8)]
}

/// A frame around a body.
func frameBytes(
  length: UInt32? = nil, version: UInt32 = 1, message: UInt32 = 8, tag: UInt32 = 0, body: [UInt8] = []
) -> [UInt8] {
  le32(length ?? UInt32(16 + body.count)) + le32(version) + le32(message) + le32(tag) + body
}

/// A property-list frame around XML between `<plist>` and `</plist>`.
func propertyListFrame(_ inner: String, version: UInt32 = 1, tag: UInt32 = 7) -> Frame {
  Frame(version: version, message: 8, tag: tag, body: Array("<plist>\(inner)</plist>".utf8))
}

/// The document that libplist writes around the inside of a dictionary.
func document(_ inner: String) -> [UInt8] {
  Array(
    """
    <?xml version="1.0" encoding="UTF-8"?>
    <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
    <plist version="1.0">
    \(inner)
    </plist>

    """.utf8)
}

extension FrameDecoder {
  /// Appends what is no array.
  mutating func feed(_ bytes: some Sequence<UInt8>) {
    let bytes = Array(bytes)
    append(bytes.span)
  }
}
