/// Bytes that wait, with a bound.
struct ByteQueue: Sendable {
  private var storage = ContiguousArray<UInt8>()
  private var taken = 0
  /// The most bytes that may wait.
  let capacity: Int

  init(capacity: Int) {
    self.capacity = capacity
  }

  var count: Int { storage.count - taken }
  var isEmpty: Bool { count == 0 }
  var room: Int { max(capacity - count, 0) }

  /// Appends as many of the bytes as there is room for and returns their number.
  mutating func append(_ bytes: Span<UInt8>) -> Int {
    let count = min(bytes.count, room)
    compact()
    storage.append(copying: bytes.extracting(first: count))
    return count
  }

  /// Lets `body` append at most `limit` bytes to an array.
  mutating func append(_ body: (_ bytes: inout ContiguousArray<UInt8>, _ limit: Int) -> Void) {
    compact()
    body(&storage, room)
  }

  /// Lets `body` see the bytes; it returns how many of them are used up.
  mutating func take(_ body: (Span<UInt8>) -> Int) {
    let count = body(storage.span.extracting(droppingFirst: taken))
    removeFirst(count)
  }

  /// Moves the first `count` bytes, at most those that there are, to the end of an array.
  mutating func move(_ count: Int, to target: inout ContiguousArray<UInt8>) {
    target.append(copying: storage.span.extracting(droppingFirst: taken).extracting(first: count))
    removeFirst(count)
  }

  private mutating func removeFirst(_ count: Int) {
    taken = min(taken + max(count, 0), storage.count)
    if taken == storage.count {
      storage.removeAll(keepingCapacity: true)
      taken = 0
    }
  }

  /// Moves the bytes to the front once most of the storage is used up; each byte moves once at most
  /// for every byte that was taken.
  private mutating func compact() {
    guard taken > 0, taken >= count else { return }
    storage.removeFirst(taken)
    taken = 0
  }
}

extension ContiguousArray<UInt8> {
  mutating func append(copying bytes: Span<UInt8>) {
    unsafe bytes.withUnsafeBufferPointer { unsafe append(contentsOf: $0) }
  }
}

extension OutputSpan<UInt8> {
  /// Appends as many of the bytes as there is room for and returns their number.
  @discardableResult
  mutating func append(copying bytes: Span<UInt8>) -> Int {
    let count = min(bytes.count, freeCapacity)
    unsafe withUnsafeMutableBufferPointer { target, initializedCount in
      unsafe bytes.withUnsafeBufferPointer { source in
        let free = unsafe UnsafeMutableRawBufferPointer(
          rebasing: UnsafeMutableRawBufferPointer(target)[initializedCount...])
        unsafe free.copyMemory(
          from: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(source)[..<count]))
      }
      initializedCount += count
    }
    return count
  }
}
