#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// Threads that nobody waits for.
enum DetachedThread {
  /// Runs `body` on a new one.
  ///
  /// - Throws: ``SystemError`` when the system gives none.
  static func start(_ body: @escaping @Sendable () -> Void) throws(SystemError) {
    let retained = unsafe Unmanaged.passRetained(Body(body))
    #if canImport(Darwin)
      var thread: pthread_t?
    #else
      var thread = pthread_t()
    #endif
    let status = unsafe pthread_create(&thread, nil, threadMain, retained.toOpaque())
    guard status == 0 else {
      unsafe retained.release()
      throw SystemError(code: status, call: "pthread_create")
    }
    #if canImport(Darwin)
      if let thread = unsafe thread { unsafe pthread_detach(thread) }
    #else
      pthread_detach(thread)
    #endif
  }

  fileprivate final class Body: Sendable {
    let run: @Sendable () -> Void
    init(_ run: @escaping @Sendable () -> Void) { self.run = run }
  }
}

#if canImport(Darwin)
  private func threadMain(_ context: UnsafeMutableRawPointer) -> UnsafeMutableRawPointer? {
    unsafe Unmanaged<DetachedThread.Body>.fromOpaque(context).takeRetainedValue().run()
    return nil
  }
#else
  private func threadMain(_ context: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    guard let context = unsafe context else { return nil }
    unsafe Unmanaged<DetachedThread.Body>.fromOpaque(context).takeRetainedValue().run()
    return nil
  }
#endif
