import MuxProtocol
import SimulatedPhone

/// A host link and a simulated phone with a cable between them, all in memory.
///
/// The local side of each session is played here too: what it receives is kept, what it is to send
/// waits until the window has room. Time stands still unless a test moves it.
struct Bench: ~Copyable {
  /// The local side of a session.
  struct Local {
    var isOpen = false
    var received: [UInt8] = []
    /// Bytes that arrived and that the reader has not taken.
    var untaken = 0
    /// The reader takes nothing until this is lifted.
    var isStalled = false
    var toSend: [UInt8] = []
    var sent = 0
    var refusal: String?
    var end: SessionEnd?
  }

  var link: HostLink
  var phone: SimulatedPhone
  var now = Instant.origin
  var locals: [SessionID: Local] = [:]
  /// Events of the link itself.
  var linkEvents: [LinkEvent] = []
  /// Every OUT transfer goes through this first; it says what reaches the phone.
  var wire: ([UInt8]) -> [[UInt8]] = { [$0] }
  let endpointPacketSize: Int

  init(
    _ configuration: LinkConfiguration = LinkConfiguration(), behaviour: PhoneBehaviour = PhoneBehaviour(),
    ports: [UInt16: PhonePort] = SimulatedPhone.usualPorts, firstPort: UInt16 = 40000
  ) {
    link = HostLink(configuration: configuration, firstPort: firstPort)
    phone = SimulatedPhone(behaviour: behaviour, ports: ports)
    endpointPacketSize = behaviour.endpointPacketSize
    link.start(at: now)
  }

  /// Moves everything that can move without time passing.
  mutating func run() {
    while step() {}
  }

  /// Lets time pass, deadline by deadline.
  mutating func advance(by duration: Duration) {
    let end = now.advanced(by: duration)
    run()
    while let deadline = link.nextDeadline, deadline <= end {
      now = deadline
      link.advance(to: now)
      while let event = link.nextEvent(at: now) { meet(event, bytes: []) }
      run()
    }
    now = end
    link.advance(to: now)
    run()
  }

  /// Runs, with time passing as acknowledgements need it, until nothing moves any more.
  mutating func settle() {
    advance(by: .milliseconds(100))
  }

  mutating func connect(_ port: UInt16, sending bytes: [UInt8] = []) throws -> SessionID {
    let id = try link.connect(port: port, at: now)
    locals[id] = Local(toSend: bytes)
    return id
  }

  mutating func close(_ id: SessionID) {
    locals[id]?.isOpen = false
    link.close(id)
  }

  /// One round; false when nothing moved.
  private mutating func step() -> Bool {
    var moved = false
    for id in locals.keys.sorted(by: { $0.hostPort < $1.hostPort }) {
      if takeAndSend(id) { moved = true }
    }
    while link.hasPendingPackets {
      var packet: [UInt8] = []
      packet.append(addingCapacity: HostLink.maximumControlPacketSize) { output in
        _ = link.nextPacket(into: &output)
      }
      if packet.isEmpty { break }
      submit(packet)
      moved = true
    }
    var transfer: [UInt8] = []
    transfer.append(addingCapacity: 65536) { output in
      if phone.nextTransfer(into: &output) { moved = true }
    }
    if !transfer.isEmpty { receive(transfer) }
    return moved
  }

  private mutating func takeAndSend(_ id: SessionID) -> Bool {
    guard var local = locals[id] else { return false }
    defer { locals[id] = local }
    var moved = false
    if local.untaken > 0, !local.isStalled {
      link.consumed(id, count: local.untaken, at: now)
      local.untaken = 0
      moved = true
    }
    let count = min(link.sendable(id), local.toSend.count - local.sent)
    guard local.isOpen, count > 0 else { return moved }
    var packet: [UInt8] = []
    packet.append(addingCapacity: link.dataHeaderSize) { output in
      do {
        try link.frameData(id, payloadCount: count, into: &output)
      } catch {
        local.isOpen = false
      }
    }
    packet += local.toSend[local.sent..<local.sent + count]
    local.sent += count
    submit(packet)
    return true
  }

  /// One packet, one bulk transfer, with the zero-length packet where it is due.
  private mutating func submit(_ packet: [UInt8]) {
    for transfer in wire(packet) {
      phone.receive(transfer.stored.span)
      if transfer.count % endpointPacketSize == 0 { phone.receive(ContiguousArray<UInt8>().span) }
    }
  }

  mutating func receive(_ transfer: [UInt8]) {
    var cursor = 0
    let stored = transfer.stored
    while let event = link.nextEvent(in: stored.span, cursor: &cursor, at: now) {
      meet(event, bytes: transfer)
    }
  }

  private mutating func meet(_ event: LinkEvent, bytes: [UInt8]) {
    switch event {
    case .opened(let id):
      locals[id]?.isOpen = true
    case .refused(let id, let reason):
      locals[id]?.refusal = reason
    case .payload(let id, let range):
      locals[id]?.received += bytes[range]
      locals[id]?.untaken += range.count
    case .closed(let id, let end):
      locals[id]?.isOpen = false
      locals[id]?.end = end
    case .sendableChanged:
      break
    case .up, .failed, .message, .note:
      linkEvents.append(event)
    }
  }
}

/// `count` bytes that do not repeat soon.
func testBytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
  var random = SplitMix64(seed: seed)
  return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
}

/// A random generator that gives the same numbers for the same seed everywhere.
struct SplitMix64: RandomNumberGenerator {
  private var state: UInt64

  init(seed: UInt64) {
    state = seed
  }

  mutating func next() -> UInt64 {
    state &+= 0x9e37_79b9_7f4a_7c15
    var value = state
    value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
    value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
    return value ^ (value >> 31)
  }
}
