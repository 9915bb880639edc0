internal import CSystem
internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#endif

/// Whether a client that has ended its sending side is still there to read.
///
/// A socket that was closed and one that was only shut down look the same from here: both send FIN and both
/// are in FIN-WAIT-2. On this machine the kernel knows better (`sock_diag`): a closed socket has no inode. A Unix
/// socket tells the two apart by itself.
final class ClientPresence {
  #if os(Linux)
    /// A netlink socket, or -1 where the kernel gives none.
    private let diagnostics = cs_sock_diag_open()

    deinit { if diagnostics >= 0 { _ = close(diagnostics) } }

    /// Whether no process owns the other end of `socket` any more. False where that cannot be told.
    func isGone(_ socket: CInt) -> Bool {
      guard diagnostics >= 0 else { return cs_has_hung_up(socket) != 0 }
      var inode: UInt64 = 0
      if unsafe cs_tcp_peer_inode(diagnostics, socket, &inode) == 0 { return inode == 0 }
      // The pair is gone altogether from this machine's tables, or our end was reset.
      return errno == ENOENT || errno == ENOTCONN || cs_has_hung_up(socket) != 0
    }
  #else
    /// Darwin tells such things of TCP to privileged processes only, so the idle time decides there.
    func isGone(_ socket: CInt) -> Bool { cs_has_hung_up(socket) != 0 }
  #endif
}
