import Testing

@testable import USBMux

@Suite("The pace of a relay")
struct PaceTests {
  @Test("Small messages are never bulk, however many")
  func small() {
    var pace = Pace()
    for _ in 0..<100_000 {
      pace.moved(UInt64(Pace.bulkTurn - 1))
      #expect(!pace.isBulk)
    }
  }

  @Test("Bulk from the threshold on, counted in turns of bulk", arguments: [-1, 0, 1])
  func threshold(_ beyond: Int) {
    var pace = Pace()
    pace.moved(UInt64(Pace.bulkTurn))
    pace.moved(100)
    pace.moved(UInt64(Pace.bulkThreshold - Pace.bulkTurn + beyond))
    #expect(pace.isBulk == (beyond > 0))
  }

  @Test("Nothing that a turn can say is too much")
  func most() {
    var pace = Pace()
    pace.moved(.max)
    #expect(!pace.isBulk)
    pace.moved(.max)
    #expect(pace.isBulk)
    pace.moved(.max)
    #expect(pace.isBulk)
  }

  @Test(
    "Quiet again after a row of small turns; one of bulk, or none at all, starts the row anew or says nothing"
  )
  func quiet() {
    var pace = Pace()
    pace.moved(.max)
    pace.moved(.max)
    for _ in 1..<Pace.quietTurns { pace.moved(1) }
    #expect(pace.isBulk)
    pace.moved(UInt64(Pace.bulkTurn))
    for _ in 1..<Pace.quietTurns { pace.moved(1) }
    for _ in 0..<1000 { pace.moved(0) }
    #expect(pace.isBulk)
    pace.moved(1)
    #expect(!pace.isBulk)
    // From the start again.
    pace.moved(UInt64(Pace.bulkThreshold))
    #expect(!pace.isBulk)
    pace.moved(UInt64(Pace.bulkTurn))
    #expect(pace.isBulk)
  }
}
