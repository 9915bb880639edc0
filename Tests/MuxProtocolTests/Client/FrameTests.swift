import MuxProtocol
import Testing

@Suite struct FrameTests {
  @Test func writesAHeaderInLittleEndianOrder() {
    let frame = Frame(version: 1, message: 8, tag: 0x0102_0304, body: [0xAA, 0xBB])
    GoldenBytes(
      ("length", [18, 0, 0, 0]), ("version", [1, 0, 0, 0]), ("message", [8, 0, 0, 0]),
      ("tag", [4, 3, 2, 1]), ("body", [0xAA, 0xBB])
    ).expect(EncodedFrame(frame).bytes)
  }

  @Test func patchesTheTagAndNothingElse() {
    var encoded = EncodedFrame(Frame(version: 1, message: 8, tag: 1, body: [1, 2, 3]))
    encoded.tag = 0xFFEE_DDCC
    #expect(encoded.tag == 0xFFEE_DDCC)
    #expect(encoded == EncodedFrame(Frame(version: 1, message: 8, tag: 0xFFEE_DDCC, body: [1, 2, 3])))
  }

  @Test func readsFramesHoweverTheyArrive() {
    let first = frameBytes(tag: 1, body: Array("first".utf8))
    let second = frameBytes(version: 0, message: 3, tag: 2)
    let third = frameBytes(tag: 3, body: Array("third one".utf8))
    let result = decodeEveryWay(first + second + third)
    #expect(
      result.frames == [
        Frame(version: 1, message: 8, tag: 1, body: Array("first".utf8)),
        Frame(version: 0, message: 3, tag: 2, body: []),
        Frame(version: 1, message: 8, tag: 3, body: Array("third one".utf8)),
      ])
    #expect(result.error == nil)
    #expect(result.remainder.isEmpty)
  }

  @Test func givesBackWhatFollowsAFrame() throws {
    let result = Frame(version: 1, message: 8, tag: 1, body: [1, 2])
    var decoder = FrameDecoder(limit: FrameLimit.reply)
    decoder.feed(EncodedFrame(result).bytes + Array("SSH-2.0".utf8))
    #expect(try decoder.nextFrame() == result)
    #expect(decoder.takeRemainder() == Array("SSH-2.0".utf8))
    #expect(decoder.takeRemainder().isEmpty)
    #expect(decoder.bytesWanted == 16)
  }

  @Test func asksForTheHeaderThenForTheBody() throws {
    let bytes = frameBytes(body: Array(repeating: 7, count: 40))
    var decoder = FrameDecoder(limit: FrameLimit.reply)
    #expect(decoder.bytesWanted == 16)
    #expect(decoder.isBetweenFrames)
    decoder.feed(bytes[..<10])
    #expect(decoder.bytesWanted == 6)
    #expect(!decoder.isBetweenFrames)
    decoder.feed(bytes[10..<16])
    #expect(decoder.bytesWanted == 40)
    #expect(try decoder.nextFrame() == nil)
    decoder.feed(bytes[16...])
    #expect(decoder.bytesWanted == 0)
    #expect(try decoder.nextFrame()?.body.count == 40)
    #expect(decoder.bytesWanted == 16)
    #expect(decoder.isBetweenFrames)
  }

  @Test(arguments: [0, 1, 15] as [UInt32])
  func refusesALengthBelowTheHeader(length: UInt32) {
    let result = decodeEveryWay(frameBytes(length: length, body: [1, 2, 3]))
    #expect(result.frames.isEmpty)
    #expect(result.error == .lengthTooSmall(Int(length)))
  }

  @Test func acceptsAHeaderWithoutABody() {
    #expect(decodeEveryWay(frameBytes()).frames == [Frame(version: 1, message: 8, tag: 0, body: [])])
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsTheLength(difference: Int, isAccepted: Bool) {
    let limit = 100
    let length = limit + difference
    let body = [UInt8](repeating: 1, count: length - 16)
    let result = decodeEveryWay(frameBytes(body: body), limit: limit)
    #expect(result.frames.count == (isAccepted ? 1 : 0))
    #expect(result.error == (isAccepted ? nil : .lengthTooLarge(length, limit: limit)))
  }

  @Test func refusesFourGigabytesBeforeAnyOfThemArrives() {
    for limit in [FrameLimit.request, FrameLimit.reply] {
      var decoder = FrameDecoder(limit: limit)
      decoder.feed(frameBytes(length: .max))
      #expect(decoder.bytesWanted == 0)
      #expect(throws: FrameError.lengthTooLarge(Int(UInt32.max), limit: limit)) { try decoder.nextFrame() }
    }
  }

  @Test func staysBroken() throws {
    var decoder = FrameDecoder(limit: 64)
    decoder.feed(frameBytes(tag: 9) + frameBytes(length: 15) + frameBytes())
    #expect(try decoder.nextFrame()?.tag == 9)
    for _ in 0..<3 {
      #expect(throws: FrameError.lengthTooSmall(15)) { try decoder.nextFrame() }
      decoder.feed(frameBytes())
      #expect(decoder.bytesWanted == 0)
    }
    #expect(decoder.takeRemainder().isEmpty)
  }

  @Test func manyFramesInOneReadCostNoQuadraticTime() throws {
    let one = frameBytes(body: [UInt8](repeating: 3, count: 100))
    let stream = (0..<20_000).flatMap { _ in one }
    var decoder = FrameDecoder(limit: FrameLimit.reply)
    decoder.feed(stream)
    var count = 0
    while try decoder.nextFrame() != nil { count += 1 }
    #expect(count == 20_000)
  }

  @Test func messageNumberDecidesTheDialect() {
    #expect(Frame(version: 0, message: 8, tag: 0, body: []).dialect == .propertyList)
    #expect(Frame(version: 1, message: 8, tag: 0, body: []).dialect == .propertyList)
    #expect(Frame(version: 1, message: 1, tag: 0, body: []).dialect == .binary)
    #expect(Frame(version: 0, message: 1, tag: 0, body: []).dialect == .binary)
  }
}
