internal import CLibUV
internal import CSystem
internal import Synchronization

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// One thread, the readiness loop that it runs, and the serial executor of the actors that live on it.
///
/// Timers, signals, path events and name look-ups are libuv's. Descriptors are libuv's too on Darwin;
/// on Linux they sit in an edge-triggered epoll set of their own, in which libuv's own descriptor is one
/// member (the embedding that `uv_backend_fd` documents): `uv_poll_t` costs five system calls for each
/// descriptor and two for each change of interest, which a relay would pay at every full buffer
/// (docs/PERFORMANCE.md).
///
/// **Thread.** Everything but ``enqueue(_:)``, ``execute(_:)`` and ``stop()`` is called on the loop's
/// thread, or before it runs. That rule makes the `@unchecked Sendable` true.
@safe
package final class EventLoop: SerialExecutor, @unchecked Sendable {
  let uv: UnsafeMutablePointer<uv_loop_t>
  private let wakeUp: UnsafeMutablePointer<uv_async_t>
  private let work = Mutex<[Job]>([])
  /// The thread that runs the loop; 0 while none does.
  private let owner = Atomic<UInt>(0)
  private let stopping = Atomic<Bool>(false)
  /// Nobody will ever run it.
  private let isAbandoned = Atomic<Bool>(false)
  let poller: Poller
  let timers = TimerPool()
  let lookups = LookupQueue()
  /// How long the turns took. Read on the loop's thread.
  package internal(set) var turns = TurnTimes()
  /// Who asked to be called again, in order.
  private var again: [any Resumable] = []
  /// Those of them whose turn it is; kept, so that a turn costs no allocation.
  private var resuming: [any Resumable] = []

  private enum Job {
    case task(UnownedJob)
    case closure(@Sendable () -> Void)
  }

  /// Creates a loop that nobody runs yet.
  ///
  /// - Throws: ``SystemError`` when the process has no descriptors left for it.
  package init() throws(SystemError) {
    unsafe uv = .allocate(capacity: 1)
    unsafe wakeUp = .allocate(capacity: 1)
    do throws(SystemError) {
      poller = unsafe try Self.open(uv, wakeUp)
    } catch {
      unsafe wakeUp.deallocate()
      unsafe uv.deallocate()
      throw error
    }
    unsafe wakeUp.pointee.data = Unmanaged.passUnretained(self).toOpaque()
  }

  deinit {
    timers.closeAll(self)
    unsafe Self.close(uv, wakeUp)
    unsafe wakeUp.deallocate()
    unsafe uv.deallocate()
  }

  /// Opens libuv's loop and what else has descriptors, or leaves none open.
  private static func open(
    _ uv: UnsafeMutablePointer<uv_loop_t>, _ wakeUp: UnsafeMutablePointer<uv_async_t>
  ) throws(SystemError) -> Poller {
    var status = unsafe uv_loop_init(uv)
    guard status == 0 else { throw SystemError(code: -status, call: "uv_loop_init") }
    status = unsafe uv_async_init(uv, wakeUp, loopWasWoken)
    guard status == 0 else {
      unsafe uv_loop_close(uv)
      throw SystemError(code: -status, call: "uv_async_init")
    }
    do throws(SystemError) {
      return try Poller(backend: unsafe uv_backend_fd(uv))
    } catch {
      unsafe close(uv, wakeUp)
      throw error
    }
  }

  private static func close(
    _ uv: UnsafeMutablePointer<uv_loop_t>, _ wakeUp: UnsafeMutablePointer<uv_async_t>
  ) {
    unsafe uv_close(UnsafeMutableRawPointer(wakeUp).assumingMemoryBound(to: uv_handle_t.self), nil)
    while unsafe uv_run(uv, UV_RUN_DEFAULT) != 0 {}
    unsafe uv_loop_close(uv)
  }

  /// Monotonic nanoseconds since an arbitrary start.
  package var now: Int64 { Int64(truncatingIfNeeded: uv_hrtime()) }

  // MARK: Running

  /// Runs the loop on the calling thread until ``stop()``.
  package func run() {
    owner.store(currentThread(), ordering: .releasing)
    defer { owner.store(0, ordering: .releasing) }
    while !stopping.load(ordering: .acquiring) { poller.turn(self) }
    runWork()
  }

  /// Runs the loop on a thread of its own, which keeps the loop alive until ``stop()``.
  ///
  /// - Throws: ``SystemError`` when no thread can be made.
  package func start() throws(SystemError) {
    try DetachedThread.start {
      #if !canImport(Darwin)
        // `splice(2)` knows no MSG_NOSIGNAL, and a program that uses this as a library may not ignore the signal.
        cs_block_sigpipe()
      #endif
      self.run()
    }
  }

  /// For a loop that nobody runs and nobody will: what it has to do is done here and now, and so is what comes later,
  /// the end of the objects that live on it for one. Without this they would wait for it, and it for them.
  package func abandon() {
    isAbandoned.store(true, ordering: .releasing)
    stop()
    runAbandoned()
  }

  private func runAbandoned() {
    // What is added by that very work is done behind it.
    guard !isCurrent else { return }
    owner.store(currentThread(), ordering: .releasing)
    defer { owner.store(0, ordering: .releasing) }
    while !work.withLock({ $0.isEmpty }) { runWork() }
    // Who asked for another turn gets none.
    runAgain()
  }

  /// Ends ``run()`` after the present turn. Any thread.
  package func stop() {
    stopping.store(true, ordering: .releasing)
    unsafe uv_async_send(wakeUp)
  }

  /// Calls `object` once more, after the descriptors that are ready now have had their turn.
  ///
  /// For work that is cut into slices so that one busy stream does not hold up the others.
  package func resume(_ object: any Resumable) { again.append(object) }

  /// Whether somebody waits to be called, so that the loop must not sleep.
  var mustNotSleep: Bool { !again.isEmpty }

  func runAgain() {
    guard !again.isEmpty else { return }
    swap(&again, &resuming)
    // Who stops the loop has gone, and with it those whom these objects would call.
    for index in resuming.indices where !stopping.load(ordering: .acquiring) { resuming[index].resume() }
    resuming.removeAll(keepingCapacity: true)
  }

  // MARK: Executor

  package func enqueue(_ job: consuming ExecutorJob) {
    add(.task(UnownedJob(job)))
  }

  /// Runs `body` on the loop's thread, soon. Any thread.
  package func execute(_ body: @escaping @Sendable () -> Void) {
    add(.closure(body))
  }

  private func add(_ job: Job) {
    let first = work.withLock { work in
      work.append(job)
      return work.count == 1
    }
    guard first else { return }
    if isAbandoned.load(ordering: .acquiring) { runAbandoned() } else { unsafe uv_async_send(wakeUp) }
  }

  package func checkIsolated() {
    // The contract of `checkIsolated` is to stop the process; only a mistake of ours can get here.
    guard isCurrent else { fatalError("code of an event loop runs on another thread") }
  }

  package func isIsolatingCurrentContext() -> Bool? { isCurrent }

  /// Whether the caller is on the loop's thread.
  package var isCurrent: Bool { owner.load(ordering: .acquiring) == currentThread() }

  fileprivate func runWork() {
    let jobs = work.withLock { work in
      let jobs = work
      work = []
      return jobs
    }
    for job in jobs {
      switch job {
      case .task(let task): unsafe task.runSynchronously(on: asUnownedSerialExecutor())
      case .closure(let body): body()
      }
    }
  }
}

/// Work that is done in slices on the loop's thread.
package protocol Resumable: AnyObject {
  func resume()
}

/// The calling thread's identity, never 0.
private func currentThread() -> UInt {
  #if canImport(Darwin)
    return UInt(bitPattern: unsafe pthread_self())
  #else
    return pthread_self()
  #endif
}

private func loopWasWoken(_ handle: UnsafeMutablePointer<uv_async_t>?) {
  guard let handle = unsafe handle, let context = unsafe handle.pointee.data else { return }
  unsafe Unmanaged<EventLoop>.fromOpaque(context).takeUnretainedValue().runWork()
}
