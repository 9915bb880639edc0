/// What a descriptor is ready for.
package struct Readiness: OptionSet, Sendable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }
  /// Nothing. The literal `[]` goes through a generic initializer, which costs more than the rest of an event.
  package init() { rawValue = 0 }

  package var isEmpty: Bool { rawValue == 0 }

  /// Bytes, a connection, an end or an error can be read.
  package static let read = Readiness(rawValue: 1)
  /// Bytes can be written, or a write will tell the error.
  package static let write = Readiness(rawValue: 2)
  /// The other side has ended its sending side, or the descriptor is broken: reading must go on until it
  /// says so, even after a short read.
  package static let hangUp = Readiness(rawValue: 4)
  /// Both directions are over (POLLHUP) or the descriptor is in error.
  package static let broken = Readiness(rawValue: 8)
}

/// Who is told of a descriptor's readiness, on the loop's thread.
package protocol ReadinessHandler: AnyObject {
  func ready(_ readiness: Readiness, _ watcher: Watcher)
}

/// Watches one descriptor for its owner.
///
/// Readiness may be told once only: an owner remembers it until a call answers EAGAIN (or reads less than
/// it asked for with no hang-up told), and then calls ``wait(for:)``. An owner that follows this rule works
/// the same over an edge-triggered and a level-triggered set.
///
/// Not Sendable: it belongs to the loop's thread. The handler owns its watchers and outlives them.
package final class Watcher {
  let loop: EventLoop
  package let descriptor: CInt
  /// Who is told; a descriptor that is handed on takes its watcher along.
  package unowned var handler: any ReadinessHandler
  /// Distinguishes this registration from an earlier one in the same place; 0 when cancelled.
  var registration: UInt64 = 0
  var waitsForWrite = false
  /// Whether a hang-up was told. It is told once, so whoever takes a watcher over must ask.
  package internal(set) var hasHungUp = false
  /// Told again and again while it lasts, and for what; empty: as the class comment says.
  let level: Readiness
  #if !os(Linux) || PORTABLE_POLLER
    var portable = PortableWatch()
  #endif

  /// Starts to watch `descriptor`, which the caller keeps open until ``cancel()``.
  ///
  /// - Throws: ``SystemError`` when the descriptor cannot be watched.
  package init(_ descriptor: CInt, on loop: EventLoop, handler: any ReadinessHandler) throws(SystemError) {
    self.loop = loop
    self.descriptor = descriptor
    self.handler = handler
    level = []
    try loop.poller.add(self)
  }

  /// Starts to watch a descriptor of a library that asks itself what there is to do, and may not do all of it at
  /// once: `interest`, and what is broken, is told in every turn in which it is so. ``wait(for:)`` does nothing.
  ///
  /// - Throws: ``SystemError`` when the descriptor cannot be watched.
  package init(
    levelTriggered descriptor: CInt, for interest: Readiness, on loop: EventLoop,
    handler: any ReadinessHandler
  ) throws(SystemError) {
    self.loop = loop
    self.descriptor = descriptor
    self.handler = handler
    level = interest
    try loop.poller.add(self)
  }

  deinit { cancel() }

  /// The owner has found the descriptor not ready; tell it when that changes.
  @inline(__always)
  package func wait(for interest: Readiness) {
    guard registration != 0, level.isEmpty else { return }
    loop.poller.wait(for: interest, self)
  }

  /// Ends the watch; nothing is told any more, not even what was found in this very turn.
  package func cancel() {
    guard registration != 0 else { return }
    loop.poller.remove(self, isClosing: false)
    registration = 0
  }

  /// As ``cancel()``, by an owner who closes the descriptor right after it: the kernel forgets it then by
  /// itself.
  package func cancelBeforeClose() {
    guard registration != 0 else { return }
    loop.poller.remove(self, isClosing: true)
    registration = 0
  }
}

extension Watcher {
  /// A new watcher, or the one that came with the descriptor, for `handler` from now on.
  package static func watching(
    _ descriptor: CInt, on loop: EventLoop, for handler: any ReadinessHandler, _ given: Watcher?
  ) throws(SystemError) -> Watcher {
    guard let given else { return try Watcher(descriptor, on: loop, handler: handler) }
    given.handler = handler
    return given
  }
}

extension Optional where Wrapped == Watcher {
  /// Ends the watch and lets the watcher go. Letting it go is not enough: while the loop tells it something it
  /// lives on, and so would its place in the set.
  package mutating func drop() {
    self?.cancel()
    self = nil
  }

  /// As ``drop()``, where the descriptor is closed right after it.
  package mutating func dropBeforeClose() {
    self?.cancelBeforeClose()
    self = nil
  }
}
