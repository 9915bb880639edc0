/// A queue of small numbers, each in it at most once, that any of them can leave at once.
///
/// Doubly linked through an array that is indexed by the numbers themselves: nothing is allocated once
/// the array has grown, and no operation depends on how many are queued.
package struct IndexList: Sendable {
  private struct Links: Sendable {
    var previous: Int32 = IndexList.absent
    var next: Int32 = IndexList.absent
  }

  /// Not queued.
  private static let absent: Int32 = -2
  /// No neighbour on this side.
  private static let end: Int32 = -1

  private var links = ContiguousArray<Links>()
  private var head = IndexList.end
  private var tail = IndexList.end

  package init() {}

  /// Whether nothing is queued.
  package var isEmpty: Bool {
    head == Self.end
  }

  /// The number that was queued first.
  package var first: Int? {
    head == Self.end ? nil : Int(head)
  }

  /// Whether a number is queued.
  package func contains(_ index: Int) -> Bool {
    index < links.count && links[index].next != Self.absent
  }

  /// Queues a number from 0 to `Int32.max` at the end unless it is queued already.
  package mutating func append(_ index: Int) {
    while links.count <= index { links.append(Links()) }
    guard links[index].next == Self.absent else { return }
    let number = Int32(truncatingIfNeeded: index)
    links[index] = Links(previous: tail, next: Self.end)
    if tail == Self.end {
      head = number
    } else {
      links[Int(tail)].next = number
    }
    tail = number
  }

  /// Takes a number out if it is queued.
  package mutating func remove(_ index: Int) {
    guard contains(index) else { return }
    let (previous, next) = (links[index].previous, links[index].next)
    if previous == Self.end {
      head = next
    } else {
      links[Int(previous)].next = next
    }
    if next == Self.end {
      tail = previous
    } else {
      links[Int(next)].previous = previous
    }
    links[index] = Links()
  }

  /// Takes out the number that was queued first.
  package mutating func removeFirst() -> Int? {
    guard let index = first else { return nil }
    remove(index)
    return index
  }

  /// Takes out all of them.
  package mutating func removeAll() {
    while removeFirst() != nil {}
  }
}

/// Deadlines of sessions that all lie the same time ahead when they are set, so that the order in
/// which they are set is the order in which they come.
struct DeadlineList: Sendable {
  private var order = IndexList()
  private var deadlines = ContiguousArray<Instant>()

  /// The next deadline.
  var first: Instant? {
    order.first.map { deadlines[$0] }
  }

  /// Sets a deadline, no earlier than any that was set before, unless there is one already.
  mutating func schedule(_ index: Int, at deadline: Instant) {
    guard !order.contains(index) else { return }
    while deadlines.count <= index { deadlines.append(.distantFuture) }
    deadlines[index] = deadline
    order.append(index)
  }

  mutating func cancel(_ index: Int) {
    order.remove(index)
  }

  /// Takes out the next one that is due.
  mutating func removeDue(at now: Instant) -> Int? {
    guard let index = order.first, deadlines[index] <= now else { return nil }
    order.remove(index)
    return index
  }

  mutating func removeAll() {
    order.removeAll()
  }
}
