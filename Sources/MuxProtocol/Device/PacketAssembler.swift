/// A packet's headers, complete, with the size of what follows them.
struct PacketHead: Equatable {
  enum Content: Equatable {
    case version
    case control
    case segment(SegmentHeader)
    /// Nothing in the packet is of use.
    case useless(LinkNote)
  }

  var content: Content
  /// The version 2 fields where they are there and can be trusted.
  var numbers: MuxHeader.Numbers?
  /// Bytes that follow the headers.
  var payloadCount: Int
}

/// Cuts a stream of bytes into packets.
///
/// "Reads can be cut anywhere and several packets can share one read: only the length field counts."
/// Headers are gathered here; payload is handed out as ranges of the bytes that were passed in, and is
/// never copied.
struct PacketAssembler: Sendable {
  enum Step: Equatable {
    case head(PacketHead)
    /// A piece of the last head's payload.
    case payload(Range<Int>, isLast: Bool)
    /// A length that cannot be: nobody knows where the next packet begins.
    case lost(length: UInt32)
  }

  /// The version that was agreed on, nil before that.
  var version: MuxVersion?

  /// The first bytes of a packet whose headers are not complete.
  private var gathered = ContiguousArray<UInt8>()
  private var payloadLeft = 0

  private static let largestHead = MuxHeader.longSize + SegmentHeader.size

  init() {
    gathered.reserveCapacity(Self.largestHead)
  }

  /// Goes on at `cursor`, which must lie within the bytes, and moves it past what was used. Returns nil
  /// once more bytes are needed; all of these are used then.
  mutating func next(in bytes: Span<UInt8>, cursor: inout Int) -> Step? {
    if payloadLeft > 0 {
      let count = min(payloadLeft, bytes.count - cursor)
      guard count > 0 else { return nil }
      let range = cursor..<cursor + count
      cursor += count
      payloadLeft -= count
      return .payload(range, isLast: payloadLeft == 0)
    }
    do {
      // Whole in these bytes, as nearly always: read where it stands.
      if gathered.isEmpty, bytes.count - cursor >= Self.largestHead {
        let layout = try layout(of: bytes, at: cursor)
        let head = try decode(layout, from: bytes, at: cursor)
        cursor += layout.headSize
        payloadLeft = head.payloadCount
        return .head(head)
      }
      guard gather(MuxHeader.shortSize, from: bytes, cursor: &cursor) else { return nil }
      let layout = try layout(of: gathered.span, at: 0)
      guard gather(layout.headSize, from: bytes, cursor: &cursor) else { return nil }
      let head = try decode(layout, from: gathered.span, at: 0)
      gathered.removeAll(keepingCapacity: true)
      payloadLeft = head.payloadCount
      return .head(head)
    } catch {
      return .lost(length: error.length)
    }
  }

  /// Gathers until there are `count` bytes; false when the bytes end before.
  private mutating func gather(_ count: Int, from bytes: Span<UInt8>, cursor: inout Int) -> Bool {
    while gathered.count < count {
      guard cursor < bytes.count else { return false }
      gathered.append(bytes[cursor])
      cursor += 1
    }
    return true
  }

  private struct FramingLost: Error {
    var length: UInt32
  }

  /// What the first eight bytes say.
  private struct Layout {
    /// The first eight bytes.
    var header: MuxHeader
    /// Bytes of all headers, eight or more.
    var headSize: Int
    /// Whether the packet is long enough for the headers that its kind has.
    var isLongEnough: Bool
  }

  private func layout(of bytes: Span<UInt8>, at offset: Int) throws(FramingLost) -> Layout {
    let header: MuxHeader
    do {
      header = try MuxHeader(version: .one, from: bytes, at: offset)
    } catch {
      throw FramingLost(length: 0)
    }
    guard header.length >= MuxHeader.shortSize, header.length <= MuxHeader.maximumLength else {
      throw FramingLost(length: header.length)
    }
    // "The VERSION exchange itself always uses the 8-byte header", and so does every packet before the
    // version is agreed, as far as anybody knows.
    guard let version, header.content != MuxContent.version.rawValue else {
      return Layout(header: header, headSize: MuxHeader.shortSize, isLongEnough: true)
    }
    let muxSize = MuxHeader.size(version)
    guard header.length >= muxSize else {
      return Layout(header: header, headSize: MuxHeader.shortSize, isLongEnough: false)
    }
    guard header.content == MuxContent.tcp.rawValue else {
      return Layout(header: header, headSize: muxSize, isLongEnough: true)
    }
    let size = muxSize + SegmentHeader.size
    guard header.length >= size else {
      return Layout(header: header, headSize: muxSize, isLongEnough: false)
    }
    return Layout(header: header, headSize: size, isLongEnough: true)
  }

  private func decode(
    _ layout: Layout, from bytes: Span<UInt8>, at offset: Int
  ) throws(FramingLost) -> PacketHead {
    let (content, length) = (layout.header.content, layout.header.length)
    let payloadCount = Int(length) - layout.headSize
    func head(_ content: PacketHead.Content, numbers: MuxHeader.Numbers? = nil) -> PacketHead {
      PacketHead(content: content, numbers: numbers, payloadCount: payloadCount)
    }
    if content == MuxContent.version.rawValue {
      return head(.version)
    }
    guard let version else {
      // A host that died leaves packets of its sessions behind, with headers of either size. They are
      // of no use to anybody; the length is all that counts.
      return head(
        content == MuxContent.control.rawValue ? .control : .useless(.stale(content: content, length: length))
      )
    }
    guard layout.headSize > MuxHeader.shortSize || version == .one else {
      return head(.useless(.shortPacket(content: content, length: length)))
    }
    do {
      let numbers = try MuxHeader(version: version, from: bytes, at: offset).numbers
      if let numbers, numbers.magic != MuxHeader.magic {
        return head(.useless(.wrongMagic(numbers.magic)))
      }
      guard layout.isLongEnough else {
        return head(.useless(.shortPacket(content: content, length: length)), numbers: numbers)
      }
      switch MuxContent(rawValue: content) {
      case .control:
        return head(.control, numbers: numbers)
      case .tcp:
        let segment = try SegmentHeader(from: bytes, at: offset + MuxHeader.size(version))
        return head(.segment(segment), numbers: numbers)
      case .version, .setup, nil:
        return head(.useless(.unknownContent(content, length: length)), numbers: numbers)
      }
    } catch {
      throw FramingLost(length: length)
    }
  }
}
