/// A server on a port of the simulated phone, for one session. Bytes in, bytes out; no I/O.
package protocol PhoneService: Sendable {
  /// Takes in bytes of the host and returns how many of them it took. Fewer than all holds the host
  /// back: the rest is offered again after ``produce(into:limit:)``.
  mutating func receive(_ bytes: Span<UInt8>) -> Int

  /// Appends at most `limit` bytes for the host; none when there is nothing to say.
  mutating func produce(into output: inout ContiguousArray<UInt8>, limit: Int)

  /// Whether everything has been said, so that the session is to be closed.
  var isFinished: Bool { get }
}

/// Sends back what it is sent (port 7).
struct EchoService: PhoneService {
  private var waiting = ByteQueue(capacity: 64 * 1024)

  mutating func receive(_ bytes: Span<UInt8>) -> Int {
    waiting.append(bytes)
  }

  mutating func produce(into output: inout ContiguousArray<UInt8>, limit: Int) {
    waiting.move(min(limit, waiting.count), to: &output)
  }

  var isFinished: Bool { false }
}

/// Takes in everything and says nothing (port 9).
struct DiscardService: PhoneService {
  mutating func receive(_ bytes: Span<UInt8>) -> Int {
    bytes.count
  }

  mutating func produce(into output: inout ContiguousArray<UInt8>, limit: Int) {}

  var isFinished: Bool { false }
}

/// Sends lines of 72 of the 95 printable characters, each line one character further on (port 19).
struct CharacterGeneratorService: PhoneService {
  private var position = 0

  /// 95 lines, after which it begins again.
  private static let period: ContiguousArray<UInt8> = {
    var bytes = ContiguousArray<UInt8>()
    for line in 0..<95 {
      for column in 0..<72 {
        bytes.append(UInt8(32 + (line + column) % 95))
      }
      bytes.append(contentsOf: [0x0d, 0x0a])
    }
    return bytes
  }()

  mutating func receive(_ bytes: Span<UInt8>) -> Int {
    bytes.count
  }

  mutating func produce(into output: inout ContiguousArray<UInt8>, limit: Int) {
    var left = limit
    while left > 0 {
      let count = min(left, Self.period.count - position)
      output.append(contentsOf: Self.period[position..<position + count])
      position = (position + count) % Self.period.count
      left -= count
    }
  }

  var isFinished: Bool { false }
}
