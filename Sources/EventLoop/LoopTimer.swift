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
    unsafe handle = loop.timers.take(loop)
    unsafe handle.pointee.data = Unmanaged.passUnretained(self).toOpaque()
  }

  deinit {
    unsafe uv_timer_stop(handle)
    unsafe handle.pointee.data = nil
    unsafe loop.timers.giveBack(handle, loop)
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

/// libuv's timer handles that are not in use.
///
/// Closing a handle takes libuv a turn, with a system call in it; a connection that sets a deadline and meets it
/// should not cost that.
@safe
final class TimerPool {
  private static let kept = 256
  private var free: [UnsafeMutablePointer<uv_timer_t>] = unsafe []

  func take(_ loop: EventLoop) -> UnsafeMutablePointer<uv_timer_t> {
    if let handle = unsafe free.popLast() { return unsafe handle }
    let handle = UnsafeMutablePointer<uv_timer_t>.allocate(capacity: 1)
    unsafe uv_timer_init(loop.uv, handle)
    return unsafe handle
  }

  func giveBack(_ handle: UnsafeMutablePointer<uv_timer_t>, _ loop: EventLoop) {
    if unsafe free.count < Self.kept { unsafe free.append(handle) } else { unsafe close(handle, loop) }
  }

  /// Before the loop is closed.
  func closeAll(_ loop: EventLoop) {
    while let handle = unsafe free.popLast() { unsafe close(handle, loop) }
  }

  private func close(_ handle: UnsafeMutablePointer<uv_timer_t>, _ loop: EventLoop) {
    loop.poller.pendingChanges = true
    unsafe uv_close(UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)) { closed in
      unsafe UnsafeMutableRawPointer(closed)?.assumingMemoryBound(to: uv_timer_t.self).deallocate()
    }
  }
}

private func timerFired(_ handle: UnsafeMutablePointer<uv_timer_t>?) {
  guard let handle = unsafe handle, let context = unsafe handle.pointee.data else { return }
  let timer = unsafe Unmanaged<LoopTimer>.fromOpaque(context).takeUnretainedValue()
  timer.action()
}
