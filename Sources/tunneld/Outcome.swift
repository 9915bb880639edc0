import Synchronization

/// With what the process ends.
final class Outcome: Sendable {
  private let stored = Atomic<Int32>(Tunneld.ExitStatus.success)

  var status: Int32 {
    get { stored.load(ordering: .acquiring) }
    set { stored.store(newValue, ordering: .releasing) }
  }
}
