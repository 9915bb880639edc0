internal import MuxProtocol

/// The socket on which other programs are served as usbmuxd would.
struct ServerOptions: Hashable, Sendable {
  /// Where programs connect.
  enum Location: Hashable, Sendable {
    /// A Unix socket, or a TCP port on loopback addresses.
    case endpoint(LocalEndpoint)
    /// The socket that systemd passes to the service.
    case activated
  }

  var location: Location
  /// Permission bits of a Unix socket.
  var mode: UInt16 = 0o660
  /// The group of a Unix socket, by name or number; nil for this process's own.
  var group: String?
  /// Where pair records are kept; nil for the system's usual directory.
  var lockdownDirectory: String?
}

extension ServerOptions {
  /// The transport when this socket is served: tunneld cannot be its own usbmuxd.
  func transport(_ chosen: TransportChoice) throws(UsageError) -> TransportChoice {
    // Where an activated socket is, is known when it is there.
    guard case .endpoint(let local) = location else { return chosen }
    switch chosen {
    case .auto(let address):
      // It takes the place of the usbmuxd that would be asked, so the phone itself is what is left.
      return local.isServed(at: address ?? .standard) ? .usb : chosen
    case .usbmuxd(let address):
      guard !local.isServed(at: address ?? .standard) else {
        throw UsageError(
          "\(local.spelling.quoted) is the usbmuxd that is to be asked", fix: "serve another socket")
      }
      return chosen
    case .usb, .simulated: return chosen
    }
  }
}

/// What of the server a command line has named so far.
struct ServerArguments {
  var location: ServerOptions.Location?
  var mode: UInt16?
  var group: String?
  var lockdownDirectory: String?

  mutating func setMode(_ text: String, option: String) throws(UsageError) {
    mode = try UnixPath.mode(text, option: option)
  }

  mutating func setGroup(_ text: String, option: String) throws(UsageError) {
    group = try UnixPath.group(text, option: option)
  }

  mutating func setLockdownDirectory(_ text: String, option: String) throws(UsageError) {
    guard !text.isEmpty, !text.utf8.contains(0) else {
      throw UsageError("\(option) is empty", fix: "write the path of a directory")
    }
    lockdownDirectory = text
  }

  /// All of it together; nil when nothing is to be served.
  func options() throws(UsageError) -> ServerOptions? {
    guard let location else {
      let stray =
        mode != nil
        ? TunneldOption.usbmuxdSocketMode
        : group != nil
          ? .usbmuxdSocketGroup : lockdownDirectory != nil ? .lockdownDirectory : nil
      if let stray {
        throw UsageError(
          "\(stray.spelling) belongs to a socket that is served", fix: "add --usbmuxd-socket PATH")
      }
      return nil
    }
    if mode != nil || group != nil {
      switch location {
      case .endpoint(.unix): break
      case .endpoint(.tcp):
        throw UsageError(
          "a TCP port has neither mode nor group", fix: "leave them out, or serve a Unix socket")
      case .activated:
        throw UsageError(
          "the mode and group of systemd's socket are systemd's", fix: "set SocketMode and SocketGroup there")
      }
    }
    var options = ServerOptions(location: location, group: group, lockdownDirectory: lockdownDirectory)
    if let mode { options.mode = mode }
    return options
  }
}

extension ServerOptions.Location {
  /// As ``LocalEndpoint/init(serving:option:)``, and `systemd`.
  init(parsing text: String, option: String) throws(UsageError) {
    self = text == "systemd" ? .activated : .endpoint(try LocalEndpoint(serving: text, option: option))
  }
}

extension LocalEndpoint {
  /// Where a server listens: `UNIX:/path`, a path without a colon, or `host:port` on a loopback address. The
  /// protocol has no authentication, so whoever reached another address would reach every phone.
  init(serving text: String, option: String) throws(UsageError) {
    let scheme = "unix:"
    let hasScheme = text.lowercased().hasPrefix(scheme)
    if hasScheme || !text.contains(":") {
      let path = hasScheme ? text.dropFirst(scheme.count) : text[...]
      guard UnixPath.isUsable(path) else {
        throw UsageError(
          "\(text.quoted) in \(option) has no usable path",
          fix: "write a path of at most \(DaemonAddress.maximumPathLength) bytes"
        )
      }
      self = .unix(path: String(path))
      return
    }
    guard case .endpoint(let endpoint) = try LocalArgument(parsing: text, in: option),
      case .tcp(let address, _) = endpoint, address.isLoopback
    else {
      throw UsageError(
        "\(text.quoted) in \(option) is no loopback address",
        fix: "write a path, 127.0.0.1:PORT, [::1]:PORT or localhost:PORT"
      )
    }
    self = endpoint
  }

  /// Whether a program that is told to use `daemon` would end up here, as far as the text tells.
  func isServed(at daemon: DaemonAddress) -> Bool {
    switch (self, daemon) {
    case (.unix(let path), .unix(let other)): return path.withoutVar == other.withoutVar
    case (.tcp(_, let port), .tcp(let host, let other)):
      guard port == other, let address = try? BindAddress(parsing: host, in: "") else { return false }
      return address.isLoopback
    case (.unix, .tcp), (.tcp, .unix): return false
    }
  }
}

extension BindAddress {
  fileprivate var isLoopback: Bool {
    switch self {
    case .localhost: true
    case .address(let address): address == "::1" || (address.hasPrefix("127.") && IPLiteral.isV4(address))
    }
  }
}

extension String {
  /// `/var/run` is a link to `/run` on every Linux of today.
  fileprivate var withoutVar: Substring { hasPrefix("/var/run/") ? dropFirst(4) : self[...] }
}
