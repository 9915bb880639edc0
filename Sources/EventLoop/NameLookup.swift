internal import Synchronization

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// A name that could not be looked up.
package struct NameLookupError: Error, Equatable {
  /// The system's words for it.
  package let message: String

  fileprivate init(_ status: CInt) {
    if let text = unsafe gai_strerror(status) {
      message = unsafe String(cString: text)
    } else {
      message = "error \(status)"
    }
  }
}

/// Looks a host name up without blocking the loop.
///
/// All look-ups of a loop share one thread, which is there while there are any. libuv's would be four for good, and
/// their number can only be set in the environment of the process, which is not a library's to change.
///
/// Belongs to the loop's thread.
package final class NameLookup {
  private let request: LookupRequest

  /// Starts to look `host` up; `done` gets its numeric addresses, in the system's order of preference.
  /// Nothing is called once this object is gone.
  package init(
    _ host: String, on loop: EventLoop, done: @escaping (Result<[String], NameLookupError>) -> Void
  ) {
    request = LookupRequest(host, done)
    loop.lookups.add(request, for: loop)
  }

  deinit { request.cancel() }
}

/// One name that is to be looked up.
///
/// `done` is the loop's thread's. `result` is set by the thread that looks up, before it hands the request back through
/// the loop's queue. That makes the `@unchecked Sendable` true.
final class LookupRequest: @unchecked Sendable {
  private let host: String
  private let isCancelled = Atomic<Bool>(false)
  private var done: ((Result<[String], NameLookupError>) -> Void)?
  private var result = Result<[String], NameLookupError>.success([])

  fileprivate init(_ host: String, _ done: @escaping (Result<[String], NameLookupError>) -> Void) {
    self.host = host
    self.done = done
  }

  fileprivate func cancel() {
    isCancelled.store(true, ordering: .relaxed)
    done = nil
  }

  fileprivate func fail(_ status: CInt) { result = .failure(NameLookupError(status)) }

  fileprivate func deliver() {
    let done = done
    self.done = nil
    done?(result)
  }

  /// Waits for the system's answer.
  fileprivate func look() {
    guard !isCancelled.load(ordering: .relaxed) else { return }
    var hints = unsafe addrinfo()
    #if canImport(Darwin)
      unsafe hints.ai_socktype = SOCK_STREAM
    #else
      unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
    #endif
    var list: UnsafeMutablePointer<addrinfo>?
    let status = unsafe getaddrinfo(host, nil, &hints, &list)
    guard status == 0 else { return fail(status) }
    defer { unsafe freeaddrinfo(list) }
    var hosts: [String] = []
    var entry = unsafe list
    while let info = unsafe entry {
      var text = [CChar](repeating: 0, count: 64)
      let named = unsafe getnameinfo(
        info.pointee.ai_addr, info.pointee.ai_addrlen, &text, socklen_t(text.count), nil, 0, NI_NUMERICHOST)
      if named == 0 {
        hosts.append(String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
      }
      unsafe entry = info.pointee.ai_next
    }
    result = .success(hosts)
  }
}

/// The look-ups of a loop, and the thread that does them one after the other.
final class LookupQueue: Sendable {
  private struct State {
    var waiting: [LookupRequest] = []
    var hasThread = false
  }

  private let state = Mutex(State())

  fileprivate func add(_ request: LookupRequest, for loop: EventLoop) {
    let needsThread = state.withLock { state in
      state.waiting.append(request)
      defer { state.hasThread = true }
      return !state.hasThread
    }
    guard needsThread else { return }
    do throws(SystemError) {
      // The thread keeps the loop until it has nothing more to do.
      try DetachedThread.start { loop.lookups.work(for: loop) }
    } catch {
      while let request = next() {
        request.fail(EAI_AGAIN)
        loop.execute { request.deliver() }
      }
    }
  }

  private func work(for loop: EventLoop) {
    while let request = next() {
      request.look()
      loop.execute { request.deliver() }
    }
  }

  private func next() -> LookupRequest? {
    state.withLock { state in
      guard !state.waiting.isEmpty else {
        state.hasThread = false
        return nil
      }
      return state.waiting.removeFirst()
    }
  }
}
