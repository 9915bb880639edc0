/// What happened, in order, until it is asked for.
struct PhoneEventQueue: Sendable {
  private var events: [PhoneEvent] = []
  private var taken = 0

  mutating func append(_ event: PhoneEvent) { events.append(event) }

  mutating func next() -> PhoneEvent? {
    guard taken < events.count else { return nil }
    let event = events[taken]
    taken += 1
    if taken == events.count {
      events.removeAll(keepingCapacity: true)
      taken = 0
    }
    return event
  }
}
