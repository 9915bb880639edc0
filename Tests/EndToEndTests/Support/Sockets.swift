import Foundation

#if canImport(Darwin)
  let streamSocket = SOCK_STREAM
  let noSignal: Int32 = 0
#else
  let streamSocket = Int32(SOCK_STREAM.rawValue)
  let noSignal = Int32(MSG_NOSIGNAL)
#endif
let dontWait = Int32(MSG_DONTWAIT)

/// Where a socket listens or leads to.
enum Endpoint: Sendable, Equatable, CustomStringConvertible {
  case ipv4(String, UInt16)
  case ipv6(String, UInt16)
  case unix(String)

  static func loopback(_ port: UInt16) -> Endpoint { .ipv4("127.0.0.1", port) }
  static func loopback6(_ port: UInt16) -> Endpoint { .ipv6("::1", port) }

  var description: String {
    switch self {
    case .ipv4(let host, let port): "\(host):\(port)"
    case .ipv6(let host, let port): "[\(host)]:\(port)"
    case .unix(let path): "unix:\(path)"
    }
  }

  var family: Int32 {
    switch self {
    case .ipv4: AF_INET
    case .ipv6: AF_INET6
    case .unix: AF_UNIX
    }
  }

  func withAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result) rethrows -> Result {
    var storage = sockaddr_storage()
    var length = 0
    withUnsafeMutableBytes(of: &storage) { raw in
      switch self {
      case .ipv4(let host, let port):
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        inet_pton(AF_INET, host, &address.sin_addr)
        length = MemoryLayout<sockaddr_in>.size
        raw.storeBytes(of: address, as: sockaddr_in.self)
      case .ipv6(let host, let port):
        var address = sockaddr_in6()
        address.sin6_family = sa_family_t(AF_INET6)
        address.sin6_port = port.bigEndian
        inet_pton(AF_INET6, host, &address.sin6_addr)
        length = MemoryLayout<sockaddr_in6>.size
        raw.storeBytes(of: address, as: sockaddr_in6.self)
      case .unix(let path):
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &address.sun_path) { field in
          for (index, byte) in path.utf8.enumerated() where index < field.count - 1 { field[index] = byte }
        }
        length = MemoryLayout<sockaddr_un>.size
        raw.storeBytes(of: address, as: sockaddr_un.self)
      }
    }
    return try withUnsafePointer(to: &storage) { pointer in
      try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { try body($0, socklen_t(length)) }
    }
  }
}

/// Held while a descriptor is made and marked close-on-exec, and while a child is started.
let inheritance = NSLock()

/// System calls on bare descriptors. All descriptors are made non-blocking and close-on-exec, since
/// an inherited copy in a child would keep connections open that the test has closed.
enum Socket {
  static func make(_ family: Int32) throws -> Int32 {
    try inheritance.withLock {
      let fd = socket(family, streamSocket, 0)
      guard fd >= 0 else { throw SystemFailure("socket") }
      prepare(fd)
      return fd
    }
  }

  static func prepare(_ fd: Int32) {
    _ = fcntl(fd, F_SETFD, FD_CLOEXEC)
    _ = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK)
    #if canImport(Darwin)
      set(fd, SOL_SOCKET, SO_NOSIGPIPE, 1)
    #endif
  }

  static func accept(_ listener: Int32) -> Int32? {
    inheritance.withLock {
      let fd = Foundation.accept(listener, nil, nil)
      guard fd >= 0 else { return nil }
      prepare(fd)
      return fd
    }
  }

  static func set(_ fd: Int32, _ level: Int32, _ option: Int32, _ value: Int32) {
    var value = value
    setsockopt(fd, level, option, &value, socklen_t(MemoryLayout<Int32>.size))
  }

  static func listen(_ endpoint: Endpoint, backlog: Int32 = 4096) throws -> Int32 {
    let fd = try make(endpoint.family)
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1)
    if case .ipv6 = endpoint { set(fd, Int32(IPPROTO_IPV6), IPV6_V6ONLY, 1) }
    guard endpoint.withAddress({ bind(fd, $0, $1) }) == 0, Foundation.listen(fd, backlog) == 0 else {
      let failure = SystemFailure("bind \(endpoint)")
      Foundation.close(fd)
      throw failure
    }
    return fd
  }

  static func localPort(_ fd: Int32) -> UInt16 {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutableBytes(of: &storage) { raw -> UInt16 in
      raw.withMemoryRebound(to: sockaddr.self) { _ = getsockname(fd, $0.baseAddress, &length) }
      // sin_port and sin6_port lie at the same place.
      return UInt16(raw[2]) << 8 | UInt16(raw[3])
    }
  }

  /// Never blocks, never raises SIGPIPE; the result is that of `send`.
  static func send(_ fd: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    Foundation.send(fd, bytes.baseAddress, bytes.count, dontWait | noSignal)
  }

  /// Never blocks; the result is that of `recv`.
  static func receive(_ fd: Int32, _ room: UnsafeMutableRawBufferPointer) -> Int {
    recv(fd, room.baseAddress, room.count, dontWait)
  }

  /// A connected socket; throws when nobody listens there. The listener's owner may be so quick with a reset
  /// that it is seen here: then the connection was made all the same.
  static func connect(_ endpoint: Endpoint, within seconds: Double) throws -> (fd: Int32, wasReset: Bool) {
    let fd = try make(endpoint.family)
    let deadline = Deadline(in: seconds)
    while endpoint.withAddress({ Foundation.connect(fd, $0, $1) }) != 0 {
      let code = errno
      if code == EISCONN { break }
      if code == ECONNRESET { return (fd, true) }
      if code == EINPROGRESS || code == EALREADY {
        waitFor(fd, Int16(POLLOUT), deadline)
        var failure: Int32 = 0
        var length = socklen_t(MemoryLayout<Int32>.size)
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &length)
        if failure == 0 && !deadline.passed { break }
        if failure == ECONNRESET { return (fd, true) }
        Foundation.close(fd)
        throw SystemFailure("connect \(endpoint)", code: failure == 0 ? ETIMEDOUT : failure)
      }
      if code == EAGAIN && !deadline.passed {
        // A Unix listener's queue is full.
        usleep(1_000)
        continue
      }
      if code == EINTR { continue }
      Foundation.close(fd)
      throw SystemFailure("connect \(endpoint)", code: code)
    }
    return (fd, false)
  }

  /// Waits for `events` (or hang-up); returns what came, 0 when the time ran out.
  @discardableResult
  static func waitFor(_ fd: Int32, _ events: Int16, _ deadline: Deadline) -> Int16 {
    var entry = pollfd(fd: fd, events: events, revents: 0)
    while true {
      let count = poll(&entry, 1, deadline.milliseconds)
      if count > 0 { return entry.revents }
      if count == 0 || errno != EINTR { return 0 }
    }
  }
}

/// How many sockets listen for nothing: a port that was free a moment ago.
func freePort() throws -> UInt16 {
  let fd = try Socket.listen(.loopback(0))
  defer { close(fd) }
  return Socket.localPort(fd)
}
