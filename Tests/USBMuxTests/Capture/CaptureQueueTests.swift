import PacketCapture
import Testing

@testable import USBMux

/// The bound of the queue, without a writer.
@Suite("Capture: queue")
struct CaptureQueueTests {
  private let queue = CaptureQueue()
  private let stream = CapturedStream(
    client: StreamAddress(.v4(1), port: 1), device: StreamAddress(.v4(2), port: 2), number: 1, comment: "")

  /// Adds an event with `count` bytes.
  @discardableResult
  private func add(_ count: Int, _ event: StreamEvent = .bytes(from: .client)) -> CaptureQueue.Urgency? {
    [UInt8](repeating: 7, count: count).withUnsafeBytes {
      queue.add(event, of: stream, at: StreamPosition(), $0)
    }
  }

  private func take() -> [CaptureQueue.Record] {
    var records: [CaptureQueue.Record] = []
    _ = queue.take(&records)
    return records
  }

  private func wrote(_ records: [CaptureQueue.Record]) {
    for record in records {
      queue.wrote(packets: record.packets, bytes: UInt64(record.payload.count), cost: record.cost)
    }
  }

  @Test("Its limit holds: one byte less and exactly so many are taken, one more is dropped")
  func limit() {
    let piece = CaptureQueue.limit / 4
    for _ in 0..<3 { add(piece - CaptureQueue.recordCost) }
    add(piece - CaptureQueue.recordCost + 1)
    #expect(
      queue.counters
        == CaptureQueue.Counters(droppedPackets: dropped(piece - 255), droppedBytes: UInt64(piece - 255)))
    add(piece - CaptureQueue.recordCost - 1)
    #expect(queue.counters.droppedBytes == UInt64(piece - 255), "one byte less")
    let records = take()
    #expect(records.count == 4)
    // What is being written still counts.
    add(2)
    #expect(queue.counters.droppedBytes == UInt64(piece - 255 + 2))
    wrote(records)
    add(piece - CaptureQueue.recordCost)
    #expect(queue.counters.droppedBytes == UInt64(piece - 255 + 2))
    wrote(take())
    for _ in 0..<4 { add(piece - CaptureQueue.recordCost) }
    #expect(take().count == 4, "exactly so many")
  }

  /// The segments of so many bytes, and their acknowledgement.
  private func dropped(_ bytes: Int) -> UInt64 { UInt64((bytes + 65_494) / 65_495 + 1) }

  @Test("Beginnings and ends have room that bytes have not")
  func reserve() {
    while queue.counters.droppedPackets == 0 { add(256 << 10) }
    // All that is left for bytes.
    while queue.counters.droppedPackets < 20 { add(1) }
    let before = queue.counters.droppedPackets
    let room = CaptureQueue.reserve / CaptureQueue.recordCost
    for _ in 0..<room { add(0, .ended(.client)) }
    #expect(queue.counters.droppedPackets == before)
    for _ in 0..<3 { add(0, .reset(by: .device)) }
    #expect(queue.counters.droppedPackets <= before + 3 && queue.counters.droppedPackets > before)
  }

  @Test(
    "The writer is called for the first event, once more when a batch is full, and anew after it took them")
  func urgency() {
    #expect(add(1) == .soon)
    #expect(add(1) == nil)
    #expect(add(CaptureQueue.batch) == .now)
    #expect(add(CaptureQueue.batch) == nil)
    #expect(take().count == 4)
    #expect(add(CaptureQueue.batch) == .now)
    #expect(add(1) == nil)
  }

  @Test("After its end everything is dropped, what waits included")
  func end() {
    for _ in 0..<5 { add(10) }
    queue.end()
    #expect(queue.counters == CaptureQueue.Counters(droppedPackets: 10, droppedBytes: 50))
    add(3)
    add(0, .asked)
    #expect(queue.counters == CaptureQueue.Counters(droppedPackets: 13, droppedBytes: 53))
    #expect(take().isEmpty)
  }

  @Test("Times do not go back in it")
  func times() {
    for _ in 0..<100 { add(1) }
    let times = take().map(\.time)
    #expect(times == times.sorted())
    // After the year 2024.
    #expect(times[0] > 1_704_067_200_000_000_000)
  }
}
