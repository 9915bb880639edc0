/// Events that wait to be taken. Once its storage has grown, nothing is allocated.
struct EventQueue: Sendable {
  private var events = ContiguousArray<LinkEvent>()
  private var taken = 0

  mutating func append(_ event: LinkEvent) {
    events.append(event)
  }

  mutating func removeFirst() -> LinkEvent? {
    guard taken < events.count else { return nil }
    let event = events[taken]
    taken += 1
    if taken == events.count {
      taken = 0
      events.removeAll(keepingCapacity: true)
    }
    return event
  }
}

/// Answers to segments that belong to no session.
///
/// A device that remembers the sessions of an earlier host needs one for each; beyond that the answers
/// are capped, since a device that never stops must not fill the memory.
struct StrangerQueue: Sendable {
  private var segments = ContiguousArray<SegmentHeader>()

  static let limit = 64

  var isEmpty: Bool {
    segments.isEmpty
  }

  /// Queues the answer to a segment; false if too many are waiting.
  mutating func append(_ segment: SegmentHeader) -> Bool {
    guard segments.count < Self.limit else { return false }
    segments.append(
      SegmentHeader(
        source: segment.destination, destination: segment.source, sequence: SequenceNumber(0),
        acknowledgement: segment.sequence, flags: .rst, window: ScaledWindow(units: 0)))
    return true
  }

  mutating func removeFirst() -> SegmentHeader? {
    segments.isEmpty ? nil : segments.removeFirst()
  }

  mutating func removeAll() {
    segments.removeAll()
  }
}

/// The payload of a packet that the link itself reads.
struct CollectedText: Sendable {
  private var bytes = ContiguousArray<UInt8>()
  private var limit = 0

  /// Bytes of a device's message that are kept. The rest is passed over.
  static let usualLimit = 1024

  mutating func begin(limit: Int) {
    bytes.removeAll(keepingCapacity: true)
    self.limit = limit
  }

  mutating func append(_ piece: Span<UInt8>) {
    let room = max(limit - bytes.count, 0)
    for index in 0..<min(room, piece.count) {
      bytes.append(piece[index])
    }
  }

  mutating func take() -> ContiguousArray<UInt8> {
    defer { bytes = [] }
    return bytes
  }

  mutating func removeFirst() -> UInt8? {
    bytes.isEmpty ? nil : bytes.removeFirst()
  }

  /// Before the version is agreed, a packet of an earlier link can have a version 2 header, of which
  /// the second half was taken for payload.
  mutating func dropLongHeader() {
    let rest = MuxHeader.longSize - MuxHeader.shortSize
    guard bytes.count >= rest, bytes.starts(with: [0xfe, 0xed, 0xfa, 0xce]) else { return }
    bytes.removeFirst(rest)
  }

  /// The bytes as text: what is not UTF-8 is replaced, NULs and line ends behind it are cut off.
  func string() -> String {
    let end = bytes.lastIndex { $0 != 0 && $0 != 0x0a && $0 != 0x0d }.map { $0 + 1 } ?? 0
    return String(decoding: bytes[..<end], as: UTF8.self)
  }
}
