/// A device that can be reached, over one way. A phone that is plugged in and on Wi-Fi is listed twice, under
/// two ids and one UDID.
public struct Device: Hashable, Sendable, Identifiable {
  /// The id that the daemon, or tunneld itself, gave to this attachment. Never reused: a replugged phone gets
  /// another one.
  public let id: DeviceID
  /// The device's identity, which stays.
  public let udid: UDID
  /// How it is reached.
  public let connection: Connection

  /// How a device is reached.
  public enum Connection: Hashable, Sendable {
    /// Over USB: speed in bits per second, the bus and address (bus << 16 | address), the USB product id.
    case usb(speed: UInt64, location: UInt32, product: UInt16)
    /// Over the network, at this address; nil when the daemon told none that can be used.
    case network(NetworkAddress?)
  }

  /// Whether it is reached over USB.
  public var isUSB: Bool {
    if case .usb = connection { true } else { false }
  }

  init(id: DeviceID, udid: UDID, connection: Connection) {
    self.id = id
    self.udid = udid
    self.connection = connection
  }

  init(_ record: DeviceRecord) {
    id = record.id
    udid = record.udid
    switch record.connection {
    case .usb(let usb):
      connection = .usb(speed: usb.speed, location: usb.locationID, product: usb.productID)
    case .network(let network): connection = .network(network.address)
    }
  }
}

/// What happens to devices.
public enum DeviceEvent: Hashable, Sendable {
  /// A device can be reached from now on.
  case attached(Device)
  /// It cannot any more.
  case detached(Device)
}
