internal import EventLoop

/// The copy buffers of one loop thread: one in use at a time, and more only for streams whose reader stalls.
///
/// A stream that could not deliver all of a read keeps the very buffer (``take()``), so that nothing is
/// copied twice. What comes back is kept while it is in demand: fresh memory costs a page fault for each 4 KiB, which
/// is as much as the copy itself. What was not needed for a second goes to the allocator.
@safe
final class BufferPool {
  /// Bytes of each buffer. 256 KiB is where a bigger read stopped to help (docs/PERFORMANCE.md).
  static let capacity = 256 * 1024
  /// Buffers that stay for good.
  private static let kept = 1
  /// Buffers that stay while they are in demand.
  private static let most = 64

  /// The buffer that reads go to. Nothing in it outlives the call that filled it.
  private(set) var scratch: UnsafeMutableRawPointer
  private var free: [UnsafeMutableRawPointer] = unsafe []
  /// The fewest that were free since the timer was set.
  private var unneeded = 0
  private let loop: EventLoop
  private let patience: Int64
  private var timer: LoopTimer?

  /// `patience`: nanoseconds for which a buffer must have been of no use before it is given up.
  init(loop: EventLoop, patience: Int64 = 1_000_000_000) {
    self.loop = loop
    self.patience = patience
    unsafe scratch = unsafe BufferPool.allocate()
  }

  deinit {
    unsafe scratch.deallocate()
    while let buffer = unsafe free.popLast() { unsafe buffer.deallocate() }
  }

  /// Buffers that nobody uses.
  var freeCount: Int { unsafe free.count }

  /// Gives the scratch buffer with what is in it away, and puts another in its place.
  func take() -> UnsafeMutableRawPointer {
    let taken = unsafe scratch
    unsafe scratch = free.popLast() ?? BufferPool.allocate()
    unneeded = min(unneeded, freeCount)
    return unsafe taken
  }

  func giveBack(_ buffer: UnsafeMutableRawPointer) {
    guard freeCount < Self.most else { return unsafe buffer.deallocate() }
    unsafe free.append(buffer)
    if timer == nil && freeCount > Self.kept { startTimer() }
  }

  private func startTimer() {
    unneeded = freeCount
    if timer == nil { timer = LoopTimer(on: loop) { [unowned self] in trim() } }
    timer?.set(after: patience)
  }

  private func trim() {
    for _ in Self.kept..<max(unneeded, Self.kept) {
      if let buffer = unsafe free.popLast() { unsafe buffer.deallocate() }
    }
    if freeCount > Self.kept { startTimer() } else { timer = nil }
  }

  private static func allocate() -> UnsafeMutableRawPointer {
    .allocate(byteCount: capacity, alignment: 4096)
  }
}
