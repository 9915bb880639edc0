internal import CLibUV

/// Tells of a signal on the loop's thread.
@safe
package final class SignalWatcher {
  private let loop: EventLoop
  private let handle: UnsafeMutablePointer<uv_signal_t>
  fileprivate let action: () -> Void

  /// Watches signal `number` for as long as this object lives.
  package init(_ number: CInt, on loop: EventLoop, action: @escaping () -> Void) {
    self.loop = loop
    self.action = action
    unsafe handle = .allocate(capacity: 1)
    unsafe uv_signal_init(loop.uv, handle)
    unsafe handle.pointee.data = Unmanaged.passUnretained(self).toOpaque()
    unsafe uv_signal_start(handle, signalCame, number)
    loop.poller.pendingChanges = true
  }

  deinit {
    unsafe handle.pointee.data = nil
    loop.poller.pendingChanges = true
    unsafe uv_close(UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)) { closed in
      unsafe UnsafeMutableRawPointer(closed)?.assumingMemoryBound(to: uv_signal_t.self).deallocate()
    }
  }
}

private func signalCame(_ handle: UnsafeMutablePointer<uv_signal_t>?, _ number: CInt) {
  guard let handle = unsafe handle, let context = unsafe handle.pointee.data else { return }
  let watcher = unsafe Unmanaged<SignalWatcher>.fromOpaque(context).takeUnretainedValue()
  watcher.action()
}
