internal import EventLoop

/// What waits to be sent to one client, in order.
struct OutputQueue {
  /// What ``send(to:)`` came to.
  enum Outcome {
    /// All is sent.
    case done
    /// The client takes nothing now.
    case waits
    case failed
  }

  /// The memory that an empty queue may keep, bytes.
  private static let kept = 16384

  private var bytes: [UInt8] = []
  private var sent = 0

  /// Bytes that are not sent yet.
  var count: Int { bytes.count - sent }
  var isEmpty: Bool { count == 0 }

  mutating func append(_ frame: EncodedFrame) { append(frame.bytes) }

  mutating func append(_ more: some Sequence<UInt8>) { bytes.append(contentsOf: more) }

  mutating func send(to socket: CInt) -> Outcome {
    while !isEmpty {
      let moved = unsafe bytes.withUnsafeBytes { buffer -> Transfer in
        guard let start = buffer.baseAddress else { return .wouldBlock }
        return unsafe Socket.send(socket, from: start + sent, count: buffer.count - sent)
      }
      switch moved {
      case .bytes(let count): sent += count
      case .wouldBlock, .end:
        compact()
        return .waits
      case .failed: return .failed
      }
    }
    bytes.removeAll(keepingCapacity: bytes.capacity <= Self.kept)
    sent = 0
    return .done
  }

  /// What is sent must not stay in memory while the rest waits.
  private mutating func compact() {
    guard sent > bytes.count / 2 else { return }
    bytes.removeFirst(sent)
    sent = 0
  }
}
