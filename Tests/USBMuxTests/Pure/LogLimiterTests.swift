import MuxProtocol
import Testing

@testable import USBMux

@Suite("Log limiter")
struct LogLimiterTests {
  private let period = LogLimiter.period.saturatingNanoseconds
  private func at(_ nanoseconds: Int64) -> Instant { Instant(nanoseconds: nanoseconds) }

  @Test("The first line is written at once, equal ones once for each period, with the number left out")
  func limits() {
    var limiter = LogLimiter()
    #expect(limiter.decide("refused", at: at(0)) == .write(suppressed: 0))
    for index in 1...999 {
      #expect(limiter.decide("refused", at: at(Int64(index) * 1_000_000)) == .suppress)
    }
    #expect(limiter.decide("refused", at: at(period - 1)) == .suppress)
    #expect(limiter.decide("refused", at: at(period)) == .write(suppressed: 1000))
    #expect(limiter.decide("refused", at: at(period + 1)) == .suppress)
    #expect(limiter.decide("refused", at: at(2 * period)) == .write(suppressed: 1))
    #expect(limiter.decide("refused", at: at(9 * period)) == .write(suppressed: 0))
  }

  @Test("Topics do not silence one another")
  func topics() {
    var limiter = LogLimiter()
    #expect(limiter.decide("a", at: at(0)) == .write(suppressed: 0))
    #expect(limiter.decide("b", at: at(0)) == .write(suppressed: 0))
    #expect(limiter.decide("a", at: at(1)) == .suppress)
  }

  @Test("A flood of topics costs bounded memory, and old topics make room first")
  func flood() {
    var limiter = LogLimiter()
    for index in 0..<LogLimiter.capacity - 1 { _ = limiter.decide("old \(index)", at: at(0)) }
    #expect(limiter.decide("live", at: at(period)) == .write(suppressed: 0))
    // One above the capacity: the old ones go, the live one is remembered.
    #expect(limiter.decide("new", at: at(period)) == .write(suppressed: 0))
    #expect(limiter.decide("live", at: at(period + 1)) == .suppress)
    // Nothing is old: all are forgotten, which writes a line too many and no more.
    for index in 0..<100_000 { _ = limiter.decide("topic \(index)", at: at(period + 2)) }
    #expect(Mirror(reflecting: limiter).children.first.map { "\($0.value)".count < 100_000 } == true)
  }
}
