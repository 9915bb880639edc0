internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// Who may connect to a Unix socket.
struct UnixSocketAccess: Equatable {
  /// Permission bits; connecting takes the right to write.
  var mode: UInt16
  /// The group that the socket's file is given to; nil: the one that the system picks.
  var group: UInt32?

  /// The user of this process only, which is how a socket is bound anyway.
  static let owner = UnixSocketAccess(mode: 0o600, group: nil)

  func apply(to path: String) throws(SystemError) {
    // Ownership first: giving a file away takes permission bits back on some systems.
    if let group {
      guard unsafe lchown(path, uid_t.max, gid_t(group)) == 0 else { throw SystemError.last("chown") }
    }
    guard unsafe chmod(path, mode_t(mode)) == 0 else { throw SystemError.last("chmod") }
  }

  /// The number of a group that is given by its name or as a number; nil when there is no such group.
  static func group(named name: String) -> UInt32? {
    // Most systems' entries take some hundred bytes; a group of thousands of users takes more.
    var size = 1024
    while size <= 1 << 20 {
      var entry = unsafe Group()
      var found: UnsafeMutablePointer<Group>?
      var status: CInt = 0
      var buffer = [CChar](repeating: 0, count: size)
      unsafe buffer.withUnsafeMutableBufferPointer { buffer in
        status = unsafe getgrnam_r(name, &entry, buffer.baseAddress, buffer.count, &found)
      }
      if status == ERANGE {
        size *= 4
        continue
      }
      if let found = unsafe found { return unsafe UInt32(found.pointee.gr_gid) }
      break
    }
    guard !name.isEmpty, name.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else {
      return nil
    }
    return UInt32(name)
  }
}

/// The C library's record of a group.
private typealias Group = group
