/// Where a multiplexer daemon listens.
public enum DaemonAddress: Hashable, Sendable, CustomStringConvertible {
  /// A Unix socket.
  case unix(path: String)
  /// A TCP address: a host name or a numeric address without brackets, and a port.
  case tcp(host: String, port: UInt16)

  /// Where Apple's daemon and usbmuxd listen.
  public static let standard = DaemonAddress.unix(path: "/var/run/usbmuxd")

  /// The environment variable that names another address.
  public static let environmentVariable = "USBMUXD_SOCKET_ADDRESS"

  /// The longest path that fits into a `sockaddr_un` with its NUL, in bytes.
  public static var maximumPathLength: Int {
    #if canImport(Darwin)
      103
    #else
      107
    #endif
  }

  /// Reads `UNIX:/path`, a bare path without a colon, `host:port` or `[v6address]:port`, which are the forms
  /// of the environment variable `USBMUXD_SOCKET_ADDRESS`.
  ///
  /// - Throws: ``DaemonAddressError`` for everything else. A malformed address is never replaced by another.
  public init(parsing text: some StringProtocol) throws(DaemonAddressError) {
    let text = String(text)
    guard !text.isEmpty else { throw .empty }
    guard !text.unicodeScalars.contains(where: { $0.value < 0x20 || $0.value == 0x7F }) else {
      throw .controlCharacter
    }
    if text.hasPrefix("UNIX:") || text.hasPrefix("unix:/") {
      self = try .unix(path: Self.path(text.dropFirst(5)))
      return
    }
    guard let colon = text.lastIndex(of: ":") else {
      self = try .unix(path: Self.path(text[...]))
      return
    }
    if text.hasPrefix("/") { throw .pathWithColon(text) }
    let host = try Self.host(text[..<colon], of: text)
    self = .tcp(host: host, port: try Self.port(text[text.index(after: colon)...], of: text))
  }

  /// The address in a form that ``init(parsing:)`` reads.
  public var description: String {
    switch self {
    case .unix(let path): "UNIX:\(path)"
    case .tcp(let host, let port): host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
  }

  private static func path(_ text: Substring) throws(DaemonAddressError) -> String {
    guard !text.isEmpty else { throw .emptyPath }
    guard text.utf8.count <= maximumPathLength else { throw .pathTooLong(bytes: text.utf8.count) }
    return String(text)
  }

  private static func host(_ text: Substring, of whole: String) throws(DaemonAddressError) -> String {
    if text.hasPrefix("["), text.hasSuffix("]") {
      let address = text.dropFirst().dropLast()
      guard address.contains(":"), !address.contains("["), !address.contains("]") else {
        throw .malformedHost(whole)
      }
      return String(address)
    }
    guard !text.isEmpty else { throw .missingHost(whole) }
    if text.contains(":") { throw .bracketsMissing(whole) }
    guard !text.contains(where: { "[]/ ".contains($0) }) else { throw .malformedHost(whole) }
    return String(text)
  }

  private static func port(_ text: Substring, of whole: String) throws(DaemonAddressError) -> UInt16 {
    // UInt16(_:) would accept a leading plus sign.
    guard !text.isEmpty, text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
      let port = UInt16(text), port != 0
    else { throw .malformedPort(whole) }
    return port
  }
}

/// Why a text is not the address of a daemon.
public enum DaemonAddressError: Error, Hashable, Sendable, CustomStringConvertible {
  /// Nothing at all.
  case empty
  /// A character that no address has.
  case controlCharacter
  /// `UNIX:` with nothing behind it.
  case emptyPath
  /// A path that the system's socket address cannot hold.
  case pathTooLong(bytes: Int)
  /// A path with a colon in it, which needs `UNIX:` before it.
  case pathWithColon(String)
  /// Nothing before the colon.
  case missingHost(String)
  /// An IPv6 address without brackets.
  case bracketsMissing(String)
  /// What stands before the port cannot be a host.
  case malformedHost(String)
  /// What stands behind the last colon is not a number from 1 to 65535.
  case malformedPort(String)

  /// One line for a person: the cause and the fix.
  public var description: String {
    switch self {
    case .empty: "the address is empty; write UNIX:/path, host:port or [v6address]:port"
    case .controlCharacter: "the address has a control character in it"
    case .emptyPath: "UNIX: needs a path behind it, such as UNIX:/var/run/usbmuxd"
    case .pathTooLong(let bytes):
      "the path has \(bytes) bytes; a socket's path has at most \(DaemonAddress.maximumPathLength)"
    case .pathWithColon(let text): "\"\(text)\" has a colon; write UNIX:\(text)"
    case .missingHost(let text): "\"\(text)\" has no host before the port; write host:port"
    case .bracketsMissing(let text): "\"\(text)\" has several colons; write an IPv6 address as [address]:port"
    case .malformedHost(let text): "\"\(text)\" has no valid host; write host:port or [v6address]:port"
    case .malformedPort(let text): "\"\(text)\" does not end in a port from 1 to 65535"
    }
  }
}
