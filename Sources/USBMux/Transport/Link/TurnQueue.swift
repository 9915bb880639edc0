/// Sessions that have something to send, each once, in the order of their turns.
///
/// Who has something to say after a silence goes before those that go on sending, once: its packet waits for no
/// packet of theirs that is not under way. Nobody starves: a session is new again only when it had a turn among
/// the others and nothing to send in it.
struct TurnQueue {
  private var newcomers = SessionQueue()
  private var others = SessionQueue()
  /// By ``SessionID/index``: whether it stands in one of them.
  private var isQueued: [Bool] = []

  var isEmpty: Bool { newcomers.isEmpty && others.isEmpty }
  /// Whether the next one was silent before.
  var hasNewcomer: Bool { !newcomers.isEmpty }

  /// A session that was silent has something to send.
  mutating func add(_ session: SessionID) {
    if enters(session) { newcomers.append(session) }
  }

  /// A session that has had its turn, or was held back by its window, may have more to send.
  mutating func addAgain(_ session: SessionID) {
    if enters(session) { others.append(session) }
  }

  private mutating func enters(_ session: SessionID) -> Bool {
    let index = Int(session.index)
    while isQueued.count <= index { isQueued.append(false) }
    guard !isQueued[index] else { return false }
    isQueued[index] = true
    return true
  }

  mutating func next() -> SessionID? {
    guard let session = newcomers.removeFirst() ?? others.removeFirst() else { return nil }
    isQueued[Int(session.index)] = false
    return session
  }

  /// A session that is over loses its turn; one with the same index may come soon.
  mutating func remove(_ session: SessionID) {
    let index = Int(session.index)
    guard index < isQueued.count, isQueued[index] else { return }
    isQueued[index] = false
    newcomers.remove(session)
    others.remove(session)
  }
}

/// First in, first out. Its memory is kept, and bounded by the number of those that stand in it.
private struct SessionQueue {
  private var order: [SessionID] = []
  private var taken = 0

  var isEmpty: Bool { taken == order.count }

  mutating func append(_ session: SessionID) { order.append(session) }

  mutating func removeFirst() -> SessionID? {
    guard taken < order.count else { return nil }
    let session = order[taken]
    taken += 1
    if taken == order.count {
      order.removeAll(keepingCapacity: true)
      taken = 0
    } else if taken >= 1024 {
      order.removeFirst(taken)
      taken = 0
    }
    return session
  }

  mutating func remove(_ session: SessionID) {
    guard let index = order[taken...].firstIndex(of: session) else { return }
    order.remove(at: index)
  }
}
