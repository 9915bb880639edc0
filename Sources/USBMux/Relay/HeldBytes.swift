/// Bytes of a session that its local reader has not taken yet: at most the window that was offered.
///
/// Memory is there only while there are bytes. Nothing is zeroed, and nothing moves when bytes are taken.
@safe
struct HeldBytes: ~Copyable {
  private var memory: UnsafeMutableRawPointer?
  private var capacity = 0
  private var start = 0
  private var end = 0

  init() {}

  deinit { unsafe memory?.deallocate() }

  var count: Int { end - start }
  var isEmpty: Bool { start == end }

  /// Appends bytes; the session's window bounds how many there can be.
  mutating func append(_ bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress, bytes.count > 0 else { return }
    reserve(bytes.count)
    guard let memory = unsafe memory else { return }
    unsafe (memory + end).copyMemory(from: source, byteCount: bytes.count)
    end += bytes.count
  }

  /// Lets `body` take from the front; it returns how many bytes it took.
  mutating func take(_ body: (UnsafeRawBufferPointer) -> Int) {
    guard let memory = unsafe memory, !isEmpty else { return }
    start += unsafe body(UnsafeRawBufferPointer(start: memory + start, count: count))
    if isEmpty { clear() }
  }

  mutating func clear() {
    unsafe memory?.deallocate()
    unsafe memory = nil
    capacity = 0
    start = 0
    end = 0
  }

  private mutating func reserve(_ more: Int) {
    guard end + more > capacity else { return }
    let held = count
    // What was taken from the front makes room first.
    if let memory = unsafe memory, held + more <= capacity / 2 {
      unsafe memory.copyMemory(from: memory + start, byteCount: held)
    } else {
      capacity = max(16384, (held + more) * 2)
      let larger = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
      if let memory = unsafe memory {
        unsafe larger.copyMemory(from: memory + start, byteCount: held)
        unsafe memory.deallocate()
      }
      unsafe memory = unsafe larger
    }
    start = 0
    end = held
  }
}
