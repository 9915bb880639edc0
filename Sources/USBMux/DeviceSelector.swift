/// Which device is meant, decided anew for each connection: a replugged phone has another id.
public struct DeviceSelector: Hashable, Sendable {
  /// Over which ways a device may be reached.
  public enum Ways: Hashable, Sendable {
    /// USB only. What a cable is used for must not move to Wi-Fi unasked.
    case usb
    /// The network only.
    case network
    /// USB where there is a cable, else the network.
    case usbThenNetwork
  }

  /// The UDID or the beginning of it; nil: the only device that there is.
  public var udid: UDIDPrefix?
  /// Over which ways it may be reached.
  public var ways: Ways
  /// Without a UDID, take the first of several devices instead of refusing.
  public var takesFirst: Bool

  /// - Parameters:
  ///   - udid: The UDID or the beginning of it; nil: the only device that there is.
  ///   - ways: Over which ways it may be reached.
  ///   - takesFirst: Without a UDID, take the first of several devices.
  public init(udid: UDIDPrefix? = nil, ways: Ways = .usb, takesFirst: Bool = false) {
    self.udid = udid
    self.ways = ways
    self.takesFirst = takesFirst
  }

  /// Finds the device that is meant.
  ///
  /// - Throws: ``MuxError/noSuchDevice(wanted:)``, ``MuxError/onlyOverNetwork(_:)`` or
  ///   ``MuxError/ambiguousDevice(_:)``.
  public func choose(from devices: [Device]) throws(MuxError) -> Device {
    let reachable = devices.filter { device in
      switch ways {
      case .usb: device.isUSB
      case .network: !device.isUSB
      case .usbThenNetwork: true
      }
    }
    guard let udid = try chooseUDID(from: reachable) else {
      // Is it there in a way that was not asked for? Several that are leave no choice to make: a cable decides.
      if ways == .usb, let found = try? chooseUDID(from: devices) { throw .onlyOverNetwork(found) }
      throw .noSuchDevice(wanted: wanted)
    }
    let candidates = reachable.filter { $0.udid == udid }
    guard let device = candidates.first(where: \.isUSB) ?? candidates.first else {
      throw .noSuchDevice(wanted: wanted)
    }
    return device
  }

  private var wanted: String? {
    let way = ways == .network ? "over the network" : ""
    guard let udid else { return ways == .network ? way : nil }
    return way.isEmpty ? udid.description : "\(udid) \(way)"
  }

  private func chooseUDID(from devices: [Device]) throws(MuxError) -> UDID? {
    if let udid {
      switch udid.find(among: devices.map(\.udid)) {
      case .none: return nil
      case .one(let found): return found
      case .several(let several): throw .ambiguousDevice(several)
      }
    }
    // A phone on a cable comes before one on Wi-Fi, whoever was listed first.
    guard let first = devices.first(where: \.isUSB) ?? devices.first else { return nil }
    var others: [UDID] = []
    for device in devices where !others.contains(device.udid) { others.append(device.udid) }
    guard others.count == 1 || takesFirst else { throw .ambiguousDevice(others) }
    return first.udid
  }
}
