/// Growing pauses between tries.
struct Backoff {
  private static let first: Int64 = 100_000_000
  private static let second: Int64 = 1_000_000_000
  private static let longest: Int64 = 10_000_000_000
  private var current: Int64 = 0

  /// The next pause, nanoseconds: 0.1 s, 1 s, then twice as long each time up to 10 s.
  mutating func next() -> Int64 {
    switch current {
    case 0: current = Self.first
    case Self.first: current = Self.second
    default: current = min(current * 2, Self.longest)
    }
    return current
  }

  mutating func reset() { current = 0 }
}
