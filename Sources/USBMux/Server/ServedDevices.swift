/// The devices as a server's clients know them: under ids of the server's own.
///
/// Protocol: DeviceIDs are never reused while the daemon runs; a replugged phone gets a new one. The ids of a
/// transport do not keep this promise, since a usbmuxd that is restarted counts from the start again. A phone
/// that is reachable in two ways has an entry for each.
struct ServedDevices {
  private struct Entry {
    let device: Device
    let record: DeviceRecord
  }

  /// In the order in which they came.
  private var entries: [Entry] = []
  private var lastID: UInt32 = 0

  /// Takes in a device, and returns what clients are told of it.
  mutating func attach(_ device: Device) -> DeviceRecord {
    let record = DeviceRecord(
      id: nextID(), serialNumber: device.udid.description, connection: device.served)
    entries.append(Entry(device: device, record: record))
    return record
  }

  /// Takes a device out; nil when it was not there.
  mutating func detach(_ device: Device) -> DeviceRecord? {
    guard let index = entries.firstIndex(where: { $0.device.id == device.id }) else { return nil }
    return entries.remove(at: index).record
  }

  /// The transport's device behind a client's id.
  func device(_ id: DeviceID) -> Device? { entries.first { $0.record.id == id }?.device }

  /// What clients are told: those on USB first, since many programs take the first entry of a phone and USB
  /// is to be preferred.
  var records: [DeviceRecord] {
    entries.map(\.record).filter(\.isUSB) + entries.map(\.record).filter { !$0.isUSB }
  }

  /// The entry that a pair record of this name belongs to, USB before the network.
  func id(named record: RecordID) -> DeviceID? {
    let wanted = UDID(serialNumber: record.description)
    return records.first { $0.udid == wanted }?.id
  }

  private mutating func nextID() -> DeviceID {
    repeat { lastID &+= 1 } while lastID == 0 || entries.contains { $0.record.id.rawValue == lastID }
    return DeviceID(rawValue: lastID)
  }
}

extension Device {
  fileprivate var served: DeviceRecord.Connection {
    switch connection {
    case .usb(let speed, let location, let product):
      .usb(DeviceRecord.USB(speed: speed, locationID: location, productID: product))
    case .network(let address): .network(DeviceRecord.Network(address: address))
    }
  }
}
