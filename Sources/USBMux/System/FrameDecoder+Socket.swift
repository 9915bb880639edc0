extension FrameDecoder {
  /// Reads what completes the present step (the header, then the body), and not one byte more: what follows
  /// a frame may belong to a stream.
  mutating func fill(from socket: CInt) -> Transfer {
    let wanted = min(bytesWanted, 2048)
    // Nothing is wanted where a broken length was found; the next frame asked for says so.
    guard wanted > 0 else { return .wouldBlock }
    return unsafe withUnsafeTemporaryAllocation(byteCount: wanted, alignment: 1) { buffer in
      guard let start = buffer.baseAddress else { return .wouldBlock }
      let result = unsafe Socket.receive(socket, into: start, count: wanted)
      if case .bytes(let count) = result {
        append(unsafe Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(start: start, count: count)))
      }
      return result
    }
  }
}
