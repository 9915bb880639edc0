#if os(Linux)
  internal import CLibUSB
  internal import EventLoop
  internal import Glibc

  /// Runs the events of one libusb context on the loop: its descriptors are watched there, and its time limits
  /// kept by a timer where libusb has no descriptor for them.
  ///
  /// The descriptors are watched level-triggered: libusb reaps a bounded number of transfers in one call.
  @safe
  final class USBEvents: ReadinessHandler {
    private let context: OpaquePointer
    private let loop: EventLoop
    private var watchers: [Watcher] = []
    private var timer: LoopTimer?
    private var isHandling = false
    private var isCancelled = false
    private var afterwards: [() -> Void] = []

    /// Watches the descriptors that the context has by now. The context outlives this object, or ``cancel()``.
    ///
    /// - Throws: ``SystemError`` when one cannot be watched.
    init(_ context: OpaquePointer, on loop: EventLoop) throws(SystemError) {
      unsafe self.context = context
      self.loop = loop
      guard let list = unsafe libusb_get_pollfds(context) else {
        throw SystemError(code: ENOMEM, call: "libusb_get_pollfds")
      }
      defer { unsafe libusb_free_pollfds(list) }
      var index = 0
      while let entry = unsafe list[index] {
        index += 1
        var interest: Readiness = []
        if unsafe entry.pointee.events & CShort(POLLIN) != 0 { interest.insert(.read) }
        if unsafe entry.pointee.events & CShort(POLLOUT) != 0 { interest.insert(.write) }
        let descriptor = unsafe entry.pointee.fd
        watchers.append(
          try Watcher(levelTriggered: descriptor, for: interest, on: loop, handler: self))
      }
      // A device that left makes its descriptor broken for good: libusb drops it, and so must we.
      unsafe libusb_set_pollfd_notifiers(
        context, nil, descriptorRemoved, Unmanaged.passUnretained(self).toOpaque())
      if unsafe libusb_pollfds_handle_timeouts(context) == 0 {
        timer = LoopTimer(on: loop) { [unowned self] in handle() }
      }
    }

    deinit { cancel() }

    /// Ends the watch. The context may go to another thread afterwards, but not while ``isHandling``.
    func cancel() {
      guard !isCancelled else { return }
      isCancelled = true
      for watcher in watchers { watcher.cancel() }
      watchers = []
      timer = nil
      unsafe libusb_set_pollfd_notifiers(context, nil, nil, nil)
    }

    /// Calls `body` when the loop is not within a call of libusb for this context: at once, or right after it.
    func whenIdle(_ body: @escaping () -> Void) {
      if isHandling { afterwards.append(body) } else { body() }
    }

    /// A transfer with a time limit was submitted.
    func timeLimitsChanged() {
      guard let timer, !isCancelled else { return }
      var next = timeval()
      guard unsafe libusb_get_next_timeout(context, &next) == 1 else { return timer.clear() }
      timer.set(after: Int64(next.tv_sec) * 1_000_000_000 + Int64(next.tv_usec) * 1000)
    }

    func ready(_ readiness: Readiness, _ watcher: Watcher) { handle() }

    private func handle() {
      guard !isCancelled, !isHandling else { return }
      isHandling = true
      var none = timeval()
      _ = unsafe libusb_handle_events_timeout_completed(context, &none, nil)
      isHandling = false
      timeLimitsChanged()
      guard !afterwards.isEmpty else { return }
      let bodies = afterwards
      afterwards = []
      for body in bodies { body() }
    }

    fileprivate func removed(_ descriptor: CInt) {
      for watcher in watchers where watcher.descriptor == descriptor { watcher.cancel() }
      watchers.removeAll { $0.descriptor == descriptor }
    }
  }

  private func descriptorRemoved(_ descriptor: CInt, _ context: UnsafeMutableRawPointer?) {
    guard let context = unsafe context else { return }
    unsafe Unmanaged<USBEvents>.fromOpaque(context).takeUnretainedValue().removed(descriptor)
  }
#endif
