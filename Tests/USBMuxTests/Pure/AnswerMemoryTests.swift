import MuxProtocol
import Testing

@testable import USBMux

/// A daemon's answers, known by their bytes.
struct AnswerMemoryTests {
  private let memory = AnswerMemory()

  private func frame(_ message: DaemonMessage, dialect: Dialect = .propertyList) throws -> Frame {
    try message.frame(tag: 3, dialect: dialect)
  }

  @Test func theSameBytesMeanTheSame() throws {
    for _ in 0..<3 { #expect(try memory.decode(frame(.result(.ok))) == .result(.ok)) }
  }

  @Test func otherBytesAreRead() throws {
    #expect(try memory.decode(frame(.result(.ok))) == .result(.ok))
    #expect(try memory.decode(frame(.result(.connectionRefused))) == .result(.connectionRefused))
    #expect(try memory.decode(frame(.result(.ok))) == .result(.ok))
    #expect(try memory.decode(frame(.buid("0"))) == .buid("0"))
    #expect(try memory.decode(frame(.result(.ok))) == .result(.ok))
  }

  /// The same bytes in the other dialect are another message.
  @Test func theDialectCounts() throws {
    let text = try frame(.result(.ok))
    #expect(try memory.decode(text) == .result(.ok))
    let binary = Frame(version: 0, message: 1, tag: 3, body: text.body)
    #expect(try memory.decode(binary) != .result(.ok))
  }

  /// What cannot be read is not remembered, and does not make the memory forget.
  @Test func garbageIsRefusedEachTime() throws {
    let garbage = Frame(version: 1, message: 8, tag: 3, body: [1, 2, 3])
    #expect(try memory.decode(frame(.result(.ok))) == .result(.ok))
    for _ in 0..<2 { #expect(throws: MessageError.self) { try memory.decode(garbage) } }
    #expect(try memory.decode(frame(.result(.ok))) == .result(.ok))
  }
}
