#if !os(Linux) || PORTABLE_POLLER
  internal import CLibUV
  internal import CSystem

  #if canImport(Glibc)
    internal import Glibc
  #elseif canImport(Darwin)
    internal import Darwin
  #endif

  /// A watcher's libuv handle.
  @safe
  struct PortableWatch {
    var handle: UnsafeMutablePointer<uv_poll_t>?
    var interest: CInt = 0
  }

  /// Descriptors as libuv polls them: level-triggered, so a watcher asks only for what its owner waits for.
  ///
  /// On Linux this is built with `-Xswiftc -DPORTABLE_POLLER`, to run the code that Darwin uses.
  final class Poller {
    private var registrations: UInt64 = 0

    init(backend: CInt) throws(SystemError) {}

    var pendingChanges = false

    func turn(_ loop: EventLoop) {
      unsafe uv_run(loop.uv, loop.mustNotSleep ? UV_RUN_NOWAIT : UV_RUN_ONCE)
      loop.runAgain()
    }

    func add(_ watcher: Watcher) throws(SystemError) {
      let handle = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
      let status = unsafe uv_poll_init(watcher.loop.uv, handle, watcher.descriptor)
      guard status == 0 else {
        unsafe handle.deallocate()
        throw SystemError(code: -status, call: "uv_poll_init")
      }
      unsafe handle.pointee.data = Unmanaged.passUnretained(watcher).toOpaque()
      unsafe watcher.portable.handle = handle
      registrations += 1
      watcher.registration = registrations
      wait(for: watcher.level.isEmpty ? .read : watcher.level, watcher)
    }

    func wait(for interest: Readiness, _ watcher: Watcher) {
      var wanted = watcher.portable.interest
      if interest.contains(.read) { wanted |= CInt(UV_READABLE.rawValue) | CInt(UV_DISCONNECT.rawValue) }
      if interest.contains(.write) { wanted |= CInt(UV_WRITABLE.rawValue) }
      set(wanted, watcher)
    }

    fileprivate func set(_ wanted: CInt, _ watcher: Watcher) {
      guard wanted != watcher.portable.interest, let handle = unsafe watcher.portable.handle else { return }
      watcher.portable.interest = wanted
      if wanted == 0 {
        unsafe uv_poll_stop(handle)
      } else {
        unsafe uv_poll_start(handle, wanted, descriptorIsReady)
      }
    }

    func remove(_ watcher: Watcher, isClosing: Bool) {
      guard let handle = unsafe watcher.portable.handle else { return }
      unsafe watcher.portable.handle = nil
      unsafe handle.pointee.data = nil
      unsafe uv_close(UnsafeMutableRawPointer(handle).assumingMemoryBound(to: uv_handle_t.self)) { closed in
        unsafe UnsafeMutableRawPointer(closed)?.assumingMemoryBound(to: uv_poll_t.self).deallocate()
      }
    }
  }

  private func descriptorIsReady(_ handle: UnsafeMutablePointer<uv_poll_t>?, _ status: CInt, _ events: CInt) {
    guard let handle = unsafe handle, let context = unsafe handle.pointee.data else { return }
    let watcher = unsafe Unmanaged<Watcher>.fromOpaque(context).takeUnretainedValue()
    var readiness: Readiness = []
    if events & CInt(UV_READABLE.rawValue) != 0 { readiness.insert(.read) }
    if events & CInt(UV_WRITABLE.rawValue) != 0 { readiness.insert(.write) }
    if events & CInt(UV_DISCONNECT.rawValue) != 0 {
      readiness.formUnion([.read, .hangUp])
      if cs_has_hung_up(watcher.descriptor) != 0 { readiness.formUnion([.write, .broken]) }
    }
    if status < 0 { readiness.formUnion([.read, .write, .hangUp, .broken]) }
    // What was told is remembered by the owner, which asks again when it has used it up.
    var rest = watcher.portable.interest
    if readiness.contains(.read) { rest &= ~(CInt(UV_READABLE.rawValue) | CInt(UV_DISCONNECT.rawValue)) }
    if readiness.contains(.write) { rest &= ~CInt(UV_WRITABLE.rawValue) }
    if watcher.level.isEmpty { watcher.loop.poller.set(rest, watcher) }
    if readiness.contains(.hangUp) { watcher.hasHungUp = true }
    watcher.handler.ready(readiness, watcher)
  }
#endif
