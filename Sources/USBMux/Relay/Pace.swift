/// Tells a stream of bulk from one of small messages by what a relay moves in its turns.
///
/// Small messages are not bulk, however many there are: a connection that asks and answers all day stays where
/// nobody's slices stand before it, and one that has just moved a file and asks and answers now comes back there.
struct Pace {
  /// Bytes that make a turn one of bulk.
  static let bulkTurn = 64 * 1024
  /// Bytes of turns of bulk that make the relay bulk.
  static let bulkThreshold = 1 << 20
  /// Turns in a row, none of bulk, that make it one of small messages again.
  static let quietTurns = 64

  private(set) var isBulk = false
  /// Bytes of bulk turns while it is not bulk; other turns while it is.
  private var evidence = 0

  /// A turn has moved so many bytes, both directions taken together.
  mutating func moved(_ bytes: UInt64) {
    let isBulkTurn = bytes >= Pace.bulkTurn
    if isBulk {
      guard !isBulkTurn else { return evidence = 0 }
      // A turn that moves nothing says nothing: bulk has many, when its reader stalls.
      if bytes > 0 { evidence += 1 }
      if evidence >= Pace.quietTurns { self = Pace() }
    } else if isBulkTurn {
      evidence += Int(clamping: min(bytes, UInt64(Pace.bulkThreshold)))
      if evidence > Pace.bulkThreshold {
        isBulk = true
        evidence = 0
      }
    }
  }
}
