@testable import MuxProtocol

/// Packets as a device would send them, put together byte by byte here and not by the codecs that are
/// under test.
enum DeviceSide {
  static func be(_ value: UInt16) -> [UInt8] {
    [UInt8(value >> 8), UInt8(value & 0xff)]
  }

  static func be(_ value: UInt32) -> [UInt8] {
    [UInt8(value >> 24), UInt8(value >> 16 & 0xff), UInt8(value >> 8 & 0xff), UInt8(value & 0xff)]
  }

  /// A packet with an eight-byte header.
  static func short(_ content: UInt32, _ body: [UInt8], length: UInt32? = nil) -> [UInt8] {
    be(content) + be(length ?? UInt32(8 + body.count)) + body
  }

  /// A packet with a sixteen-byte header.
  static func long(
    _ content: UInt32, _ body: [UInt8], number: UInt16, received: UInt16 = 0,
    magic: UInt32 = 0xfeed_face, length: UInt32? = nil
  ) -> [UInt8] {
    be(content) + be(length ?? UInt32(16 + body.count)) + be(magic) + be(number) + be(received) + body
  }

  static func version(_ major: UInt32) -> [UInt8] {
    short(0, be(major) + be(UInt32(0)) + be(UInt32(0)))
  }

  /// The twenty bytes of a segment's header, and payload.
  static func segment(
    from devicePort: UInt16 = 8765, to hostPort: UInt16 = 40000, sequence: UInt32, ack: UInt32,
    _ flags: UInt8, window: UInt16 = 512, dataOffset: UInt8 = 5, _ payload: [UInt8] = []
  ) -> [UInt8] {
    be(devicePort) + be(hostPort) + be(sequence) + be(ack) + [dataOffset << 4, flags] + be(window)
      + [0, 0, 0, 0] + payload
  }

  static let fin: UInt8 = 0x01
  static let syn: UInt8 = 0x02
  static let rst: UInt8 = 0x04
  static let psh: UInt8 = 0x08
  static let ack: UInt8 = 0x10
  static let urg: UInt8 = 0x20
  static let synAck: UInt8 = 0x12
}

/// What came out of a link, payload as bytes.
enum Seen: Equatable {
  case event(LinkEvent)
  case bytes(SessionID, [UInt8])
}

/// A packet that the host sent, taken apart by hand.
struct HostPacket: Equatable, CustomStringConvertible {
  var content: UInt32
  /// tx_seq and rx_seq, on version 2 links.
  var numbers: [UInt16] = []
  /// Segments only.
  var ports: [UInt16] = []
  var sequence: UInt32 = 0
  var ack: UInt32 = 0
  var flags: UInt8 = 0
  var window: UInt16 = 0
  /// Bodies of everything else.
  var body: [UInt8] = []

  init(_ bytes: [UInt8], version: MuxVersion?) {
    func number16(_ at: Int) -> UInt16 { UInt16(bytes[at]) << 8 | UInt16(bytes[at + 1]) }
    func number32(_ at: Int) -> UInt32 { UInt32(number16(at)) << 16 | UInt32(number16(at + 2)) }
    content = number32(0)
    let isLong = version == .two && content != 0
    let start = isLong ? 16 : 8
    if isLong { numbers = [number16(12), number16(14)] }
    guard content == 6 else {
      body = Array(bytes[start...])
      return
    }
    ports = [number16(start), number16(start + 2)]
    sequence = number32(start + 4)
    ack = number32(start + 8)
    flags = bytes[start + 13]
    window = number16(start + 14)
  }

  var description: String {
    content == 6
      ? "\(ports) seq \(sequence) ack \(ack) flags \(flags) window \(window) numbers \(numbers)"
      : "content \(content) numbers \(numbers) body \(body)"
  }
}

/// A host link under test, with the device's part spoken by the test: reads like a packet trace.
///
/// A class, since a link cannot be copied and the checks of the test library copy what they look at.
final class Trace {
  var link: HostLink
  var now = Instant.origin
  /// tx_seq of the device's next packet.
  var number: UInt16 = 0

  init(_ configuration: LinkConfiguration = LinkConfiguration(), firstPort: UInt16 = 40000) {
    link = HostLink(configuration: configuration, firstPort: firstPort)
    link.start(at: now)
  }

  /// A link that is up, with everything sent that belongs to that.
  static func up(
    _ version: MuxVersion = .two, _ configuration: LinkConfiguration = LinkConfiguration(),
    firstPort: UInt16 = 40000
  ) -> Trace {
    let trace = Trace(configuration, firstPort: firstPort)
    _ = trace.sent()
    _ = trace.receive(DeviceSide.version(version.rawValue))
    _ = trace.sent()
    return trace
  }

  /// A link with one open session between host port 40000 and device port 8765.
  static func open(
    _ configuration: LinkConfiguration = LinkConfiguration(), window: UInt16 = 512
  ) throws -> (Trace, SessionID) {
    let trace = Trace.up(.two, configuration)
    let id = try trace.link.connect(port: 8765, at: trace.now)
    _ = trace.sent()
    _ = trace.segment(sequence: 0, ack: 1, DeviceSide.synAck, window: window)
    _ = trace.sent()
    return (trace, id)
  }

  var version: MuxVersion? { link.version }
  var deadline: Instant? { link.nextDeadline }
  var counters: LinkCounters { link.counters }
  var sessionCount: Int { link.sessionCount }
  var hasPendingPackets: Bool { link.hasPendingPackets }
  var dataHeaderSize: Int { link.dataHeaderSize }

  func sendable(_ id: SessionID) -> Int {
    link.sendable(id)
  }

  func connect(_ port: UInt16 = 8765) throws -> SessionID {
    try link.connect(port: port, at: now)
  }

  func consumed(_ id: SessionID, _ count: Int) {
    link.consumed(id, count: count, at: now)
  }

  /// One transfer from the device.
  func receive(_ transfer: [UInt8]) -> [Seen] {
    var seen: [Seen] = []
    var cursor = 0
    let stored = transfer.stored
    while let event = link.nextEvent(in: stored.span, cursor: &cursor, at: now) {
      if case .payload(let id, let range) = event {
        seen.appendJoining(.bytes(id, Array(transfer[range])))
      } else {
        seen.append(.event(event))
      }
    }
    return seen
  }

  /// A segment of the device with the next packet number, in one transfer of its own.
  func segment(
    from devicePort: UInt16 = 8765, to hostPort: UInt16 = 40000, sequence: UInt32, ack: UInt32,
    _ flags: UInt8, window: UInt16 = 512, _ payload: [UInt8] = []
  ) -> [Seen] {
    let body = DeviceSide.segment(
      from: devicePort, to: hostPort, sequence: sequence, ack: ack, flags, window: window, payload)
    defer { number &+= 1 }
    return receive(DeviceSide.long(6, body, number: number))
  }

  /// The packets without payload that the host sends now.
  func sent() -> [HostPacket] {
    var packets: [HostPacket] = []
    while let bytes = sentBytes() {
      packets.append(HostPacket(bytes, version: link.version))
    }
    return packets
  }

  /// The next of them as it stands on the wire.
  func sentBytes() -> [UInt8]? {
    var bytes: [UInt8] = []
    var isThere = false
    bytes.append(addingCapacity: HostLink.maximumControlPacketSize) { output in
      isThere = link.nextPacket(into: &output)
    }
    return isThere ? bytes : nil
  }

  /// Frames payload and returns the packet's headers.
  func frame(_ id: SessionID, _ count: Int) throws -> HostPacket {
    HostPacket(try frameBytes(id, count), version: link.version)
  }

  func frameBytes(_ id: SessionID, _ count: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    let size = link.dataHeaderSize
    try bytes.append(addingCapacity: size) { (output: inout OutputSpan<UInt8>) in
      try link.frameData(id, payloadCount: count, into: &output)
    }
    return bytes
  }

  /// Lets time pass and returns what is due then.
  func advance(by duration: Duration) -> [LinkEvent] {
    now = now.advanced(by: duration)
    link.advance(to: now)
    var events: [LinkEvent] = []
    while let event = link.nextEvent(at: now) { events.append(event) }
    return events
  }
}

extension [Seen] {
  /// Appends, joining pieces of one session's payload.
  mutating func appendJoining(_ next: Seen) {
    if case .bytes(let id, let bytes) = next, case .bytes(id, let before)? = last {
      self[count - 1] = .bytes(id, before + bytes)
    } else {
      append(next)
    }
  }
}

extension SessionID {
  /// The first session of a link whose first port is 40000.
  static let first = SessionID(index: 0, hostPort: 40000, serial: 0)
}

/// Feeds bytes whole, byte by byte, and in two pieces at every split point, to a machine that is made
/// anew for each, and calls `check` with what came out.
func feedEveryWay(
  _ bytes: [UInt8], make: () throws -> Trace, check: (_ seen: [Seen], _ way: String) throws -> Void
) rethrows {
  func feed(_ pieces: [ArraySlice<UInt8>], _ way: String) throws {
    let trace = try make()
    var seen: [Seen] = []
    for piece in pieces {
      for item in trace.receive(Array(piece)) { seen.appendJoining(item) }
    }
    try check(seen, way)
  }
  try feed([bytes[...]], "whole")
  try feed(bytes.indices.map { bytes[$0...$0] }, "byte by byte")
  for split in bytes.indices.dropFirst() {
    try feed([bytes[..<split], bytes[split...]], "split at \(split)")
  }
}

extension [UInt8] {
  /// The same bytes in an array whose span does not need macOS 26.
  var stored: ContiguousArray<UInt8> {
    ContiguousArray(self)
  }
}
