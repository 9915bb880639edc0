import Testing

@testable import USBMux

@Suite("Lines of the control socket")
struct LineBufferTests {
  /// What comes out of bytes that come in pieces of these sizes, the last one being the rest.
  private func steps(_ bytes: [UInt8], cutAt cuts: [Int], limit: Int = 8) -> [LineBuffer.Step] {
    var buffer = LineBuffer(limit: limit)
    var steps: [LineBuffer.Step] = []
    var start = 0
    for cut in cuts + [bytes.count] {
      buffer.append(bytes[start..<cut])
      start = cut
      while true {
        let step = buffer.next()
        if step == .needsMore { break }
        steps.append(step)
        if step == .tooLong { return steps }
      }
    }
    return steps
  }

  @Test("Whole, byte by byte, and over every split point")
  func feeding() {
    let bytes = Array("one\n\ntwo\r\nthree\nrest".utf8)
    let expected = ["one", "", "two", "three"].map { LineBuffer.Step.line(Array($0.utf8)) }
    #expect(steps(bytes, cutAt: []) == expected)
    #expect(steps(bytes, cutAt: Array(1..<bytes.count)) == expected)
    for cut in 1..<bytes.count { #expect(steps(bytes, cutAt: [cut]) == expected, "cut at \(cut)") }
  }

  @Test("The longest line, one below, at and one above", arguments: ["\n", "\r\n"])
  func limit(end: String) {
    for count in [7, 8] {
      let line = [UInt8](repeating: 0x61, count: count)
      let bytes = line + Array(end.utf8)
      #expect(steps(bytes, cutAt: []) == [.line(line)])
      #expect(steps(bytes, cutAt: Array(1..<bytes.count)) == [.line(line)])
    }
    let bytes = [UInt8](repeating: 0x61, count: 9) + Array(end.utf8)
    #expect(steps(bytes, cutAt: []) == [.tooLong])
    #expect(steps(bytes, cutAt: Array(1..<bytes.count)) == [.tooLong])
  }

  @Test("A line without end is not collected for ever")
  func endless() {
    var buffer = LineBuffer(limit: 8)
    buffer.append([UInt8](repeating: 0x61, count: 9))
    #expect(buffer.next() == .needsMore, "a line end may follow the CR that the ninth byte could be")
    buffer.append([0x61])
    #expect(buffer.next() == .tooLong)
  }
}

@Suite("Who may use the control socket")
struct PeerRuleTests {
  private func peer(_ user: UInt32, _ group: UInt32, others: Set<UInt32> = []) -> PeerCredentials {
    PeerCredentials(user: user, group: group) { others.contains($0) }
  }

  @Test("Root, the owner, and members of the group")
  func admission() {
    let rule = PeerRule(owner: 100, group: 50)
    for admitted in [peer(0, 0), peer(100, 1), peer(101, 50), peer(101, 1, others: [50])] {
      #expect(rule.admits(admitted))
    }
    for denied in [peer(101, 1), peer(101, 100), peer(50, 1), peer(101, 1, others: [51])] {
      #expect(!rule.admits(denied))
    }
    #expect(!rule.admits(nil), "who cannot be told is nobody")
  }

  @Test("As the mode of the file says")
  func modes() {
    let stranger = peer(101, 50)
    #expect(PeerRule(UnixSocketAccess(mode: 0o660, group: nil), group: 50).admits(stranger))
    #expect(!PeerRule(UnixSocketAccess(mode: 0o600, group: nil), group: 50).admits(stranger))
    #expect(!PeerRule(UnixSocketAccess(mode: 0o660, group: nil), group: nil).admits(stranger))
    #expect(PeerRule(UnixSocketAccess(mode: 0o666, group: nil), group: nil).admits(stranger))
    #expect(
      !PeerRule(UnixSocketAccess(mode: 0o664, group: nil), group: 51).admits(stranger), "reading is no right")
  }
}
