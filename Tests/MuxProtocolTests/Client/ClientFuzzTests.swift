import MuxProtocol
import Testing

/// Seeded chaos: whatever arrives, the answer is a value or a typed error.
@Suite struct ClientFuzzTests {
  /// Frames that the mutations start from.
  static let corpus: [[UInt8]] = {
    var frames: [Frame] = []
    for request in ClientRequestTests.all {
      for dialect in [Dialect.binary, .propertyList] {
        if let frame = try? request.frame(tag: 3, dialect: dialect) { frames.append(frame) }
      }
    }
    for message in DaemonMessageTests.all {
      for dialect in [Dialect.binary, .propertyList] {
        if let frame = try? message.frame(tag: 4, dialect: dialect) { frames.append(frame) }
      }
    }
    for frame in frames where frame.dialect == .propertyList {
      var binary = frame
      if let body = try? PropertyList(parsing: frame.body).binary() { binary.body = body }
      frames.append(binary)
    }
    return frames.map { EncodedFrame($0).bytes }
  }()

  @Test func garbageIsNeverWorseThanAnError() {
    var generator = SeededGenerator("garbage")
    for _ in 0..<SeededGenerator.rounds(3000) {
      let bytes = (0..<Int.random(in: 0...200, using: &generator)).map { _ in
        UInt8.random(in: .min ... .max, using: &generator)
      }
      run(bytes)
      run(frameBytes(version: 0, message: UInt32.random(in: 0...9, using: &generator), body: bytes))
      run(frameBytes(body: bytes))
      run(frameBytes(body: Array("bplist00".utf8) + bytes))
      run(frameBytes(body: Array("<plist>".utf8) + bytes))
    }
  }

  @Test func damageIsNeverWorseThanAnError() {
    var generator = SeededGenerator("damage")
    for _ in 0..<SeededGenerator.rounds(300) {
      for original in Self.corpus {
        var bytes = original
        for _ in 0..<Int.random(in: 1...4, using: &generator) { damage(&bytes, &generator) }
        run(bytes)
        // The same damage behind a header that fits.
        if bytes.count > 16 { run(frameBytes(body: Array(bytes.dropFirst(16)))) }
      }
    }
  }

  @Test func splitsChangeNothing() {
    var generator = SeededGenerator("splits")
    for _ in 0..<SeededGenerator.rounds(200) {
      var stream = (0..<4).flatMap { _ in Self.corpus.randomElement(using: &generator) ?? [] }
      if Bool.random(using: &generator) { damage(&stream, &generator) }
      let whole = decode([stream[...]], limit: FrameLimit.request)
      var pieces: [ArraySlice<UInt8>] = []
      var rest = stream[...]
      while !rest.isEmpty {
        let size = Int.random(in: 1...min(rest.count, 64), using: &generator)
        pieces.append(rest.prefix(size))
        rest = rest.dropFirst(size)
      }
      let split = decode(pieces, limit: FrameLimit.request)
      #expect(split == whole, "seed \(generator.seed)")
    }
  }

  private func run(_ bytes: [UInt8]) {
    let result = decode([bytes[...]], limit: FrameLimit.request)
    for frame in result.frames {
      _ = try? ClientRequest.decode(frame)
      guard let message = try? DaemonMessage.decode(frame) else { continue }
      // What was understood can be written, and is understood again.
      guard let again = try? message.frame(tag: 0) else {
        Issue.record("cannot write \(message)")
        continue
      }
      #expect(throws: Never.self) { try DaemonMessage.decode(again) }
    }
  }

  private func damage(_ bytes: inout [UInt8], _ generator: inout SeededGenerator) {
    guard !bytes.isEmpty else { return }
    let offset = Int.random(in: bytes.indices, using: &generator)
    switch Int.random(in: 0..<6, using: &generator) {
    case 0: bytes[offset] = UInt8.random(in: .min ... .max, using: &generator)
    case 1: bytes[offset] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
    case 2: bytes.remove(at: offset)
    case 3: bytes.insert(UInt8.random(in: .min ... .max, using: &generator), at: offset)
    case 4: bytes.removeLast(Int.random(in: 0...min(20, bytes.count), using: &generator))
    default:
      let end = min(offset + Int.random(in: 1...30, using: &generator), bytes.count)
      bytes.insert(contentsOf: bytes[offset..<end], at: Int.random(in: bytes.indices, using: &generator))
    }
  }
}
