internal import CSystem
internal import PacketCapture
internal import Synchronization

/// Events on their way from the threads that move bytes to the one that writes the file.
///
/// It holds a bounded number of bytes; an event that finds no room is dropped and counted. The lock is held for a
/// few instructions only: bytes are copied, and blocks made of them, outside it.
final class CaptureQueue: Sendable {
  /// Bytes of payload that wait, that of what is being written included.
  static let limit = 8 << 20
  /// What events without bytes may use beyond ``limit``: beginnings and ends are worth more to a reader than some
  /// bytes of a stream that loses others anyway.
  static let reserve = 256 << 10
  /// What an event is taken to need besides its bytes.
  static let recordCost = 256
  /// Bytes that wait to be written together.
  static let batch = 512 << 10

  struct Record: Sendable {
    let stream: CapturedStream
    let event: StreamEvent
    let position: StreamPosition
    /// Nanoseconds since 1970.
    let time: UInt64
    let payload: [UInt8]

    var cost: Int { payload.count + CaptureQueue.recordCost }
    var packets: UInt64 { PcapngBlocks.packets(of: event, of: stream, count: payload.count) }
  }

  /// When the writer is wanted.
  enum Urgency: Sendable {
    /// Within the time that is taken to collect events.
    case soon
    case now
  }

  struct Counters: Equatable, Sendable {
    /// Packets and bytes of payload that are in the file.
    var packets: UInt64 = 0
    var bytes: UInt64 = 0
    var droppedPackets: UInt64 = 0
    var droppedBytes: UInt64 = 0
  }

  private let state = Mutex(State())

  private struct State {
    var records: [Record] = []
    /// Bytes of those that wait or are being written, or are being copied.
    var used = 0
    /// Of those that wait.
    var waiting = 0
    var wasWanted: Urgency?
    var isOver = false
    var counters = Counters()

    mutating func drop(_ packets: UInt64, _ bytes: Int) {
      counters.droppedPackets &+= packets
      counters.droppedBytes &+= UInt64(bytes)
    }
  }

  var counters: Counters { state.withLock { $0.counters } }

  // MARK: Threads that move bytes

  /// Takes an event in, or counts it as dropped. Returns whether the writer is to be called.
  func add(
    _ event: StreamEvent, of stream: CapturedStream, at position: StreamPosition,
    _ bytes: UnsafeRawBufferPointer
  ) -> Urgency? {
    let cost = bytes.count + Self.recordCost
    let limit = Self.limit + (bytes.count == 0 ? Self.reserve : 0)
    let hasRoom = state.withLock { state in
      guard !state.isOver, state.used + cost <= limit else {
        state.drop(PcapngBlocks.packets(of: event, of: stream, count: bytes.count), bytes.count)
        return false
      }
      state.used += cost
      return true
    }
    guard hasRoom else { return nil }
    let payload = unsafe [UInt8](bytes)
    return state.withLock { state in
      guard !state.isOver else {
        state.used -= cost
        state.drop(PcapngBlocks.packets(of: event, of: stream, count: payload.count), payload.count)
        return nil
      }
      // The time is taken in here so that the packets of the file stand in its order.
      state.records.append(
        Record(stream: stream, event: event, position: position, time: cs_wall_clock(), payload: payload))
      state.waiting += cost
      let urgency = state.waiting >= Self.batch ? Urgency.now : .soon
      switch (state.wasWanted, urgency) {
      case (nil, _), (.soon, .now):
        state.wasWanted = urgency
        return urgency
      case (.soon, .soon), (.now, _): return nil
      }
    }
  }

  // MARK: The writer

  /// Moves what waits to `records`, which must be empty; false when nothing does. The writer is called again for
  /// what comes after.
  func take(_ records: inout [Record]) -> Bool {
    state.withLock { state in
      state.wasWanted = nil
      state.waiting = 0
      swap(&state.records, &records)
      return !records.isEmpty
    }
  }

  /// What was taken is in the file.
  func wrote(packets: UInt64, bytes: UInt64, cost: Int) {
    state.withLock { state in
      state.used -= cost
      state.counters.packets &+= packets
      state.counters.bytes &+= bytes
    }
  }

  /// What was taken is lost.
  func lost(packets: UInt64, bytes: UInt64, cost: Int) {
    state.withLock { state in
      state.used -= cost
      state.counters.droppedPackets &+= packets
      state.counters.droppedBytes &+= bytes
    }
  }

  /// Nothing is taken in any more; what waits is lost.
  func end() {
    var left: [Record] = []
    state.withLock { state in
      state.isOver = true
      swap(&state.records, &left)
      state.waiting = 0
    }
    for record in left {
      lost(packets: record.packets, bytes: UInt64(record.payload.count), cost: record.cost)
    }
  }
}
