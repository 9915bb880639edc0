internal import MuxProtocol

/// Packets that lie in more memory than the caches hold, and as much memory to copy them to: a device's bytes are
/// not in the cache either.
@safe
final class PacketPool {
  private static let slot = 32768
  private static let slots = 1024
  /// A round's packets, with room for the link's own ones, lie in one of as many parts.
  static let parts = 8
  private let source: UnsafeMutableRawBufferPointer
  private let sink: UnsafeMutableRawBufferPointer
  private var next = 0

  init() {
    unsafe source = .allocate(byteCount: Self.slot * Self.slots, alignment: 4096)
    unsafe sink = .allocate(byteCount: Self.slot * Self.slots, alignment: 4096)
    for index in unsafe source.indices {
      unsafe source[index] = 7
      unsafe sink[index] = 0
    }
  }

  deinit {
    unsafe source.deallocate()
    unsafe sink.deallocate()
  }

  /// Goes on at the start of a part.
  func begin(_ part: Int) { next = part * (Self.slots / Self.parts) }

  /// The next packet's memory, `count` bytes of it.
  func take(_ count: Int) -> UnsafeMutableRawBufferPointer {
    next = (next + 1) % Self.slots
    return unsafe UnsafeMutableRawBufferPointer(
      rebasing: source[(next * Self.slot)..<(next * Self.slot + count)])
  }

  /// Where the bytes of the packet that was taken last are copied to.
  private func target(_ count: Int) -> UnsafeMutableRawBufferPointer {
    unsafe UnsafeMutableRawBufferPointer(rebasing: sink[(next * Self.slot)..<(next * Self.slot + count)])
  }

  /// Stands for the one copy between the USB buffer and the socket.
  func deliver(_ bytes: UnsafeRawBufferPointer) { unsafe target(bytes.count).copyMemory(from: bytes) }

  /// What all is compared with.
  func copyNext(_ count: Int) {
    let bytes = unsafe take(count)
    unsafe deliver(UnsafeRawBufferPointer(bytes))
  }
}

/// A link with open sessions, and just enough of a device to keep it going.
final class DevicePath {
  /// Of a packet of 0x7ffc bytes.
  static let longestPayload = 32728
  private static let header = 36
  /// Bytes of one bulk read.
  private static let transfer = 16384

  private let pool: PacketPool
  private var link: HostLink
  private let now = Instant.origin
  private var sessions: [Session] = []
  private var turn = 0
  private var number: UInt16 = 0
  private var delivered = 0
  /// Whether a packet was lost, or could not be sent.
  private(set) var isBroken = false

  private struct Session {
    let id: SessionID
    /// Bytes that the device has sent, and received.
    var sent: UInt32 = 1
    var received: UInt32 = 1
  }

  init(sessions count: Int, pool: PacketPool) {
    self.pool = pool
    link = HostLink(configuration: LinkConfiguration(), firstPort: 1000)
    link.start(at: now)
    drain()
    // VERSION, by the 8-byte header.
    let version: [UInt8] = [0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]
    take(version.span)
    drain()
    for _ in 0..<count {
      guard let id = try? link.connect(port: 8765, at: now) else { continue }
      drain()
      deviceSends(0, to: Session(id: id, sent: 0, received: 1), flags: 0x12)
      sessions.append(Session(id: id))
    }
    drain()
    isBroken = sessions.count != count
  }

  /// The device sends a packet to the session whose turn it is; its bytes are copied once and acknowledged.
  func receive(_ payload: Int) {
    nextTurn()
    let before = delivered
    deviceSends(payload, to: sessions[turn], flags: 0x10)
    sessions[turn].sent &+= UInt32(payload)
    if delivered - before != payload { isBroken = true }
    if link.hasPendingPackets { drain() }
  }

  /// The session whose turn it is sends a packet, whose bytes are copied once; the device acknowledges it.
  func send(_ payload: Int) {
    nextTurn()
    let session = sessions[turn]
    guard link.sendable(session.id) >= payload else {
      isBroken = true
      return
    }
    let packet = unsafe pool.take(Self.header + payload)
    unsafe pool.deliver(UnsafeRawBufferPointer(rebasing: packet[Self.header...]))
    unsafe withOutput(packet, Self.header) { link, output in
      (try? link.frameData(session.id, payloadCount: payload, into: &output)) != nil
    }
    sessions[turn].received &+= UInt32(payload)
    deviceSends(0, to: sessions[turn], flags: 0x10)
  }

  /// Neighbours in time are none in memory.
  private func nextTurn() { turn = (turn + 7919) % sessions.count }

  private func deviceSends(_ payload: Int, to session: Session, flags: UInt8) {
    let packet = unsafe pool.take(Self.header + payload)
    unsafe write(6, at: 0, packet)
    unsafe write(UInt32(packet.count), at: 4, packet)
    unsafe write(0xfeed_face, at: 8, packet)
    unsafe write(UInt32(number) << 16, at: 12, packet)
    unsafe write(8765 << 16 | UInt32(session.id.hostPort), at: 16, packet)
    unsafe write(session.sent, at: 20, packet)
    unsafe write(session.received, at: 24, packet)
    // Data offset 5, flags, a window of 512 units.
    unsafe write(0x5000_0000 | UInt32(flags) << 16 | 512, at: 28, packet)
    unsafe write(0, at: 32, packet)
    number &+= 1
    var start = 0
    while start < packet.count {
      let end = min(start + Self.transfer, packet.count)
      let read = unsafe UnsafeRawBufferPointer(rebasing: packet[start..<end])
      take(unsafe Span<UInt8>(_unsafeBytes: read))
      start = end
    }
  }

  private func write(_ value: UInt32, at offset: Int, _ packet: UnsafeMutableRawBufferPointer) {
    unsafe packet.storeBytes(of: value.bigEndian, toByteOffset: offset, as: UInt32.self)
  }

  /// One bulk read.
  private func take(_ bytes: Span<UInt8>) {
    var cursor = 0
    while let event = link.nextEvent(in: bytes, cursor: &cursor, at: now) {
      guard case .payload(let session, let range) = event else { continue }
      unsafe bytes.extracting(range).withUnsafeBytes { unsafe pool.deliver($0) }
      delivered += range.count
      link.consumed(session, count: range.count, at: now)
    }
  }

  /// The link's own packets go to nobody.
  private func drain() {
    while link.hasPendingPackets {
      let packet = unsafe pool.take(64)
      unsafe withOutput(packet, 64) { link, output in link.nextPacket(into: &output) }
    }
  }

  private func withOutput(
    _ packet: UnsafeMutableRawBufferPointer, _ count: Int,
    _ body: (inout HostLink, inout OutputSpan<UInt8>) -> Bool
  ) {
    var output = unsafe OutputSpan<UInt8>(
      buffer: UnsafeMutableBufferPointer(rebasing: packet.bindMemory(to: UInt8.self)[..<count]),
      initializedCount: 0)
    if !body(&link, &output) { isBroken = true }
  }
}
