/// The copy buffers of one loop thread: one in use at a time, and more only for streams whose reader stalls.
///
/// A stream that could not deliver all of a read keeps the very buffer (``take()``), so that nothing is
/// copied twice; a few come back to the pool, the rest to the allocator.
@safe
final class BufferPool {
  /// Bytes of each buffer. 256 KiB is where a bigger read stopped to help (docs/PERFORMANCE.md).
  static let capacity = 256 * 1024
  private static let kept = 4

  /// The buffer that reads go to. Nothing in it outlives the call that filled it.
  private(set) var scratch: UnsafeMutableRawPointer
  private var free: [UnsafeMutableRawPointer] = unsafe []

  init() { unsafe scratch = unsafe BufferPool.allocate() }

  deinit {
    unsafe scratch.deallocate()
    while let buffer = unsafe free.popLast() { unsafe buffer.deallocate() }
  }

  /// Gives the scratch buffer with what is in it away, and puts another in its place.
  func take() -> UnsafeMutableRawPointer {
    let taken = unsafe scratch
    unsafe scratch = free.popLast() ?? BufferPool.allocate()
    return unsafe taken
  }

  func giveBack(_ buffer: UnsafeMutableRawPointer) {
    if unsafe free.count < BufferPool.kept { unsafe free.append(buffer) } else { unsafe buffer.deallocate() }
  }

  private static func allocate() -> UnsafeMutableRawPointer {
    .allocate(byteCount: capacity, alignment: 4096)
  }
}
