import Testing

@testable import MuxProtocol

@Suite("Index and deadline lists")
struct IndexListTests {
  @Test("first in, first out; each number once; any can leave")
  func order() {
    var list = IndexList()
    #expect(list.isEmpty)
    for index in [5, 1, 9, 1, 5] { list.append(index) }
    #expect(list.first == 5)
    #expect(list.contains(9))
    #expect(!list.contains(0))
    #expect(!list.contains(1000))
    list.remove(1)
    list.remove(1)
    list.remove(77)
    #expect(list.removeFirst() == 5)
    #expect(list.removeFirst() == 9)
    #expect(list.removeFirst() == nil)
    list.append(5)
    #expect(list.removeFirst() == 5)
    #expect(list.isEmpty)
  }

  @Test("does what an array does", arguments: [1, 2, 3] as [UInt64])
  func model(seed: UInt64) {
    var random = SplitMix64(seed: seed)
    var list = IndexList()
    var model: [Int] = []
    for _ in 0..<20_000 {
      let index = Int.random(in: 0..<40, using: &random)
      switch Int.random(in: 0..<5, using: &random) {
      case 0, 1:
        list.append(index)
        if !model.contains(index) { model.append(index) }
      case 2, 3:
        list.remove(index)
        model.removeAll { $0 == index }
      default:
        #expect(list.removeFirst() == (model.isEmpty ? nil : model.removeFirst()))
      }
      #expect(list.first == model.first)
      #expect(list.contains(index) == model.contains(index))
    }
  }

  @Test("a deadline that is set stays; what is due comes out in order")
  func deadlines() {
    var list = DeadlineList()
    list.schedule(3, at: Instant(nanoseconds: 10))
    list.schedule(1, at: Instant(nanoseconds: 20))
    list.schedule(3, at: Instant(nanoseconds: 30))
    list.schedule(2, at: Instant(nanoseconds: 40))
    #expect(list.first == Instant(nanoseconds: 10))
    #expect(list.removeDue(at: Instant(nanoseconds: 9)) == nil)
    list.cancel(1)
    #expect(list.removeDue(at: Instant(nanoseconds: 40)) == 3)
    #expect(list.removeDue(at: Instant(nanoseconds: 40)) == 2)
    #expect(list.removeDue(at: .distantFuture) == nil)
    #expect(list.first == nil)
  }
}
