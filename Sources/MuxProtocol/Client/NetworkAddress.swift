/// Where a device of connection type Network is reached.
public struct NetworkAddress: Hashable, Sendable, CustomStringConvertible {
  /// The address itself.
  public enum Host: Hashable, Sendable {
    /// The four bytes of the address, the first one in the highest bits.
    case ipv4(UInt32)
    /// The sixteen bytes of the address in two halves, and the interface number of a link-local address
    /// (0 when there is none).
    case ipv6(high: UInt64, low: UInt64, scope: UInt32)
  }

  /// The address without the port.
  public var host: Host
  /// The port that the daemon gave, 0 when it gave none.
  public var port: UInt16

  /// An address and port.
  public init(host: Host, port: UInt16 = 0) {
    self.host = host
    self.port = port
  }

  /// The bytes of the address in network order: 4 or 16.
  public var octets: [UInt8] {
    switch host {
    case .ipv4(let address): Self.octets(of: address)
    case .ipv6(let high, let low, _): Self.octets(of: high) + Self.octets(of: low)
    }
  }

  /// The address as it is written to `getaddrinfo`, a scope as `%number`; no port.
  public var description: String {
    switch host {
    case .ipv4(let address):
      return Self.octets(of: address).map(String.init).joined(separator: ".")
    case .ipv6(let high, let low, let scope):
      let text = Self.text(
        ofGroups: [high, low].flatMap { half in
          [48, 32, 16, 0].map { UInt16(truncatingIfNeeded: half >> $0) }
        })
      return scope == 0 ? text : "\(text)%\(scope)"
    }
  }

  private static func octets(of value: some FixedWidthInteger) -> [UInt8] {
    stride(from: value.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: value >> $0) }
  }

  /// RFC 5952: lower case, no leading zeros, the longest run of two or more zero groups as `::`.
  private static func text(ofGroups groups: [UInt16]) -> String {
    var longest = 0..<0
    var start = 0
    while start < groups.count {
      let end = groups[start...].firstIndex { $0 != 0 } ?? groups.count
      if end - start >= 2, end - start > longest.count { longest = start..<end }
      start = end + 1
    }
    func joined(_ part: ArraySlice<UInt16>) -> String {
      part.map { String($0, radix: 16) }.joined(separator: ":")
    }
    guard !longest.isEmpty else { return joined(groups[...]) }
    return joined(groups[..<longest.lowerBound]) + "::" + joined(groups[longest.upperBound...])
  }
}

extension NetworkAddress {
  /// Protocol: NetworkAddress is a BSD `sockaddr` as data, usually padded to 128 bytes:
  ///
  ///     IPv4:  u8 length = 16, u8 family = 2,  u16 port, 4 bytes address
  ///     IPv6:  u8 length = 28, u8 family = 30, u16 port, u32 flow, 16 bytes address, u32 scope
  ///
  /// Port and address are in network order, the scope in little-endian order. Daemons on Linux have been
  /// seen to send that system's layout instead, in which the family takes both first bytes (2 or 10, 0), or
  /// their own number of the IPv6 family (10, 28) in the second.
  ///
  /// - Returns: nil when the bytes are too short for their family, more than 256, or of another family.
  package init?(socketAddress bytes: [UInt8]) {
    guard bytes.count <= 256 else { return nil }
    let bytes = bytes[...]
    guard let family = Self.family(bytes) else { return nil }
    guard let port: UInt16 = Self.bigEndian(bytes, at: 2) else { return nil }
    self.port = port
    switch family {
    case .ipv4:
      guard let address: UInt32 = Self.bigEndian(bytes, at: 4) else { return nil }
      host = .ipv4(address)
    case .ipv6:
      guard let high: UInt64 = Self.bigEndian(bytes, at: 8), let low: UInt64 = Self.bigEndian(bytes, at: 16)
      else { return nil }
      // Seen cut off after the address; a missing scope is no scope.
      let scope: UInt32 = Self.bigEndian(bytes, at: 24) ?? 0
      host = .ipv6(high: high, low: low, scope: scope.byteSwapped)
    }
  }

  /// The BSD layout, padded with zeros to the 128 bytes that Apple's clients expect.
  package var socketAddress: [UInt8] {
    var bytes: [UInt8]
    switch host {
    case .ipv4:
      bytes = [16, 2] + Self.octets(of: port) + octets
    case .ipv6(_, _, let scope):
      bytes = [28, 30] + Self.octets(of: port) + [0, 0, 0, 0] + octets + Self.octets(of: scope.byteSwapped)
    }
    bytes.append(contentsOf: repeatElement(0, count: 128 - bytes.count))
    return bytes
  }

  private enum Family {
    case ipv4
    case ipv6
  }

  private static func family(_ bytes: ArraySlice<UInt8>) -> Family? {
    guard bytes.count >= 2 else { return nil }
    return switch (bytes[0], bytes[1]) {
    case (2, 0), (_, 2): .ipv4
    case (10, 0), (_, 30), (_, 28), (_, 10): .ipv6
    default: nil
    }
  }

  private static func bigEndian<Value: FixedWidthInteger>(_ bytes: ArraySlice<UInt8>, at offset: Int)
    -> Value?
  {
    let size = Value.bitWidth / 8
    guard bytes.count - offset >= size else { return nil }
    return bytes[offset..<(offset + size)].reduce(0) { $0 << 8 | Value($1) }
  }
}
