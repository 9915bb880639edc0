extension PcapngBlocks {
  /// Appends the TCP packets that show an event.
  ///
  /// Each is a function of the event and of how far the stream had come, so that an event that is missing is a gap
  /// in the sequence numbers and disturbs nothing after it. Bytes, and ends, are acknowledged at once: they are
  /// events only when the other side has them.
  ///
  /// - Parameters:
  ///   - event: What has happened.
  ///   - stream: To which stream.
  ///   - position: How far it had come before.
  ///   - payload: The bytes of an event that has some.
  ///   - time: In nanoseconds since 1970.
  package mutating func append(
    _ event: StreamEvent, of stream: CapturedStream, at position: StreamPosition, payload: [UInt8] = [],
    time: UInt64
  ) {
    switch event {
    case .asked:
      append(Segment(.client, .syn, sequence: stream.clientStart, acknowledges: 0), of: stream, time: time)
    case .accepted:
      let first = stream.clientStart &+ 1
      append(
        Segment(.device, [.syn, .ack], sequence: stream.deviceStart, acknowledges: first), of: stream,
        time: time)
      append(acknowledgement(from: .client, of: stream, at: StreamPosition()), of: stream, time: time)
    case .refused:
      // RFC 9293, 3.5.2: the reset of a SYN has sequence number 0 and acknowledges the SYN.
      let segment = Segment(.device, [.rst, .ack], sequence: 0, acknowledges: stream.clientStart &+ 1)
      append(segment, of: stream, time: time)
    case .abandoned:
      let segment = Segment(.client, .rst, sequence: stream.clientStart &+ 1, acknowledges: 0)
      append(segment, of: stream, time: time)
    case .bytes(from: let side):
      appendBytes(from: side, of: stream, at: position, payload, time: time)
    case .ended(let side):
      var segment = acknowledgement(from: side, of: stream, at: position)
      segment.flags.insert(.fin)
      append(segment, of: stream, time: time)
      appendAcknowledgement(after: event, from: side.other, of: stream, at: position, time: time)
    case .reset(by: let side):
      var segment = acknowledgement(from: side, of: stream, at: position)
      segment.flags.insert(.rst)
      append(segment, of: stream, time: time)
    }
  }

  /// How many packets ``append(_:of:at:payload:time:)`` makes of an event with `count` bytes.
  package static func packets(of event: StreamEvent, of stream: CapturedStream, count: Int) -> UInt64 {
    switch event {
    case .asked, .refused, .abandoned, .reset: 1
    case .accepted, .ended: 2
    case .bytes: UInt64((count + stream.segmentSize - 1) / stream.segmentSize + 1)
    }
  }

  private mutating func appendBytes(
    from side: StreamSide, of stream: CapturedStream, at position: StreamPosition, _ payload: [UInt8],
    time: UInt64
  ) {
    var segment = acknowledgement(from: side, of: stream, at: position)
    var rest = payload[...]
    while !rest.isEmpty {
      let piece = rest.prefix(stream.segmentSize)
      rest = rest.dropFirst(piece.count)
      if rest.isEmpty { segment.flags.insert(.psh) }
      append(segment, piece, of: stream, time: time)
      segment.sequence &+= UInt32(truncatingIfNeeded: piece.count)
    }
    let event = StreamEvent.bytes(from: side)
    appendAcknowledgement(
      after: event, payload.count, from: side.other, of: stream, at: position, time: time)
  }

  private mutating func appendAcknowledgement(
    after event: StreamEvent, _ count: Int = 0, from side: StreamSide, of stream: CapturedStream,
    at position: StreamPosition, time: UInt64
  ) {
    var position = position
    position.pass(event, count)
    append(acknowledgement(from: side, of: stream, at: position), of: stream, time: time)
  }

  /// A segment without bytes; others are made of it.
  private func acknowledgement(
    from side: StreamSide, of stream: CapturedStream, at position: StreamPosition
  ) -> Segment {
    func next(_ side: StreamSide) -> UInt32 {
      stream.start(side) &+ 1 &+ UInt32(truncatingIfNeeded: position.used(side))
    }
    return Segment(side, .ack, sequence: next(side), acknowledges: next(side.other))
  }

  // MARK: Packets

  private struct Segment {
    let side: StreamSide
    var flags: Flags
    var sequence: UInt32
    let acknowledges: UInt32

    init(_ side: StreamSide, _ flags: Flags, sequence: UInt32, acknowledges: UInt32) {
      self.side = side
      self.flags = flags
      self.sequence = sequence
      self.acknowledges = acknowledges
    }
  }

  private struct Flags: OptionSet {
    let rawValue: UInt8
    static let fin = Flags(rawValue: 0x01)
    static let syn = Flags(rawValue: 0x02)
    static let rst = Flags(rawValue: 0x04)
    static let psh = Flags(rawValue: 0x08)
    static let ack = Flags(rawValue: 0x10)
  }

  /// Of TCP, the number in both versions' headers.
  private static let tcp: UInt8 = 6
  private static let timeToLive: UInt8 = 64
  /// The shift of the window that SYNs announce: 65,535 shifted so far is more than is ever between two
  /// acknowledgements, so that no reader believes a window to be full.
  private static let windowShift: UInt8 = 8
  private static let synOptionsSize = 8

  private mutating func append(
    _ segment: Segment, _ payload: ArraySlice<UInt8> = [], of stream: CapturedStream, time: UInt64
  ) {
    let isSyn = segment.flags.contains(.syn)
    let length = stream.headerSize + (isSyn ? Self.synOptionsSize : 0) + payload.count
    let comment = segment.flags == .syn ? stream.comment : nil
    packet(at: time, length: length, comment: comment) { block in
      var checksum = block.appendIPHeader(
        from: stream.end(segment.side).address, to: stream.end(segment.side.other).address, length: length)
      let start = block.bytes.count
      block.appendTCPHeader(segment, of: stream)
      if isSyn { block.appendSynOptions(stream) }
      block.append(payload)
      unsafe block.bytes.withUnsafeBytes {
        unsafe checksum.add(UnsafeRawBufferPointer(rebasing: $0[start...]))
      }
      block.replaceNetwork(checksum.value, at: start + 16)
    }
  }

  /// RFC 9293, 3.1:
  ///
  ///     0  source port    2  destination port
  ///     4  sequence number
  ///     8  acknowledgement number
  ///     12 length in words (4 bits), flags    14 window
  ///     16 checksum       18 urgent pointer
  private mutating func appendTCPHeader(_ segment: Segment, of stream: CapturedStream) {
    let words = 5 + (segment.flags.contains(.syn) ? Self.synOptionsSize / 4 : 0)
    appendNetwork(stream.end(segment.side).port)
    appendNetwork(stream.end(segment.side.other).port)
    appendNetwork(segment.sequence)
    appendNetwork(segment.acknowledges)
    appendNetwork(UInt8(words << 4))
    appendNetwork(segment.flags.rawValue)
    appendNetwork(segment.flags.contains(.rst) ? UInt16(0) : UInt16.max)
    appendNetwork(UInt32(0))
  }

  /// The largest segment (kind 2), a filler (1), the shift of the window (3).
  private mutating func appendSynOptions(_ stream: CapturedStream) {
    append([2, 4])
    appendNetwork(UInt16(truncatingIfNeeded: stream.segmentSize))
    append([1, 3, 3, Self.windowShift])
  }

  /// Appends the header of a packet of `length` bytes; returns the checksum of TCP's pseudo-header.
  private mutating func appendIPHeader(
    from source: HostAddress, to destination: HostAddress, length: Int
  ) -> InternetChecksum {
    var pseudo = InternetChecksum()
    pseudo.add(Self.tcp)
    switch (source, destination) {
    case (.v4(let source), .v4(let destination)):
      pseudo.add(source)
      pseudo.add(destination)
      pseudo.add(UInt16(truncatingIfNeeded: length - 20))
      appendIPv4Header(source, destination, length)
    case (.v6(let sourceHigh, let sourceLow), .v6(let destinationHigh, let destinationLow)):
      for half in [sourceHigh, sourceLow, destinationHigh, destinationLow] { pseudo.add(half) }
      pseudo.add(UInt16(truncatingIfNeeded: length - 40))
      // RFC 8200, 3: version, traffic class and flow label; length of the rest; next header; hop limit; addresses.
      appendNetwork(UInt32(6) << 28)
      appendNetwork(UInt16(truncatingIfNeeded: length - 40))
      append([Self.tcp, Self.timeToLive])
      for half in [sourceHigh, sourceLow, destinationHigh, destinationLow] { appendNetwork(half) }
    case (.v4, .v6), (.v6, .v4): break
    }
    return pseudo
  }

  /// RFC 791, 3.1:
  ///
  ///     0  version and length in words    1  type of service    2  length of the packet
  ///     4  identification                 6  flags and fragment offset
  ///     8  time to live                   9  protocol           10 checksum of the header
  ///     12 source                         16 destination
  private mutating func appendIPv4Header(_ source: UInt32, _ destination: UInt32, _ length: Int) {
    let start = bytes.count
    append([0x45, 0])
    appendNetwork(UInt16(truncatingIfNeeded: length))
    // "Don't fragment": the identification means nothing then (RFC 6864).
    appendNetwork(UInt32(0x4000))
    append([Self.timeToLive, Self.tcp])
    appendNetwork(UInt16(0))
    appendNetwork(source)
    appendNetwork(destination)
    var checksum = InternetChecksum()
    unsafe bytes.withUnsafeBytes { unsafe checksum.add(UnsafeRawBufferPointer(rebasing: $0[start...])) }
    replaceNetwork(checksum.value, at: start + 10)
  }
}
