internal import CSystem
internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// What one non-blocking read or write came to.
enum Transfer {
  /// So many bytes were moved, at least one.
  case bytes(Int)
  /// Nothing can be moved now (EAGAIN).
  case wouldBlock
  /// The other side has ended the stream (reads only).
  case end
  case failed(SystemError)
}

/// Calls on stream sockets. One place handles EINTR, EAGAIN and the signal that a broken stream raises.
enum Socket {
  #if canImport(Darwin)
    // SO_NOSIGPIPE is set on every socket of this process instead (CSystem.c).
    private static let flags: CInt = MSG_DONTWAIT
  #else
    private static let flags = CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL)
  #endif

  @inline(__always)
  static func receive(_ socket: CInt, into buffer: UnsafeMutableRawPointer, count: Int) -> Transfer {
    while true {
      let moved = unsafe recv(socket, buffer, count, flags)
      if moved > 0 { return .bytes(moved) }
      if moved == 0 { return .end }
      switch errno {
      case EINTR: continue
      case EAGAIN: return .wouldBlock
      default: return .failed(.last("recv"))
      }
    }
  }

  @inline(__always)
  static func send(_ socket: CInt, from buffer: UnsafeRawPointer, count: Int) -> Transfer {
    while true {
      let moved = unsafe Self.posixSend(socket, buffer, count, flags)
      if moved > 0 { return .bytes(moved) }
      // A send that moves nothing must not be tried again at once (it would spin).
      if moved == 0 { return .wouldBlock }
      switch errno {
      case EINTR: continue
      case EAGAIN, ENOBUFS: return .wouldBlock
      default: return .failed(.last("send"))
      }
    }
  }

  @inline(__always)
  private static func posixSend(
    _ socket: CInt, _ buffer: UnsafeRawPointer, _ count: Int, _ flags: CInt
  ) -> Int {
    #if canImport(Darwin)
      unsafe Darwin.send(socket, buffer, count, flags)
    #else
      unsafe Glibc.send(socket, buffer, count, flags)
    #endif
  }

  /// Ends the sending side: the peer reads an end after all bytes.
  static func endSending(_ socket: CInt) {
    #if canImport(Darwin)
      _ = shutdown(socket, SHUT_WR)
    #else
      _ = shutdown(socket, CInt(SHUT_WR))
    #endif
  }

  /// Makes the coming close a reset (TCP) instead of a clean end.
  static func resetOnClose(_ socket: CInt) { _ = cs_reset_on_close(socket) }

  /// The error that a socket holds for its owner, such as that of a connect in progress; 0 when none.
  static func pendingError(_ socket: CInt) -> CInt { cs_socket_error(socket) }

  /// Whether the peer has ended its stream and nothing before that waits to be read.
  static func isAtEnd(_ socket: CInt) -> Bool {
    var byte: UInt8 = 0
    #if canImport(Darwin)
      return unsafe recv(socket, &byte, 1, flags | MSG_PEEK) == 0
    #else
      return unsafe recv(socket, &byte, 1, flags | CInt(MSG_PEEK)) == 0
    #endif
  }

  /// Bytes that the kernel still has to deliver to the peer of a TCP socket; 0 where it cannot be told.
  static func unsentBytes(_ socket: CInt) -> Int {
    var count: CInt = 0
    #if canImport(Darwin)
      return cs_get_int(socket, SOL_SOCKET, SO_NWRITE, &count) == 0 ? Int(count) : 0
    #else
      return unsafe ioctl(socket, UInt(TIOCOUTQ), &count) == 0 ? Int(count) : 0
    #endif
  }
}
