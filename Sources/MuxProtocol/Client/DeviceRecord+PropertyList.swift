extension DeviceRecord {
  /// Protocol: { MessageType = Attached, DeviceID, Properties = { ConnectionType = USB | Network, DeviceID,
  /// SerialNumber, and for USB ConnectionSpeed, LocationID, ProductID, for Network NetworkAddress,
  /// InterfaceIndex, EscapedFullServiceName } }. Elements of a DeviceList look the same.
  init(_ attached: PropertyList.Dictionary) throws(MessageError) {
    guard let properties = attached["Properties"]?.dictionary else { throw .missing(key: "Properties") }
    guard let id = attached["DeviceID"]?.bits32 ?? properties["DeviceID"]?.bits32 else {
      throw .missing(key: "DeviceID")
    }
    guard let serialNumber = properties["SerialNumber"]?.string else { throw .missing(key: "SerialNumber") }
    let connection: Connection
    switch properties["ConnectionType"]?.string {
    case "USB", nil:
      connection = .usb(
        USB(
          speed: properties["ConnectionSpeed"]?.integer.flatMap { UInt64(exactly: $0) } ?? 480_000_000,
          locationID: properties["LocationID"]?.bits32 ?? 0,
          productID: properties["ProductID"]?.bits16 ?? 0))
    case "Network":
      connection = .network(
        Network(
          address: properties["NetworkAddress"]?.data.flatMap(NetworkAddress.init(socketAddress:)),
          interfaceIndex: properties["InterfaceIndex"]?.bits32 ?? 0,
          serviceName: properties["EscapedFullServiceName"]?.string ?? ""))
    default: throw .missing(key: "ConnectionType")
    }
    self.init(id: DeviceID(rawValue: id), serialNumber: serialNumber, connection: connection)
  }

  var attached: PropertyList.Dictionary {
    var properties: PropertyList.Dictionary = [:]
    let id = PropertyList.integer(Int64(self.id.rawValue))
    switch connection {
    case .usb(let usb):
      properties["ConnectionSpeed"] = .integer(Int64(clamping: usb.speed))
      properties["ConnectionType"] = "USB"
      properties["DeviceID"] = id
      properties["LocationID"] = .integer(Int64(usb.locationID))
      properties["ProductID"] = .integer(Int64(usb.productID))
    case .network(let network):
      properties["ConnectionType"] = "Network"
      properties["DeviceID"] = id
      properties["EscapedFullServiceName"] = .string(network.serviceName)
      properties["InterfaceIndex"] = .integer(Int64(network.interfaceIndex))
      properties["NetworkAddress"] = network.address.map { .data($0.socketAddress) }
    }
    // Programs compare it with what a user typed: always the canonical form.
    properties["SerialNumber"] = .string(udid.description)
    return ["DeviceID": id, "MessageType": "Attached", "Properties": .dictionary(properties)]
  }
}

extension ListenerRecord {
  /// Protocol: { Blacklisted, BundleID, ConnType, `ID String`, ProgName, kLibUSBMuxVersion }. Nothing in it
  /// is worth refusing the list for.
  init(_ dictionary: PropertyList.Dictionary) {
    isBlacklisted = dictionary["Blacklisted"]?.boolean ?? false
    bundleID = dictionary["BundleID"]?.string ?? ""
    connectionType = dictionary["ConnType"]?.integer ?? 0
    identifier = dictionary["ID String"]?.string ?? ""
    programName = dictionary["ProgName"]?.string ?? ""
    libraryVersion = dictionary["kLibUSBMuxVersion"]?.integer ?? 0
  }

  var dictionary: PropertyList.Dictionary {
    [
      "Blacklisted": .boolean(isBlacklisted),
      "BundleID": .string(bundleID),
      "ConnType": .integer(connectionType),
      "ID String": .string(identifier),
      "ProgName": .string(programName),
      "kLibUSBMuxVersion": .integer(libraryVersion),
    ]
  }
}
