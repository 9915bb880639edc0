/// What a daemon tells of one device: once per way in which it can be reached.
package struct DeviceRecord: Hashable, Sendable {
  /// How the device is reached.
  package enum Connection: Hashable, Sendable {
    case usb(USB)
    case network(Network)
  }

  package struct USB: Hashable, Sendable {
    /// Bits per second.
    package var speed: UInt64
    /// (bus number << 16) | device address.
    package var locationID: UInt32
    package var productID: UInt16

    package init(speed: UInt64 = 480_000_000, locationID: UInt32 = 0, productID: UInt16 = 0) {
      self.speed = speed
      self.locationID = locationID
      self.productID = productID
    }
  }

  package struct Network: Hashable, Sendable {
    /// Nil when the daemon gave none that can be understood.
    package var address: NetworkAddress?
    /// The number of the daemon's network interface, 0 when unknown.
    package var interfaceIndex: UInt32
    /// The Bonjour name, escaped, empty when unknown.
    package var serviceName: String

    package init(address: NetworkAddress?, interfaceIndex: UInt32 = 0, serviceName: String = "") {
      self.address = address
      self.interfaceIndex = interfaceIndex
      self.serviceName = serviceName
    }
  }

  package var id: DeviceID
  /// As the daemon wrote it.
  package var serialNumber: String
  package var udid: UDID
  package var connection: Connection

  package init(id: DeviceID, serialNumber: String, connection: Connection) {
    self.id = id
    self.serialNumber = UDID.cleaned(serialNumber)
    self.connection = connection
    udid =
      switch connection {
      case .usb(let usb): UDID(serialNumber: serialNumber, location: usb.locationID)
      case .network: UDID(serialNumber: serialNumber)
      }
  }

  package var isUSB: Bool {
    switch connection {
    case .usb: true
    case .network: false
    }
  }
}

/// What a daemon tells of one program that listens for devices.
package struct ListenerRecord: Hashable, Sendable {
  package var isBlacklisted: Bool
  package var bundleID: String
  package var connectionType: Int64
  /// The daemon's name for the program's connection.
  package var identifier: String
  package var programName: String
  package var libraryVersion: Int64

  package init(
    isBlacklisted: Bool = false, bundleID: String = "", connectionType: Int64 = 0, identifier: String,
    programName: String = "", libraryVersion: Int64 = 0
  ) {
    self.isBlacklisted = isBlacklisted
    self.bundleID = bundleID
    self.connectionType = connectionType
    self.identifier = identifier
    self.programName = programName
    self.libraryVersion = libraryVersion
  }
}
