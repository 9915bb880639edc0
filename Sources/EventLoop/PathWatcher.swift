internal import CLibUV

/// Tells when an entry of a directory comes or goes (inotify on Linux, kqueue on Darwin).
@safe
package final class PathWatcher {
  private let loop: EventLoop
  private let handle: UnsafeMutablePointer<uv_fs_event_t>
  fileprivate let name: String
  fileprivate let action: () -> Void

  /// Watches `directory` for the entry `name`. Nil when the directory does not exist or cannot be watched.
  package init?(directory: String, name: String, on loop: EventLoop, action: @escaping () -> Void) {
    self.loop = loop
    self.name = name
    self.action = action
    unsafe handle = .allocate(capacity: 1)
    unsafe uv_fs_event_init(loop.uv, handle)
    unsafe handle.pointee.data = Unmanaged.passUnretained(self).toOpaque()
    loop.poller.pendingChanges = true
    guard unsafe uv_fs_event_start(handle, entryChanged, directory, 0) == 0 else { return nil }
  }

  deinit {
    unsafe handle.pointee.data = nil
    loop.poller.pendingChanges = true
    unsafe uv_close(UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)) { closed in
      unsafe UnsafeMutableRawPointer(closed)?.assumingMemoryBound(to: uv_fs_event_t.self).deallocate()
    }
  }
}

private func entryChanged(
  _ handle: UnsafeMutablePointer<uv_fs_event_t>?, _ entry: UnsafePointer<CChar>?, _ events: CInt,
  _ status: CInt
) {
  guard let handle = unsafe handle, let context = unsafe handle.pointee.data else { return }
  let watcher = unsafe Unmanaged<PathWatcher>.fromOpaque(context).takeUnretainedValue()
  // Where the system does not say which entry it was, it may have been ours.
  if let entry = unsafe entry, unsafe String(cString: entry) != watcher.name { return }
  watcher.action()
}
