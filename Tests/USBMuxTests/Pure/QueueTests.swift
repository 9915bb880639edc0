import EventLoop
import Testing

@testable import MuxProtocol
@testable import USBMux

@Suite("Backoff")
struct BackoffTests {
  @Test("0.1 s, 1 s, then twice as long up to 10 s; and from the start again after a success")
  func pauses() {
    var backoff = Backoff()
    for _ in 0..<2 {
      let pauses = (0..<8).map { _ in backoff.next() }
      #expect(pauses.map { $0 / 100_000_000 } == [1, 10, 20, 40, 80, 100, 100, 100])
      backoff.reset()
    }
    for _ in 0..<1000 { #expect(backoff.next() <= 10_000_000_000) }
  }
}

@Suite("Held bytes")
struct HeldBytesTests {
  private func append(_ bytes: [UInt8], to held: inout HeldBytes) {
    bytes.withUnsafeBytes { held.append($0) }
  }

  private func take(_ count: Int, from held: inout HeldBytes) -> [UInt8] {
    var taken: [UInt8] = []
    // Piece by piece.
    held.take { bytes in
      let part = bytes.prefix(count - taken.count)
      taken += part
      return part.count
    }
    return taken
  }

  @Test("Bytes come out in order, in whatever pieces, across growth and moves")
  func order() {
    var held = HeldBytes(HeldPool())
    let bytes = pattern(1 << 20)
    var given = 0
    var taken: [UInt8] = []
    var step = 1
    while taken.count < bytes.count {
      let more = min(bytes.count - given, step * 4099 % 40_000)
      append(Array(bytes[given..<given + more]), to: &held)
      given += more
      taken += take(step * 2053 % 33_000, from: &held)
      let count = held.count
      #expect(count == given - taken.count)
      step += 1
    }
    #expect(same(taken, bytes))
    let isEmpty = held.isEmpty
    #expect(isEmpty)
  }

  @Test("Nothing taken, everything taken, emptied: the count says so")
  func counts() {
    var held = HeldBytes(HeldPool())
    var counts: [Int] = []
    append([], to: &held)
    counts.append(held.count)
    #expect(take(5, from: &held) == [])
    append([1, 2, 3], to: &held)
    #expect(take(0, from: &held) == [])
    counts.append(held.count)
    #expect(take(3, from: &held) == [1, 2, 3])
    counts.append(held.count)
    append([4], to: &held)
    held.clear()
    counts.append(held.count)
    append([5, 6], to: &held)
    #expect(take(9, from: &held) == [5, 6])
    #expect(counts == [0, 3, 0, 0])
  }
}

@Suite("Memory for held bytes")
struct HeldPoolTests {
  private let bytes = pattern(600_000)

  private func fill(_ held: inout HeldBytes) { bytes.withUnsafeBytes { held.append($0) } }

  @Test("A reader that keeps up now and then costs no memory each time, and stalls of the past keep little")
  func reuse() {
    let pool = HeldPool()
    var held = HeldBytes(pool)
    fill(&held)
    let made = pool.made
    #expect(made == 13)
    held.take { $0.count }
    for _ in 0..<100 {
      fill(&held)
      held.take { $0.count }
    }
    #expect(pool.kept == 12)
    // One more than is kept is made for each of the stalls that are as long as that.
    #expect(pool.made == made + 100)
    for _ in 0..<100 {
      bytes.withUnsafeBytes { held.append(UnsafeRawBufferPointer(rebasing: $0[..<500_000])) }
      held.clear()
    }
    #expect(pool.made == made + 100)
  }

  @Test("What is not taken comes again, and what is given up goes back")
  func pieces() {
    let pool = HeldPool()
    do {
      var held = HeldBytes(pool)
      fill(&held)
      var pieces: [Int] = []
      held.take { bytes in
        pieces.append(bytes.count)
        return pieces.count < 3 ? bytes.count : 1
      }
      #expect(pieces == [HeldPiece.capacity, HeldPiece.capacity, HeldPiece.capacity])
      let left = held.count
      #expect(left == bytes.count - 2 * HeldPiece.capacity - 1)
      #expect(pool.kept == 2)
    }
    #expect(pool.kept == 12, "of 13")
  }
}

@Suite("Turns")
struct TurnQueueTests {
  private func session(_ index: UInt16, serial: UInt32 = 0) -> SessionID {
    SessionID(index: index, hostPort: 1000 + index, serial: serial)
  }

  @Test("Each stands once, in the order of asking")
  func order() {
    var turns = TurnQueue()
    #expect(turns.isEmpty && turns.next() == nil)
    for index in [3, 1, 3, 2, 1] as [UInt16] { turns.add(session(index)) }
    #expect((0..<3).map { _ in turns.next()?.index } == [3, 1, 2])
    #expect(turns.isEmpty && turns.next() == nil)
  }

  @Test("Who asks again stands behind all others")
  func again() {
    var turns = TurnQueue()
    turns.add(session(0))
    turns.add(session(1))
    for expected in [0, 1, 0, 1, 0] as [UInt16] {
      let next = turns.next()
      #expect(next?.index == expected)
      if let next { turns.addAgain(next) }
    }
  }

  @Test("Who was silent goes first, and after its turn behind all others")
  func newcomers() {
    var turns = TurnQueue()
    turns.addAgain(session(0))
    turns.addAgain(session(1))
    #expect(!turns.hasNewcomer)
    turns.add(session(2))
    turns.add(session(0))
    #expect(turns.hasNewcomer)
    #expect(turns.next()?.index == 2)
    turns.addAgain(session(2))
    #expect((0..<3).map { _ in turns.next()?.index } == [0, 1, 2], "each once")
    #expect(turns.isEmpty)
    // One that always has a little more to say takes turns with one that always has much.
    turns.add(session(3))
    turns.addAgain(session(4))
    for expected in [3, 4, 3, 4] as [UInt16] {
      let next = turns.next()
      #expect(next?.index == expected)
      if let next { turns.addAgain(next) }
      turns.add(session(3))
    }
  }

  @Test("A session that is over loses its turn, and a later one with its index gets its own")
  func remove() {
    var turns = TurnQueue()
    turns.add(session(0))
    turns.add(session(1))
    turns.add(session(2))
    _ = turns.next()
    turns.remove(session(1))
    turns.remove(session(7))
    turns.add(session(1, serial: 9))
    #expect(turns.next()?.index == 2)
    #expect(turns.next() == session(1, serial: 9))
    #expect(turns.isEmpty)
  }

  @Test("It does not grow while it is used")
  func longUse() {
    var turns = TurnQueue()
    for index in 0..<600 as Range<UInt16> { turns.add(session(index)) }
    for round in 0..<20 {
      for index in 0..<600 as Range<UInt16> {
        #expect(turns.next()?.index == index, "round \(round)")
        turns.addAgain(session(index))
      }
    }
  }
}

@Suite("Verdicts")
struct VerdictQueueTests {
  /// A question that goes nowhere: its loop does not run.
  private func exchange(_ loop: EventLoop) throws -> DaemonExchange {
    let frame = EncodedFrame(
      try ClientRequest.listDevices.frame(
        tag: 2, info: ClientInfo(programName: "test", clientVersion: "test", libraryVersion: 3)))
    return DaemonExchange(
      frame, with: .unix(path: "/nonexistent/socket"), on: loop, timeout: 1, memory: AnswerMemory()
    ) { _, _, _ in
    }
  }

  @Test("One answer explains all ends that came before it was asked for, and none that came later")
  func batches() throws {
    let loop = try EventLoop()
    var queue = VerdictQueue()
    var answers: [UInt32] = []
    func ask(_ number: UInt32) {
      queue.add(
        VerdictQueue.Question(device: DeviceID(rawValue: number), epoch: 1) { _ in answers.append(number) })
    }
    #expect(!queue.mayAsk)
    ask(1)
    ask(2)
    #expect(queue.mayAsk)
    queue.asks(try exchange(loop))
    ask(3)
    #expect(!queue.mayAsk, "one question at a time")
    #expect(queue.answered().map(\.device.rawValue) == [1, 2])
    #expect(queue.mayAsk)
    queue.asks(try exchange(loop))
    #expect(queue.answered().map(\.device.rawValue) == [3])
    #expect(!queue.mayAsk)
    #expect(queue.answered().isEmpty)
  }
}
