/// Bytes of a session that its local reader has not taken yet: at most the window that was offered.
///
/// They lie in pieces of ``HeldPool``, which are there only while there are bytes. Nothing is zeroed, and nothing
/// moves when bytes are taken.
@safe
struct HeldBytes: ~Copyable {
  private let pool: HeldPool
  private var first: HeldPiece?
  private var last: HeldPiece?
  private(set) var count = 0

  init(_ pool: HeldPool) { self.pool = pool }

  deinit {
    var next = first
    while let piece = next {
      next = piece.next
      pool.giveBack(piece)
    }
  }

  var isEmpty: Bool { count == 0 }

  /// Appends bytes; the session's window bounds how many there can be.
  mutating func append(_ bytes: UnsafeRawBufferPointer) {
    var copied = 0
    while copied < bytes.count {
      let piece = lastWithRoom()
      let more = min(bytes.count - copied, HeldPiece.capacity - piece.end)
      unsafe piece.append(UnsafeRawBufferPointer(rebasing: bytes[copied..<(copied + more)]))
      copied += more
    }
    count += copied
  }

  /// Lets `body` take from the front, piece by piece, until it takes less than it was given; it returns how many
  /// bytes it took.
  mutating func take(_ body: (UnsafeRawBufferPointer) -> Int) {
    while let piece = first {
      let offered = piece.end - piece.start
      let taken = min(max(unsafe body(piece.bytes), 0), offered)
      piece.start += taken
      count -= taken
      guard taken == offered else { return }
      removeFirst()
    }
  }

  mutating func clear() {
    while first != nil { removeFirst() }
    count = 0
  }

  private mutating func lastWithRoom() -> HeldPiece {
    if let last, last.end < HeldPiece.capacity { return last }
    let piece = pool.take()
    if let last { last.next = piece } else { first = piece }
    last = piece
    return piece
  }

  private mutating func removeFirst() {
    guard let piece = first else { return }
    first = piece.next
    if first == nil { last = nil }
    pool.giveBack(piece)
  }
}

/// A piece of memory for bytes that are held.
@safe
final class HeldPiece {
  /// A packet and a half: what one read of the device brings fits in.
  static let capacity = 48 * 1024

  fileprivate let memory = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 64)
  fileprivate var start = 0
  fileprivate var end = 0
  fileprivate var next: HeldPiece?

  deinit { unsafe memory.deallocate() }

  fileprivate var bytes: UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: memory + start, count: end - start)
  }

  fileprivate func append(_ bytes: UnsafeRawBufferPointer) {
    guard let source = bytes.baseAddress else { return }
    unsafe (memory + end).copyMemory(from: source, byteCount: bytes.count)
    end += bytes.count
  }
}

/// Pieces for the sessions of one link. A few stay, so that readers which now keep up and now do not cost no
/// allocation each time; more than that go back to the allocator, so that stalls of the past cost no memory.
final class HeldPool {
  /// 576 KiB: somewhat more than one session's window.
  private static let mostKept = 12
  private var free: [HeldPiece] = []
  /// Pieces that came from the allocator.
  private(set) var made = 0
  var kept: Int { free.count }

  init() { free.reserveCapacity(Self.mostKept) }

  func take() -> HeldPiece {
    if let piece = free.popLast() { return piece }
    made += 1
    return HeldPiece()
  }

  func giveBack(_ piece: HeldPiece) {
    piece.next = nil
    piece.start = 0
    piece.end = 0
    if free.count < Self.mostKept { free.append(piece) }
  }
}
