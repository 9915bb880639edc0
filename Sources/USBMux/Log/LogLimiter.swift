/// Decides which of many equal lines are written: the first one at once, then one for each period, with the
/// number of those that were left out. A program that tries a closed port a thousand times a second fills no
/// disk.
struct LogLimiter {
  enum Decision: Equatable {
    /// Write it; so many equal ones were left out before.
    case write(suppressed: Int)
    case suppress
  }

  /// Between two lines on the same topic.
  static let period = Duration.seconds(10)
  /// Topics that are remembered. A flood of different ones is no reason to grow.
  static let capacity = 128

  private struct Entry {
    var lastWritten: Instant
    var suppressed = 0
  }

  private var entries: [String: Entry] = [:]

  mutating func decide(_ topic: String, at now: Instant) -> Decision {
    if var entry = entries[topic] {
      guard entry.lastWritten.duration(to: now) >= Self.period else {
        entry.suppressed += 1
        entries[topic] = entry
        return .suppress
      }
      entries[topic] = Entry(lastWritten: now)
      return .write(suppressed: entry.suppressed)
    }
    if entries.count >= Self.capacity {
      entries = entries.filter { $0.value.lastWritten.duration(to: now) < Self.period }
      if entries.count >= Self.capacity { entries = [:] }
    }
    entries[topic] = Entry(lastWritten: now)
    return .write(suppressed: 0)
  }
}
