/// Cuts a byte stream into frames.
///
/// A driver that must not read beyond a frame, since raw payload may follow a Connect's Result in the very
/// same segment, asks ``bytesWanted`` and reads no more. Any other may append what it has and take back
/// what follows the last frame with ``takeRemainder()``.
package struct FrameDecoder: Sendable {
  /// The largest frame that is accepted, in bytes, header included.
  package let limit: Int
  private var buffer: [UInt8] = []
  /// What of `buffer` belongs to frames that were handed out.
  private var offset = 0
  private var failure: FrameError?

  /// - Parameter limit: The largest frame that is accepted, in bytes, header included: ``FrameLimit``.
  package init(limit: Int) {
    self.limit = limit
  }

  /// How many more bytes complete the present step: the header, then the body. 0 when a frame is complete,
  /// or when the stream is broken.
  package var bytesWanted: Int {
    guard failure == nil else { return 0 }
    let available = buffer.count - offset
    guard let length = frameLength else { return FrameHeader.size - available }
    guard (FrameHeader.size...max(limit, FrameHeader.size)).contains(length) else { return 0 }
    return max(length - available, 0)
  }

  /// Takes bytes in, as many as there are.
  package mutating func append(_ bytes: Span<UInt8>) {
    guard failure == nil else { return }
    unsafe bytes.withUnsafeBufferPointer { unsafe buffer.append(contentsOf: $0) }
  }

  /// The next complete frame, or nil when more bytes are needed.
  ///
  /// - Throws: ``FrameError`` when the length field cannot be right. The stream is unusable from there on,
  ///   and every later call throws the same.
  package mutating func nextFrame() throws(FrameError) -> Frame? {
    if let failure { throw failure }
    guard let length = frameLength else { return nil }
    guard length >= FrameHeader.size else { throw fail(.lengthTooSmall(length)) }
    guard length <= limit else { throw fail(.lengthTooLarge(length, limit: limit)) }
    guard buffer.count - offset >= length else {
      // The claim of a peer that may never send the rest is not worth more than this.
      buffer.reserveCapacity(offset + min(length, 16384))
      return nil
    }
    let frame = Frame(
      version: field(at: 4), message: field(at: 8), tag: field(at: 12),
      body: Array(buffer[(offset + FrameHeader.size)..<(offset + length)]))
    offset += length
    compact()
    return frame
  }

  /// What was appended and belongs to no frame that was handed out; the decoder is empty afterwards.
  package mutating func takeRemainder() -> [UInt8] {
    let remainder = Array(buffer[offset...])
    buffer = []
    offset = 0
    return remainder
  }

  /// Whether the stream may end here without cutting a frame.
  package var isBetweenFrames: Bool { buffer.count == offset }

  private var frameLength: Int? {
    buffer.count - offset >= FrameHeader.size ? Int(field(at: 0)) : nil
  }

  private func field(at position: Int) -> UInt32 {
    let start = offset + position
    return UInt32(buffer[start]) | UInt32(buffer[start + 1]) << 8 | UInt32(buffer[start + 2]) << 16
      | UInt32(buffer[start + 3]) << 24
  }

  private mutating func fail(_ error: FrameError) -> FrameError {
    failure = error
    buffer = []
    offset = 0
    return error
  }

  private mutating func compact() {
    if offset == buffer.count {
      buffer.removeAll(keepingCapacity: buffer.capacity <= 4096)
      offset = 0
    } else if offset >= 4096 {
      buffer.removeFirst(offset)
      offset = 0
    }
  }
}

/// Why a byte stream cannot be cut into frames.
package enum FrameError: Error, Hashable, Sendable, CustomStringConvertible {
  /// A length below that of the header itself.
  case lengthTooSmall(Int)
  /// A length above the limit.
  case lengthTooLarge(Int, limit: Int)

  package var description: String {
    switch self {
    case .lengthTooSmall(let length): "a frame of \(length) bytes is shorter than its header"
    case .lengthTooLarge(let length, let limit): "a frame of \(length) bytes is longer than \(limit)"
    }
  }
}
