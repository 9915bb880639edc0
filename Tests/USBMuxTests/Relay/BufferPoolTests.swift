import Testing

@testable import USBMux

@Suite("Copy buffers", .timeLimit(.minutes(3)))
struct BufferPoolTests {
  @Test("What is in demand stays; what was not needed for a while is given back, all but one")
  func trim() throws {
    let thread = try LoopThread()
    let pool = try thread.run { Unchecked(BufferPool(loop: thread.loop, patience: 50_000_000)) }
    try thread.run {
      var taken: [UnsafeMutableRawPointer] = []
      for _ in 0..<100 { taken.append(pool.value.take()) }
      for buffer in taken { pool.value.giveBack(buffer) }
      #expect(pool.value.freeCount == 64, "no more than it may keep")
    }
    try eventually("they are given back") { try thread.run { pool.value.freeCount } == 1 }
    // It can be used as before.
    try thread.run {
      let buffer = pool.value.take()
      buffer.storeBytes(of: 7, as: UInt8.self)
      #expect(pool.value.freeCount == 0)
      pool.value.giveBack(buffer)
      pool.value = BufferPool(loop: thread.loop)
    }
  }
}

/// Goes to the loop's thread, where it is made, used and dropped.
private final class Unchecked<Value>: @unchecked Sendable {
  var value: Value
  init(_ value: Value) { self.value = value }
}
