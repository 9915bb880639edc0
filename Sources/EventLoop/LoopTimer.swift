internal import CLibUV

/// A one-shot timer of the loop's thread, to be set again at will.
///
/// Made when first needed: an idle connection owns none. Not Sendable.
@safe
package final class LoopTimer {
  private let loop: EventLoop
  private let handle: UnsafeMutablePointer<uv_timer_t>
  fileprivate let action: () -> Void

  /// A timer that does nothing until it is set. `action` must not keep the timer's owner alive.
  package init(on loop: EventLoop, action: @escaping () -> Void) {
    self.loop = loop
    self.action = action
    unsafe handle = .allocate(capacity: 1)
    unsafe uv_timer_init(loop.uv, handle)
    unsafe handle.pointee.data = Unmanaged.passUnretained(self).toOpaque()
  }

  deinit {
    unsafe handle.pointee.data = nil
    loop.poller.pendingChanges = true
    unsafe uv_close(UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)) { closed in
      unsafe UnsafeMutableRawPointer(closed)?.assumingMemoryBound(to: uv_timer_t.self).deallocate()
    }
  }

  /// Fires once, `nanoseconds` from now (rounded up to a millisecond); replaces an earlier setting.
  package func set(after nanoseconds: Int64) {
    let milliseconds = max(0, nanoseconds) / 1_000_000 + (nanoseconds % 1_000_000 > 0 ? 1 : 0)
    // libuv counts from the time at which its loop last looked, which may be a long batch ago.
    unsafe uv_update_time(loop.uv)
    unsafe uv_timer_start(handle, timerFired, UInt64(milliseconds), 0)
  }

  /// Takes an earlier setting back.
  package func clear() { unsafe uv_timer_stop(handle) }

  /// Whether it is set and has not fired.
  package var isSet: Bool {
    unsafe uv_is_active(UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)) != 0
  }
}

private func timerFired(_ handle: UnsafeMutablePointer<uv_timer_t>?) {
  guard let handle = unsafe handle, let context = unsafe handle.pointee.data else { return }
  let timer = unsafe Unmanaged<LoopTimer>.fromOpaque(context).takeUnretainedValue()
  timer.action()
}
