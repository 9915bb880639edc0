extension FrameDecoder {
  /// Reads what completes the present step (the header, then the body), and not one byte more: what follows
  /// a frame may belong to a stream.
  mutating func fill(from socket: CInt) -> Transfer {
    var storage = InlineArray<2048, UInt8>(repeating: 0)
    let wanted = min(bytesWanted, storage.count)
    // Nothing is wanted where a broken length was found; the next frame asked for says so.
    guard wanted > 0 else { return .wouldBlock }
    var span = storage.mutableSpan
    let result = unsafe span.withUnsafeMutableBytes { buffer -> Transfer in
      guard let start = buffer.baseAddress else { return .wouldBlock }
      return unsafe Socket.receive(socket, into: start, count: wanted)
    }
    if case .bytes(let count) = result { append(storage.span.extracting(0..<count)) }
    return result
  }
}
