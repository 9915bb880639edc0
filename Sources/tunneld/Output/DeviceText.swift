import USBMux

/// Devices as text: a table for people, JSON for programs.
enum DeviceText {
  static func table(_ devices: [Device]) -> String {
    guard !devices.isEmpty else { return "no device is attached" }
    let table = TextTable([
      TextTable.Column("UDID", devices.map(\.udid.description)),
      TextTable.Column("CONNECTION", devices.map(connection)),
      TextTable.Column("ID", devices.map { "\($0.id)" }), TextTable.Column("DETAILS", devices.map(details)),
    ])
    return table.lines().joined(separator: "\n")
  }

  static func line(_ event: DeviceEvent) -> String {
    switch event {
    case .attached(let device): "attached \(device.udid) \(connection(device)) \(details(device))"
    case .detached(let device): "detached \(device.udid) \(connection(device))"
    }
  }

  /// One line for each device.
  static func json(_ devices: [Device]) -> String {
    devices.map(object).joined(separator: "\n")
  }

  /// One line for each event.
  static func json(_ event: DeviceEvent) -> String {
    switch event {
    case .attached(let device): "{\"event\":\"attached\",\"device\":\(object(device))}"
    case .detached(let device): "{\"event\":\"detached\",\"device\":\(object(device))}"
    }
  }

  private static func object(_ device: Device) -> String {
    var fields = [
      "\"udid\":\(string(device.udid.description))", "\"id\":\(device.id)",
      "\"connection\":\(string(connection(device)))",
    ]
    switch device.connection {
    case .usb(let speed, let location, let product):
      fields += ["\"speed\":\(speed)", "\"location\":\(location)", "\"product\":\(product)"]
    case .network(let address?): fields.append("\"address\":\(string(address.description))")
    case .network(nil): break
    }
    return "{" + fields.joined(separator: ",") + "}"
  }

  private static func connection(_ device: Device) -> String { device.isUSB ? "usb" : "network" }

  private static func details(_ device: Device) -> String {
    switch device.connection {
    case .usb(let speed, let location, let product):
      let hex = String(product, radix: 16)
      return
        "\(speed / 1_000_000) Mbit/s, bus \(location >> 16) address \(location & 0xffff), product 0x\(hex)"
    case .network(let address?): return address.description
    case .network(nil): return "address unknown"
    }
  }

  /// A JSON string: what a device calls itself is nobody's business to trust.
  static func string(_ text: String) -> String {
    var escaped = "\""
    for scalar in text.unicodeScalars {
      switch scalar {
      case "\"", "\\": escaped += "\\\(scalar)"
      case _ where scalar.value < 0x20 || scalar.value == 0x7f:
        let hex = String(scalar.value, radix: 16)
        escaped += "\\u" + String(repeating: "0", count: 4 - hex.count) + hex
      default: escaped.unicodeScalars.append(scalar)
      }
    }
    return escaped + "\""
  }
}
