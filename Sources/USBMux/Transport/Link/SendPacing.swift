/// How much of bulk streams is under way to the device, and in packets of which size.
///
/// Packets that are under way stand before every small message, and cannot be taken back. At high speed two packets
/// of 16 KiB keep the bus busy: then a message waits for no more than one packet of the longest kind. A bus that is
/// ten times as fast runs dry between two packets while the host hears of the first one's end: there, four of
/// 32 KiB are under way while one stream is alone, and two of 16 KiB for a while after another session has had
/// something to say beside it (docs/PERFORMANCE.md has the figures).
struct SendPacing {
  /// Bytes of one packet, headers included, and of packets under way that forbid another one.
  struct Limits: Equatable {
    let packet: Int
    let underWay: Int
  }

  static let shared = Limits(packet: 0x3ffc, underWay: 24 * 1024)
  static let alone = Limits(packet: 0x7ffc, underWay: 112 * 1024)

  private let isAlwaysShared: Bool
  private var bulk: SessionID?
  private var bulkUntil = Int64.min
  private var sharedUntil = Int64.min

  /// For how long a stream counts as bulk, and a message as a sign of others.
  static let memory: Int64 = 1_000_000_000

  /// Protocol: wMaxPacketSize of the OUT endpoint is 512 at high speed, and 1024 at super speed.
  init(endpointPacketSize: Int) { isAlwaysShared = endpointPacketSize < 1024 }

  func limits(at now: Int64) -> Limits { isAlwaysShared || now < sharedUntil ? Self.shared : Self.alone }

  /// A packet of a session is on its way. `isNew`: the session was silent before; `isFull`: it may have more.
  mutating func sent(_ session: SessionID, isNew: Bool, isFull: Bool, at now: Int64) {
    if isNew, session != bulk, now < bulkUntil { sharedUntil = now &+ Self.memory }
    guard isFull else { return }
    bulk = session
    bulkUntil = now &+ Self.memory
  }
}
