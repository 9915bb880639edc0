import MuxProtocol
import SimulatedPhone
import Testing

@Suite("A host link against a simulated phone: data")
struct TransferTests {
  @Test("an echo of 1 MiB comes back whole, and the host broke no rule")
  func echo() throws {
    var bench = Bench()
    bench.run()
    #expect(bench.linkEvents == [.up(.two)])
    let sent = testBytes(1 << 20)
    let id = try bench.connect(7, sending: sent)
    bench.settle()
    #expect(bench.locals[id]?.received == sent)
    #expect(bench.phone.violations.first == [])
    #expect(bench.link.counters.gaps == 0)
  }
}
