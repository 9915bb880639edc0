/// The number that a multiplexer daemon gave to a device at this plugging in.
///
/// It is never used again while that daemon runs: a phone that was replugged has a new one, and a phone that
/// is reachable over both USB and the network has two.
public struct DeviceID: RawRepresentable, Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number as it is sent.
  public let rawValue: UInt32

  /// A device ID with this number.
  public init(rawValue: UInt32) {
    self.rawValue = rawValue
  }

  /// The decimal number.
  public var description: String { String(rawValue) }

  /// The device that was attached earlier comes first.
  public static func < (left: DeviceID, right: DeviceID) -> Bool {
    left.rawValue < right.rawValue
  }
}

/// A port on the device's loopback interface, 1 to 65535.
public struct DevicePort: Hashable, Comparable, Sendable, CustomStringConvertible {
  /// The number in the order in which this machine counts.
  public let number: UInt16

  /// A port with this number, or nil for 0, at which nothing can listen.
  public init?(_ number: UInt16) {
    guard number != 0 else { return nil }
    self.number = number
  }

  /// Protocol: the port is sent in network byte order and read as a little-endian number, also inside
  /// property lists: 62078 (0xf27e) is sent as 0x7ef2 = 32498. This initializer and ``networkOrder`` are
  /// the only places that know.
  ///
  /// - Returns: nil for 0.
  public init?(networkOrder: UInt16) {
    self.init(networkOrder.byteSwapped)
  }

  /// The number that stands in a Connect request for this port.
  public var networkOrder: UInt16 { number.byteSwapped }

  /// The decimal number.
  public var description: String { String(number) }

  /// By number.
  public static func < (left: DevicePort, right: DevicePort) -> Bool {
    left.number < right.number
  }

  /// lockdownd, which listens on every device: pairing and the start of services.
  public static let lockdown = DevicePort(known: 62078)

  private init(known number: UInt16) {
    self.number = number
  }
}
