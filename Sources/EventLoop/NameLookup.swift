internal import CLibUV

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
    if let text = unsafe uv_strerror(status) {
      message = unsafe String(cString: text)
    } else {
      message = "error \(status)"
    }
  }
}

/// Looks a host name up without blocking the loop (`getaddrinfo` on libuv's thread).
@safe
package final class NameLookup {
  fileprivate var done: ((Result<[String], NameLookupError>) -> Void)?
  private var request: UnsafeMutablePointer<uv_getaddrinfo_t>?

  /// Starts to look `host` up; `done` gets its numeric addresses, in the system's order of preference.
  /// Nothing is called once this object is gone.
  package init(
    _ host: String, on loop: EventLoop, done: @escaping (Result<[String], NameLookupError>) -> Void
  ) {
    self.done = done
    // One helper thread is enough for look-ups; libuv's default is four.
    _ = unsafe setenv("UV_THREADPOOL_SIZE", "1", 0)
    let request = UnsafeMutablePointer<uv_getaddrinfo_t>.allocate(capacity: 1)
    var hints = unsafe addrinfo()
    #if canImport(Darwin)
      unsafe hints.ai_socktype = SOCK_STREAM
    #else
      unsafe hints.ai_socktype = CInt(SOCK_STREAM.rawValue)
    #endif
    let status = unsafe uv_getaddrinfo(loop.uv, request, lookedUp, host, nil, &hints)
    loop.poller.pendingChanges = true
    guard status == 0 else {
      unsafe request.deallocate()
      loop.resume(ImmediateFailure(self, NameLookupError(status)))
      return
    }
    unsafe request.pointee.data = Unmanaged.passUnretained(self).toOpaque()
    unsafe self.request = request
  }

  deinit {
    guard let request = unsafe request else { return }
    // The request stays with libuv until its callback, which finds nobody.
    unsafe request.pointee.data = nil
    unsafe uv_cancel(UnsafeMutableRawPointer(request).assumingMemoryBound(to: uv_req_t.self))
  }

  fileprivate func finish(_ result: Result<[String], NameLookupError>) {
    unsafe request = nil
    let done = done
    self.done = nil
    done?(result)
  }

  private final class ImmediateFailure: Resumable {
    private weak var lookup: NameLookup?
    private let error: NameLookupError
    init(_ lookup: NameLookup, _ error: NameLookupError) {
      self.lookup = lookup
      self.error = error
    }
    func resume() { lookup?.finish(.failure(error)) }
  }
}

private func lookedUp(
  _ request: UnsafeMutablePointer<uv_getaddrinfo_t>?, _ status: CInt, _ list: UnsafeMutablePointer<addrinfo>?
) {
  guard let request = unsafe request else { return }
  defer {
    unsafe uv_freeaddrinfo(list)
    unsafe request.deallocate()
  }
  guard let context = unsafe request.pointee.data else { return }
  let lookup = unsafe Unmanaged<NameLookup>.fromOpaque(context).takeUnretainedValue()
  guard status == 0 else {
    return lookup.finish(.failure(NameLookupError(status)))
  }
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
  lookup.finish(.success(hosts))
}
