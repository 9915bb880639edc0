#if os(Linux)
  internal import EventLoop
  internal import Glibc
  internal import Synchronization

  /// The one thread on which calls are made that may block: opening, claiming and closing devices, and looking
  /// through sysfs. A sick device can hold such a call up for seconds; the loop goes on meanwhile.
  ///
  /// The thread is made for the first job and ends with ``finish()``.
  @safe
  final class USBWorker: @unchecked Sendable {
    private struct State {
      var jobs: [@Sendable () -> Void] = []
      var isRunning = false
      var isFinishing = false
    }

    private let state = Mutex(State())
    private let work: UnsafeMutablePointer<sem_t>
    private let ended: UnsafeMutablePointer<sem_t>

    init() {
      unsafe work = .allocate(capacity: 1)
      unsafe ended = .allocate(capacity: 1)
      unsafe sem_init(work, 0, 0)
      unsafe sem_init(ended, 0, 0)
    }

    deinit {
      unsafe sem_destroy(work)
      unsafe sem_destroy(ended)
      unsafe work.deallocate()
      unsafe ended.deallocate()
    }

    /// Runs `job` after those that came before.
    func run(_ job: @escaping @Sendable () -> Void) {
      let starts = state.withLock { state in
        state.jobs.append(job)
        defer { state.isRunning = true }
        return !state.isRunning
      }
      if starts { startThread() }
      unsafe sem_post(work)
    }

    /// Lets the thread end after the jobs that are there.
    func finish() {
      state.withLock { $0.isFinishing = true }
      unsafe sem_post(work)
    }

    var isFinishing: Bool { state.withLock { $0.isFinishing } }

    /// After ``finish()``: waits until the thread has ended, at most this long.
    func waitForEnd(milliseconds: Int) {
      guard state.withLock({ $0.isRunning }) else { return }
      for _ in 0..<milliseconds {
        if unsafe sem_trywait(ended) == 0 { return }
        usleep(1000)
      }
    }

    private func startThread() {
      let retained = unsafe Unmanaged.passRetained(self)
      var thread = pthread_t()
      if unsafe pthread_create(&thread, nil, workerThread, retained.toOpaque()) == 0 {
        pthread_detach(thread)
      } else {
        // No thread to be had: better late than never, and a blocked loop than a device that is never opened.
        unsafe retained.release()
        state.withLock { $0.isRunning = false }
        while let job = nextJob() { job() }
      }
    }

    private func nextJob() -> (@Sendable () -> Void)? {
      state.withLock { $0.jobs.isEmpty ? nil : $0.jobs.removeFirst() }
    }

    fileprivate func threadBody() {
      // Signals are the loop's.
      var all = sigset_t()
      unsafe sigfillset(&all)
      unsafe pthread_sigmask(SIG_SETMASK, &all, nil)
      while true {
        while unsafe sem_wait(work) != 0 && errno == EINTR {}
        if let job = nextJob() {
          job()
          continue
        }
        let ends = state.withLock { state in
          guard state.isFinishing, state.jobs.isEmpty else { return false }
          state.isRunning = false
          return true
        }
        if ends { break }
      }
      unsafe sem_post(ended)
    }
  }

  private func workerThread(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context = unsafe context else { return nil }
    unsafe Unmanaged<USBWorker>.fromOpaque(context).takeRetainedValue().threadBody()
    return nil
  }

  /// Carries a reference to an object of the loop through another thread, which does not touch it.
  ///
  /// It is weak: the object's last reference must go on its own thread.
  final class LoopReference<Object: AnyObject>: @unchecked Sendable {
    private weak var object: Object?
    private let loop: EventLoop

    init(_ object: Object, of loop: EventLoop) {
      self.object = object
      self.loop = loop
    }

    /// Calls `body` with the object on its loop's thread, soon; `otherwise` when it is not there any more.
    func perform(
      _ body: @escaping @Sendable (Object) -> Void, otherwise: @escaping @Sendable () -> Void = {}
    ) {
      loop.execute { [self] in
        if let object { body(object) } else { otherwise() }
      }
    }
  }
#endif
