import MuxProtocol
import Testing

@Suite("Instant")
struct InstantTests {
  @Test("durations are added in nanoseconds")
  func adds() {
    let start = Instant(nanoseconds: 5)
    #expect(start.advanced(by: .milliseconds(30)) == Instant(nanoseconds: 30_000_005))
    #expect(start.advanced(by: .nanoseconds(-6)) == Instant(nanoseconds: -1))
    #expect(start.duration(to: Instant(nanoseconds: 1_000_000_005)) == .seconds(1))
    #expect(start < Instant(nanoseconds: 6))
  }

  @Test("the ends of the range hold")
  func saturates() {
    #expect(Instant(nanoseconds: .max - 1).advanced(by: .nanoseconds(1)) == .distantFuture)
    #expect(Instant(nanoseconds: .max).advanced(by: .nanoseconds(1)) == .distantFuture)
    #expect(Instant(nanoseconds: .min).advanced(by: .nanoseconds(-1)).nanoseconds == .min)
    #expect(Instant(nanoseconds: 0).advanced(by: .seconds(Int64.max)) == .distantFuture)
    #expect(Instant(nanoseconds: 0).advanced(by: .seconds(-Int64.max)).nanoseconds == .min)
    #expect(Instant(nanoseconds: -2).duration(to: .distantFuture) == .nanoseconds(Int64.max))
    #expect(Instant(nanoseconds: 2).duration(to: Instant(nanoseconds: .min)) == .nanoseconds(Int64.min))
  }
}
