internal import CSystem
internal import EventLoop
internal import PacketCapture

/// The thread that makes packets of what the queue holds and writes them. It alone may wait for a disk or for a
/// reader.
actor CaptureWriter {
  nonisolated let loop: EventLoop
  private let queue: CaptureQueue
  private let application: String
  private let failed: @Sendable (SystemError) -> Void
  private var destination: CaptureDestination
  private var blocks = PcapngBlocks()
  private var records: [CaptureQueue.Record] = []
  private var timer: LoopTimer?
  private var isOver = false
  /// What `blocks` holds of the queue's.
  private var unwritten = Unwritten()
  /// Dropped packets that the file tells of already.
  private var toldDrops: UInt64 = 0

  private struct Unwritten {
    var packets: UInt64 = 0
    var bytes: UInt64 = 0
    var cost = 0
  }

  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

  /// What is collected before it is written, nanoseconds: a file that is watched is at most so far behind, and small
  /// messages do not cost a system call each.
  private static let collecting: Int64 = 100_000_000
  /// Bytes that are written at once.
  private static let writeSize = 256 << 10

  /// Starts the thread. `failed` is called on it, once, when the capture has come to an end by a failure.
  init(
    _ queue: CaptureQueue, to destination: consuming CaptureDestination, application: String,
    failed: @escaping @Sendable (SystemError) -> Void
  ) throws(SystemError) {
    loop = try EventLoop()
    self.queue = queue
    self.destination = destination
    self.application = application
    self.failed = failed
    try loop.start()
  }

  isolated deinit {
    timer = nil
    loop.stop()
  }

  /// Waits for a FIFO's reader, and writes the beginning of the file.
  nonisolated func begin() { perform { $0.start() } }

  nonisolated func call(_ urgency: CaptureQueue.Urgency) {
    perform { writer in
      switch urgency {
      case .now: writer.drain()
      case .soon: writer.drainSoon()
      }
    }
  }

  /// Writes what is left, ends the file, then calls `done` on the writer's thread. That may take for ever.
  nonisolated func close(_ done: @escaping @Sendable () -> Void) {
    perform { writer in
      writer.finish()
      done()
    }
  }

  private nonisolated func perform(_ body: @escaping @Sendable (isolated CaptureWriter) -> Void) {
    loop.execute { self.assumeIsolated { body($0) } }
  }

  // MARK: On its thread

  private func start() {
    do throws(SystemError) {
      try destination.connect()
      blocks.begin(application: application, interface: "tunneld")
      flush()
    } catch {
      fail(error)
    }
  }

  private func drainSoon() {
    guard !isOver else { return }
    let timer =
      self.timer ?? LoopTimer(on: loop) { [unowned self] in assumeIsolated { $0.drain() } }
    self.timer = timer
    if !timer.isSet { timer.set(after: Self.collecting) }
  }

  private func drain() {
    timer?.clear()
    while !isOver, queue.take(&records) {
      for record in records {
        if !isOver {
          blocks.append(
            record.event, of: record.stream, at: record.position, payload: record.payload, time: record.time)
        }
        unwritten.packets &+= record.packets
        unwritten.bytes &+= UInt64(record.payload.count)
        unwritten.cost += record.cost
        if isOver { forget() } else if blocks.bytes.count >= Self.writeSize { flush() }
      }
      records.removeAll(keepingCapacity: true)
      if !isOver, queue.counters.droppedPackets != toldDrops { appendStatistics() }
      flush()
    }
  }

  private func appendStatistics() {
    let counters = queue.counters
    toldDrops = counters.droppedPackets
    blocks.statistics(
      at: cs_wall_clock(),
      received: counters.packets &+ unwritten.packets &+ counters.droppedPackets,
      dropped: counters.droppedPackets)
  }

  private func flush() {
    guard !isOver, !blocks.bytes.isEmpty else { return }
    do throws(SystemError) {
      try destination.write(blocks.bytes)
      blocks.removeAll()
      queue.wrote(packets: unwritten.packets, bytes: unwritten.bytes, cost: unwritten.cost)
      unwritten = Unwritten()
    } catch {
      fail(error)
    }
  }

  private func forget() {
    queue.lost(packets: unwritten.packets, bytes: unwritten.bytes, cost: unwritten.cost)
    unwritten = Unwritten()
  }

  private func fail(_ error: SystemError) {
    end()
    forget()
    failed(error)
  }

  private func finish() {
    guard !isOver else { return }
    drain()
    guard !isOver else { return }
    appendStatistics()
    flush()
    end()
  }

  private func end() {
    isOver = true
    queue.end()
    timer = nil
    blocks = PcapngBlocks()
    destination.close()
  }
}
