internal import CSystem
internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// The options and calls of listening sockets.
enum ListeningSocket {
  /// Kernel buffer for bytes on their way to a client, bytes (the kernel doubles it). Measured: the default
  /// makes a download a third slower (docs/PERFORMANCE.md).
  private static let sendBuffer: CInt = 262_144
  /// Idle time before the first keep-alive probe, seconds.
  private static let keepAliveIdle: CInt = 60

  static func prepare(_ socket: CInt, for address: SocketAddress) {
    if address.isUnix {
      #if os(Linux)
        // The mode that the socket's file gets when it is bound.
        _ = fchmod(socket, 0o600)
      #endif
      return
    }
    // Ports in TIME-WAIT can be bound again; a port that is listened on cannot.
    _ = cs_set_int(socket, SOL_SOCKET, SO_REUSEADDR, 1)
    // Each family has a socket of its own, so that a wildcard of one does not take the other's.
    if address.isIPv6 { _ = cs_set_int(socket, CInt(IPPROTO_IPV6.value), IPV6_V6ONLY, 1) }
    // Accepted sockets inherit these, which saves three calls for each connection.
    tune(socket)
  }

  /// Options of a connection with a client.
  private static func tune(_ socket: CInt) {
    cs_tune_tcp(socket, keepAliveIdle)
    _ = cs_set_int(socket, SOL_SOCKET, SO_SNDBUF, sendBuffer)
  }

  /// Makes a socket of another process's making fit for the loop. Nothing is changed when it does not listen.
  static func adopt(_ socket: CInt) throws(SystemError) {
    var listens: CInt = 0
    guard unsafe cs_get_int(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens) == 0 else {
      throw SystemError.last("getsockopt")
    }
    guard listens != 0 else { throw SystemError(code: EINVAL, call: "getsockopt") }
    let flags = fcntl(socket, F_GETFL)
    guard flags >= 0, fcntl(socket, F_SETFL, flags | O_NONBLOCK) >= 0, fcntl(socket, F_SETFD, FD_CLOEXEC) >= 0
    else { throw SystemError.last("fcntl") }
    if SocketAddress.bound(socket)?.isUnix == false { tune(socket) }
  }

  static func listen(_ socket: CInt, backlog: CInt) throws(SystemError) {
    #if canImport(Darwin)
      let status = Darwin.listen(socket, backlog)
    #else
      let status = Glibc.listen(socket, backlog)
    #endif
    guard status == 0 else { throw SystemError.last("listen") }
  }
}

#if canImport(Darwin)
  extension Int32 { fileprivate var value: Int32 { self } }
#else
  extension Int { fileprivate var value: Int { self } }
#endif

/// The file of a Unix socket.
enum UnixSocketFile {
  /// Removes the file of a socket on which nobody listens any more; leaves everything else alone, so that
  /// binding says what is in the way.
  static func removeStale(_ path: String) {
    var status = stat()
    guard unsafe lstat(path, &status) == 0, status.st_mode & S_IFMT == S_IFSOCK,
      let address = SocketAddress(path: path), let socket = try? address.makeSocket()
    else { return }
    if SystemError(code: address.connect(socket.number), call: "connect").isAbsence {
      _ = unsafe unlink(path)
    }
  }

  /// What identifies the file that a socket was just bound to, so that only this one is removed later.
  static func identity(_ path: String) -> Identity? {
    var status = stat()
    guard unsafe lstat(path, &status) == 0 else { return nil }
    return Identity(
      device: UInt64(truncatingIfNeeded: status.st_dev), inode: UInt64(status.st_ino), group: status.st_gid)
  }

  struct Identity: Equatable {
    let device: UInt64
    let inode: UInt64
    let group: UInt32
  }

  /// Removes the file, unless another one has taken its place.
  static func remove(_ path: String, if identity: Identity?) {
    if let identity, Self.identity(path) == identity { _ = unsafe unlink(path) }
  }
}
