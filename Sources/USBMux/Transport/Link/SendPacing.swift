/// How much of bulk streams is under way to the device, and in packets of which size.
///
/// Packets that are under way stand before every small message, and cannot be taken back. Two packets of 16 KiB make
/// a message wait for no more than one packet of the longest kind; they leave the bus idle now and then, between the
/// end of one and the moment at which the host has heard of it. So there are more while one stream is alone, and two
/// for a while after another session has had something to say beside it (docs/PERFORMANCE.md has the figures).
struct SendPacing {
  /// Bytes of one packet, headers included, and of packets under way that forbid another one.
  struct Limits: Equatable {
    let packet: Int
    let underWay: Int
  }

  /// Two of 16 KiB.
  static let shared = Limits(packet: 0x3ffc, underWay: 24 * 1024)
  /// Three of 16 KiB, where each takes 400 us.
  static let aloneAtHighSpeed = Limits(packet: 0x3ffc, underWay: 40 * 1024)
  /// Four of 32 KiB, where each takes 80 us.
  static let aloneAtSuperSpeed = Limits(packet: 0x7ffc, underWay: 112 * 1024)

  private let alone: Limits
  private var bulk: SessionID?
  private var bulkUntil = Int64.min
  private var sharedUntil = Int64.min

  /// For how long a stream counts as bulk, and a message as a sign of others.
  static let memory: Int64 = 1_000_000_000

  /// Protocol: wMaxPacketSize of the OUT endpoint is 512 at high speed, and 1024 at super speed.
  init(endpointPacketSize: Int) {
    alone = endpointPacketSize < 1024 ? Self.aloneAtHighSpeed : Self.aloneAtSuperSpeed
  }

  func limits(at now: Int64) -> Limits { now < sharedUntil ? Self.shared : alone }

  /// A packet of a session is on its way. `isNew`: the session was silent before; `isFull`: it may have more.
  mutating func sent(_ session: SessionID, isNew: Bool, isFull: Bool, at now: Int64) {
    if isNew, session != bulk, now < bulkUntil { sharedUntil = now &+ Self.memory }
    guard isFull else { return }
    bulk = session
    bulkUntil = now &+ Self.memory
  }
}
