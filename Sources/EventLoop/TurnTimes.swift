/// How long the turns of a loop took, its sleep not counted: so long may what becomes ready have to wait.
///
/// Not measured where libuv itself waits for descriptors (Darwin): the count stays 0 there.
package struct TurnTimes: Sendable, Equatable {
  /// Turns that took less than 2, 4, 8, ... microseconds, each in one place only; the last place has the rest.
  package private(set) var buckets = [UInt64](repeating: 0, count: TurnTimes.bucketCount)
  package private(set) var count: UInt64 = 0
  /// Nanoseconds.
  package private(set) var total: UInt64 = 0
  /// Nanoseconds.
  package private(set) var longest: UInt64 = 0

  /// Up to about four seconds.
  package static let bucketCount = 22

  package init() {}

  @inline(__always)
  package mutating func add(_ nanoseconds: Int64) {
    let time = UInt64(clamping: nanoseconds)
    count &+= 1
    total &+= time
    if time > longest { longest = time }
    let place = UInt64.bitWidth - (time / 1000).leadingZeroBitCount
    buckets[min(max(place - 1, 0), TurnTimes.bucketCount - 1)] &+= 1
  }

  /// The time below which a bucket's turns stayed, seconds; nil for the last one.
  package static func bound(_ bucket: Int) -> Double? {
    bucket < bucketCount - 1 ? Double(UInt64(2) << UInt64(clamping: bucket)) / 1e6 : nil
  }

  /// A time that at most `share` of the turns exceeded, seconds, as exactly as the buckets tell.
  package func quantile(_ share: Double) -> Double {
    var left = Double(count) * share
    for (bucket, turns) in buckets.enumerated() {
      left -= Double(turns)
      if left <= 0 { return min(TurnTimes.bound(bucket) ?? .infinity, Double(longest) / 1e9) }
    }
    return Double(longest) / 1e9
  }
}
