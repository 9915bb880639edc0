/// A point in time, in nanoseconds since an origin that the caller chose.
///
/// Nothing in this module reads a clock: whoever drives a state machine says what time it is, and a
/// test moves by half a minute by passing a later instant. Arithmetic saturates at the ends of the
/// range (292 years either way) instead of trapping.
package struct Instant: InstantProtocol, Hashable, Sendable {
  /// Nanoseconds since the caller's origin.
  package var nanoseconds: Int64

  /// The instant that lies `nanoseconds` after the caller's origin.
  package init(nanoseconds: Int64) {
    self.nanoseconds = nanoseconds
  }

  /// The caller's origin.
  package static let origin = Instant(nanoseconds: 0)

  /// An instant that never comes.
  package static let distantFuture = Instant(nanoseconds: .max)

  package static func < (left: Instant, right: Instant) -> Bool {
    left.nanoseconds < right.nanoseconds
  }

  package func advanced(by duration: Duration) -> Instant {
    advanced(byNanoseconds: duration.saturatingNanoseconds)
  }

  package func duration(to other: Instant) -> Duration {
    let (difference, overflow) = other.nanoseconds.subtractingReportingOverflow(nanoseconds)
    guard overflow else { return .nanoseconds(difference) }
    return .nanoseconds(other.nanoseconds < nanoseconds ? Int64.min : Int64.max)
  }

  /// The same as ``advanced(by:)`` without the 128-bit arithmetic of `Duration`.
  package func advanced(byNanoseconds count: Int64) -> Instant {
    let (sum, overflow) = nanoseconds.addingReportingOverflow(count)
    guard overflow else { return Instant(nanoseconds: sum) }
    return Instant(nanoseconds: count < 0 ? .min : .max)
  }
}

extension Duration {
  /// Whole nanoseconds, cut to the range of `Int64`.
  package var saturatingNanoseconds: Int64 {
    let (seconds, attoseconds) = components
    let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
    let (sum, carried) = scaled.addingReportingOverflow(attoseconds / 1_000_000_000)
    guard overflow || carried else { return sum }
    return seconds < 0 ? .min : .max
  }
}
