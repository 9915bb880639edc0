internal import MuxProtocol

#if canImport(Darwin)
  internal import Darwin
#else
  internal import Glibc
#endif

/// TCP ports in decimal.
enum Port {
  /// The number, or nil for anything but the digits of 0...65535: no sign, no space, nothing behind it.
  static func parse(_ text: some StringProtocol) -> UInt16? {
    guard !text.isEmpty, text.allSatisfy({ $0.isASCII && $0.isWholeNumber }) else { return nil }
    return UInt16(text)
  }

  /// A local port, 0 for one that the kernel chooses.
  static func local(_ text: some StringProtocol, in argument: String) throws(UsageError) -> UInt16 {
    guard let port = parse(text) else {
      throw UsageError(
        "\(text.quoted) in \(argument) is no local port", fix: "write 1 to 65535, or 0 for a free one")
    }
    return port
  }

  /// A port on the phone.
  static func device(_ text: some StringProtocol, in argument: String) throws(UsageError) -> UInt16 {
    guard let port = parse(text), port > 0 else {
      throw UsageError("\(text.quoted) in \(argument) is no port of the phone", fix: "write 1 to 65535")
    }
    return port
  }
}

/// Numeric addresses, by the C library's own reading of them (inet_pton looks nothing up).
enum IPLiteral {
  static func isV4(_ text: some StringProtocol) -> Bool {
    var address = in_addr()
    return unsafe inet_pton(AF_INET, String(text), &address) == 1
  }

  /// With or without a zone, `fe80::1%eth0`.
  static func isV6(_ text: some StringProtocol) -> Bool {
    let parts = text.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
    guard let literal = parts.first else { return false }
    if parts.count > 1 {
      let zone = parts[1]
      // IF_NAMESIZE is 16 with the NUL.
      guard (1...15).contains(zone.utf8.count), zone.allSatisfy({ $0.isASCII && !$0.isWhitespace }) else {
        return false
      }
    }
    var address = in6_addr()
    return unsafe inet_pton(AF_INET6, String(literal), &address) == 1
  }
}

/// Paths of Unix sockets.
enum UnixPath {
  static func isUsable(_ path: some StringProtocol) -> Bool {
    (1...DaemonAddress.maximumPathLength).contains(path.utf8.count) && !path.utf8.contains(0)
  }
}

extension BindAddress {
  /// Accepts `localhost` and numeric addresses, a v6 one with or without brackets. Names are not looked up: the
  /// answer would differ from day to day, and a listener on the wrong interface exposes the phone.
  init(parsing text: some StringProtocol, in argument: String) throws(UsageError) {
    if text.lowercased() == "localhost" {
      self = .localhost
      return
    }
    let bracketed = text.hasPrefix("[") && text.hasSuffix("]")
    let literal = bracketed ? String(text.dropFirst().dropLast()) : String(text)
    guard IPLiteral.isV6(literal) || (!bracketed && IPLiteral.isV4(literal)) else {
      throw UsageError(
        "\(text.quoted) in \(argument) is no address to listen on",
        fix: "write localhost, a numeric address, or 0.0.0.0 or [::] for all interfaces"
      )
    }
    self = .address(literal)
  }
}

/// A local end whose address may still be missing, since `--bind` may follow it.
enum LocalArgument: Hashable {
  case port(UInt16)
  case endpoint(LocalEndpoint)

  /// Accepts `PORT`, `ADDRESS:PORT`, `[V6]:PORT`, `localhost:PORT` and `unix:/path`.
  init(parsing text: some StringProtocol, in argument: String) throws(UsageError) {
    let scheme = "unix:"
    if text.lowercased().hasPrefix(scheme) {
      let path = text.dropFirst(scheme.count)
      guard UnixPath.isUsable(path) else {
        throw UsageError(
          "\(text.quoted) in \(argument) has no usable path",
          fix: "write unix:/path with at most \(DaemonAddress.maximumPathLength) bytes of path"
        )
      }
      self = .endpoint(.unix(path: String(path)))
      return
    }
    guard let colon = text.lastIndex(of: ":") else {
      self = .port(try Port.local(text, in: argument))
      return
    }
    let host = text[..<colon]
    // "::1:80" could also be an address without a port.
    guard !host.contains(":") || host.hasPrefix("[") else {
      throw UsageError(
        "\(text.quoted) in \(argument) has a v6 address without brackets",
        fix: "write [ADDRESS]:PORT"
      )
    }
    let port = try Port.local(text[text.index(after: colon)...], in: argument)
    self = .endpoint(.tcp(try BindAddress(parsing: host, in: argument), port: port))
  }

  /// The whole local end: `address` stands in where none was written.
  func bound(to address: BindAddress) -> LocalEndpoint {
    switch self {
    case .port(let port): .tcp(address, port: port)
    case .endpoint(let endpoint): endpoint
    }
  }
}

extension LocalEndpoint {
  /// Whether two listeners cannot both exist, as far as the text tells. Port 0 clashes with nothing.
  func clashes(with other: LocalEndpoint) -> Bool {
    switch (self, other) {
    case (.unix(let path), .unix(let otherPath)):
      path == otherPath
    case (.tcp(let address, let port), .tcp(let otherAddress, let otherPort)):
      port != 0 && port == otherPort && address.overlaps(otherAddress)
    case (.unix, .tcp), (.tcp, .unix):
      false
    }
  }

  /// As a user would write it.
  var spelling: String {
    switch self {
    case .unix(let path): "unix:\(path)"
    case .tcp(.localhost, let port): "localhost:\(port)"
    case .tcp(.address(let address), let port):
      address.contains(":") ? "[\(address)]:\(port)" : "\(address):\(port)"
    }
  }
}

extension BindAddress {
  fileprivate func overlaps(_ other: BindAddress) -> Bool {
    switch (self, other) {
    case (.localhost, .localhost): true
    case (.address(let address), .address(let otherAddress)): address == otherAddress
    case (.localhost, .address(let address)), (.address(let address), .localhost):
      address == "127.0.0.1" || address == "::1"
    }
  }
}

extension ForwardOptions {
  /// Accepts `LOCAL:DEVICE`, where LOCAL is anything that `--local` takes.
  static func pair(_ text: String) throws(UsageError) -> (local: LocalArgument, devicePort: UInt16) {
    guard let colon = text.lastIndex(of: ":") else {
      throw UsageError(
        "\(text.quoted) is no pair of ports",
        fix: "write LOCAL:DEVICE, for example 8765:8765"
      )
    }
    let local = try LocalArgument(parsing: text[..<colon], in: text.quoted)
    return (local, try Port.device(text[text.index(after: colon)...], in: text.quoted))
  }
}

extension Duration {
  /// The longest time that an option takes, in seconds: one day. It keeps every sum of times far from overflow.
  static let longestOption: Int64 = 86_400

  /// Accepts seconds in decimal with up to nine decimal places, `5` or `0.25`, from 0 to one day.
  init(parsingSeconds text: String, option: String) throws(UsageError) {
    let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
    let areDigits = parts.allSatisfy { !$0.isEmpty && $0.allSatisfy { $0.isASCII && $0.isWholeNumber } }
    let fraction = parts.count > 1 ? parts[1] : "0"
    guard areDigits, fraction.count <= 9, let whole = parts.first.flatMap({ Int64($0) }),
      let nanoseconds = Int64(fraction + String(repeating: "0", count: 9 - fraction.count)),
      whole < Self.longestOption || (whole == Self.longestOption && nanoseconds == 0)
    else {
      throw UsageError(
        "\(option) \(text.quoted) is no time",
        fix: "write seconds from 0 to \(Self.longestOption), for example 5 or 0.3"
      )
    }
    self = .seconds(whole) + .nanoseconds(nanoseconds)
  }
}

extension Int {
  /// Accepts a decimal count in `range`.
  init(parsingCount text: String, in range: ClosedRange<Int>, option: String) throws(UsageError) {
    guard !text.isEmpty, text.allSatisfy({ $0.isASCII && $0.isWholeNumber }), let count = Int(text),
      range.contains(count)
    else {
      throw UsageError(
        "\(option) \(text.quoted) is no number that it takes",
        fix: "write \(range.lowerBound) to \(range.upperBound)"
      )
    }
    self = count
  }
}

extension SimulatedServiceChoice {
  /// Accepts `PORT=SERVICE`, SERVICE being a built-in service's name or a loopback `HOST:PORT`.
  static func assignment(_ text: String) throws(UsageError) -> (port: UInt16, service: SimulatedServiceChoice)
  {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2 else {
      throw UsageError(
        "--simulate \(text.quoted) has no '='", fix: "write PORT=SERVICE, for example 8765=http")
    }
    return (try Port.device(parts[0], in: "--simulate \(text.quoted)"), try named(parts[1]))
  }

  private static func named(_ text: Substring) throws(UsageError) -> SimulatedServiceChoice {
    switch text {
    case "echo": return .echo
    case "discard": return .discard
    case "chargen": return .chargen
    case "http": return .http
    default: break
    }
    // A simulated phone must not become a way into the network, so only loopback is reached.
    guard let colon = text.lastIndex(of: ":"),
      let port = Port.parse(text[text.index(after: colon)...]), port > 0,
      let host = loopbackHost(text[..<colon])
    else {
      throw UsageError(
        "\(text.quoted) is no service for --simulate",
        fix: "write echo, discard, chargen, http, or 127.0.0.1:PORT of a server on this machine"
      )
    }
    return .loopback(host: host, port: port)
  }

  private static func loopbackHost(_ text: Substring) -> String? {
    if text.lowercased() == "localhost" { return "localhost" }
    if text == "[::1]" { return "::1" }
    return text.hasPrefix("127.") && IPLiteral.isV4(text) ? String(text) : nil
  }
}
