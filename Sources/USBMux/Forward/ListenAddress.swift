internal import EventLoop

/// Where a forward listens on this machine.
public enum ListenAddress: Hashable, Sendable, CustomStringConvertible {
  /// 127.0.0.1 and ::1, on the same port. Port 0: the system picks a free one.
  case localhost(port: UInt16)
  /// A numeric IPv4 or IPv6 address, which may be `0.0.0.0` or `::`. Port 0: the system picks a free one.
  case address(String, port: UInt16)
  /// A Unix socket, made with mode 0600.
  case unix(path: String)
  /// Stream sockets that listen already, such as those that systemd passes to its service. They are taken over,
  /// and their files, if they have any, stay when they are closed.
  case inherited(descriptors: [Int32])

  /// `localhost:8765`, `192.0.2.1:8765`, `[::1]:8765`, `unix:/path` or `descriptor 3, 4`.
  public var description: String {
    switch self {
    case .localhost(let port): "localhost:\(port)"
    case .address(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    case .unix(let path): "unix:\(path)"
    case .inherited(let descriptors): "descriptor " + descriptors.map(String.init).joined(separator: ", ")
    }
  }
}

/// Sockets that are bound and listen, all of one forward.
struct BoundSockets: ~Copyable {
  /// The sockets' numbers; nil where one was taken.
  private var sockets: [CInt?] = []
  private(set) var addresses: [SocketAddress] = []

  /// How often another free port is tried when the one that IPv4 got is taken on IPv6.
  private static let portTries = 16
  /// As deep a queue as the kernel grants: a burst must not be refused while the loop is busy.
  private static let backlog: CInt = 4096

  /// Binds all sockets of `address`, or none. `access` says who may connect, where it is a Unix socket.
  ///
  /// - Throws: ``MuxError/cannotListen(address:_:reason:)``.
  init(_ address: ListenAddress, access: UnixSocketAccess = .owner) throws(MuxError) {
    self.init()
    switch address {
    case .localhost(let port): try bindLocalhost(port)
    case .address(let host, let port):
      guard let socket = SocketAddress(host: host, port: port) else {
        throw .cannotListen(
          address: "\(address)", .unusable, reason: "\(host) is not a numeric IPv4 or IPv6 address")
      }
      add(try Self.bind(socket))
    case .unix(let path):
      guard let socket = SocketAddress(path: path) else {
        throw .cannotListen(
          address: "\(address)", .unusable,
          reason: "the path is empty or longer than \(DaemonAddress.maximumPathLength) bytes")
      }
      UnixSocketFile.removeStale(path)
      add(try Self.bind(socket, access))
    case .inherited(let descriptors):
      // All are looked at before one is taken: what cannot be used stays its owner's.
      for descriptor in descriptors { try Self.adopt(descriptor) }
      for descriptor in descriptors { add(Descriptor(owning: descriptor)) }
    }
  }

  /// Takes over a socket that listens already.
  private static func adopt(_ descriptor: CInt) throws(MuxError) {
    do throws(SystemError) {
      try ListeningSocket.adopt(descriptor)
    } catch {
      throw .cannotListen(
        address: "descriptor \(descriptor)", .unusable,
        reason: "it is no stream socket that listens (\(error.message))")
    }
  }

  /// Hands out the socket of `addresses[index]`, once.
  mutating func take(_ index: Int) -> Descriptor? {
    guard sockets.indices.contains(index), let number = sockets[index] else { return nil }
    sockets[index] = nil
    return Descriptor(owning: number)
  }

  private init() {}

  deinit {
    for case let number? in sockets { _ = Descriptor(owning: number) }
  }

  private mutating func add(_ socket: consuming Descriptor) {
    guard let address = SocketAddress.bound(socket.number) else { return }
    addresses.append(address)
    sockets.append(socket.release())
  }

  private mutating func bindLocalhost(_ port: UInt16) throws(MuxError) {
    var tries = port == 0 ? Self.portTries : 1
    while true {
      tries -= 1
      guard let four = SocketAddress(host: "127.0.0.1", port: port) else {
        throw .cannotListen(address: "127.0.0.1:\(port)", .unusable, reason: "IPv4 is not available")
      }
      let first = try Self.bind(four)
      let bound = SocketAddress.bound(first.number)?.port ?? port
      // A machine without IPv6 has no ::1, and needs none.
      guard let six = SocketAddress(host: "::1", port: bound) else { return add(first) }
      var second: Descriptor?
      do throws(MuxError) {
        second = try Self.bind(six)
      } catch {
        switch error {
        case .cannotListen(_, .unusable, _): break
        case .cannotListen(_, .inUse, _) where tries > 0: continue
        default: throw error
        }
      }
      add(first)
      if let second = second.take() { add(second) }
      return
    }
  }

  private static func bind(
    _ address: SocketAddress, _ access: UnixSocketAccess = .owner
  ) throws(MuxError) -> Descriptor {
    do throws(SystemError) {
      let socket = try address.makeSocket()
      ListeningSocket.prepare(socket.number, for: address)
      try address.bind(socket.number)
      // Nobody can connect before it listens, so nobody slips in under the wrong mode.
      if address.isUnix { try access.apply(to: address.host) }
      try ListeningSocket.listen(socket.number, backlog: backlog)
      return socket
    } catch {
      let kind: MuxError.ListenFailure =
        error.isAddressInUse ? .inUse : error.isPermission ? .denied : .unusable
      var reason = error.message
      if kind == .inUse, let holder = PortHolder.find(address) { reason += " by \(holder)" }
      throw .cannotListen(address: "\(address)", kind, reason: reason)
    }
  }
}
