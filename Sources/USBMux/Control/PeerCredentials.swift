internal import CSystem

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// Who is at the other end of a Unix socket.
struct PeerCredentials: Equatable {
  var user: UInt32
  var group: UInt32
  /// Whether it is a member of a group besides its own.
  var isMember: (UInt32) -> Bool

  /// Nil when it cannot be told.
  init?(_ socket: CInt) {
    var user: UInt32 = 0
    var group: UInt32 = 0
    guard unsafe cs_peer_credentials(socket, &user, &group) == 0 else { return nil }
    self.init(user: user, group: group) { cs_peer_has_group(socket, $0) == 1 }
  }

  init(user: UInt32, group: UInt32, isMember: @escaping (UInt32) -> Bool) {
    self.user = user
    self.group = group
    self.isMember = isMember
  }

  static func == (left: PeerCredentials, right: PeerCredentials) -> Bool {
    left.user == right.user && left.group == right.group
  }
}

/// Whom a control socket admits: what the mode of its file says, checked once more on the connection, since
/// not every system looks at it, and the file may have been passed around.
struct PeerRule: Equatable {
  var owner: UInt32
  /// Members of it are admitted; nil: of none.
  var group: UInt32?
  var admitsAll: Bool

  init(owner: UInt32, group: UInt32?, admitsAll: Bool = false) {
    self.owner = owner
    self.group = group
    self.admitsAll = admitsAll
  }

  /// As `access` says; `group` is that of the socket's file.
  init(_ access: UnixSocketAccess, group: UInt32?) {
    owner = geteuid()
    self.group = access.mode & 0o020 != 0 ? group : nil
    admitsAll = access.mode & 0o002 != 0
  }

  func admits(_ peer: PeerCredentials?) -> Bool {
    guard let peer else { return false }
    if admitsAll || peer.user == 0 || peer.user == owner { return true }
    guard let group else { return false }
    return peer.group == group || peer.isMember(group)
  }
}
