#if os(Linux) && !PORTABLE_POLLER
  internal import CLibUV
  internal import CSystem

  /// The edge-triggered epoll set in which a loop's descriptors sit, with libuv's own as one of them.
  ///
  /// An event carries a slot and that slot's generation. When a watcher is cancelled its slot gets a new
  /// generation, so an event that was already fetched for an earlier life of the same number is dropped.
  @safe
  final class Poller {
    private struct Slot {
      var generation: UInt32 = 1
      unowned(unsafe) var watcher: Watcher?
      var nextFree: Int = -1
    }

    private let set: Descriptor
    private var slots: [Slot] = []
    private var firstFree = -1
    private let events: UnsafeMutableBufferPointer<cs_epoll_event>

    private static let libuvToken: UInt64 = .max
    private static let batch = 64

    init(backend: CInt) throws(SystemError) {
      let number = cs_epoll_create()
      guard number >= 0 else { throw SystemError.last("epoll_create1") }
      set = Descriptor(owning: number)
      unsafe events = .allocate(capacity: Poller.batch)
      guard cs_epoll_add(number, backend, UInt32(CS_EPOLL_IN), 0, Poller.libuvToken) == 0 else {
        throw SystemError.last("epoll_ctl")
      }
    }

    deinit { unsafe events.deallocate() }

    /// Waits once and tells all that is ready.
    func turn(_ loop: EventLoop) {
      unsafe uv_update_time(loop.uv)
      // Handles that were started or stopped since the last turn reach the kernel in `uv_run` only.
      let libuvTimeout = unsafe uv_backend_timeout(loop.uv)
      let sleeps = !pendingChanges && !loop.mustNotSleep
      let timeout = sleeps ? libuvTimeout : 0
      let count = unsafe cs_epoll_wait(set.number, events.baseAddress, CInt(Poller.batch), timeout)
      let start = loop.now
      defer { loop.turns.add(loop.now - start) }
      var libuvIsReady = pendingChanges || libuvTimeout == 0 || (sleeps && count == 0)
      var index = 0
      while index < Int(count) {
        let event = unsafe events[index]
        index += 1
        if event.token == Poller.libuvToken { libuvIsReady = true } else { tell(event) }
      }
      if libuvIsReady {
        pendingChanges = false
        unsafe uv_run(loop.uv, UV_RUN_NOWAIT)
      }
      loop.runAgain()
    }

    /// Set when a libuv handle was started or stopped outside of `uv_run`.
    var pendingChanges = true

    private func tell(_ event: cs_epoll_event) {
      let place = Int(truncatingIfNeeded: event.token & 0xffff_ffff)
      guard place < slots.count, slots[place].generation == UInt32(truncatingIfNeeded: event.token >> 32),
        let watcher = unsafe slots[place].watcher
      else { return }
      var readiness = Readiness()
      if event.events & UInt32(CS_EPOLL_IN | CS_EPOLL_RDHUP | CS_EPOLL_HUP | CS_EPOLL_ERR) != 0 {
        readiness.insert(.read)
      }
      if event.events & UInt32(CS_EPOLL_OUT | CS_EPOLL_HUP | CS_EPOLL_ERR) != 0 { readiness.insert(.write) }
      if event.events & UInt32(CS_EPOLL_RDHUP | CS_EPOLL_HUP | CS_EPOLL_ERR) != 0 {
        readiness.insert(.hangUp)
      }
      if event.events & UInt32(CS_EPOLL_HUP | CS_EPOLL_ERR) != 0 { readiness.insert(.broken) }
      if readiness.contains(.hangUp) { watcher.hasHungUp = true }
      watcher.handler.ready(readiness, watcher)
    }

    func add(_ watcher: Watcher) throws(SystemError) {
      let place: Int
      if firstFree >= 0 {
        place = firstFree
        firstFree = slots[place].nextFree
      } else {
        place = slots.count
        slots.append(Slot())
      }
      let token = UInt64(slots[place].generation) << 32 | UInt64(place)
      var events: UInt32 = 0
      if !watcher.level.isDisjoint(with: .read) { events |= UInt32(CS_EPOLL_IN) }
      if !watcher.level.isDisjoint(with: .write) { events |= UInt32(CS_EPOLL_OUT) }
      let isEdge = watcher.level.isEmpty
      if isEdge { events = UInt32(CS_EPOLL_IN | CS_EPOLL_RDHUP) }
      guard cs_epoll_add(set.number, watcher.descriptor, events, isEdge ? 1 : 0, token) == 0 else {
        let error = SystemError.last("epoll_ctl")
        slots[place].nextFree = firstFree
        firstFree = place
        throw error
      }
      unsafe slots[place].watcher = watcher
      watcher.registration = token
    }

    /// Readability is always told. Writability is asked for at the first full buffer and then kept, since a
    /// Unix socket reports it at every read of the other side: small messages would wake the loop twice.
    @inline(__always)
    func wait(for interest: Readiness, _ watcher: Watcher) {
      guard interest.contains(.write), !watcher.waitsForWrite else { return }
      watcher.waitsForWrite = true
      _ = cs_epoll_modify(
        set.number, watcher.descriptor, UInt32(CS_EPOLL_IN | CS_EPOLL_OUT | CS_EPOLL_RDHUP), 1,
        watcher.registration)
    }

    func remove(_ watcher: Watcher, isClosing: Bool) {
      let place = Int(truncatingIfNeeded: watcher.registration & 0xffff_ffff)
      guard place < slots.count else { return }
      if !isClosing { _ = cs_epoll_remove(set.number, watcher.descriptor) }
      slots[place].generation &+= 1
      if slots[place].generation == UInt32.max { slots[place].generation = 1 }
      unsafe slots[place].watcher = nil
      slots[place].nextFree = firstFree
      firstFree = place
    }
  }
#endif
