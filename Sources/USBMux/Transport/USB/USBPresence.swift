/// A device that is on the bus, as the kernel describes it.
struct USBPresence: Hashable, Sendable {
  /// Tells this plugging in from all others.
  struct Identity: Hashable, Sendable {
    let location: USBLocation
    /// The number of the device's directory in sysfs: an address can come again, that does not.
    let directory: UInt64
  }

  let identity: Identity
  /// As the kernel names it: bus and ports, `1-2.4`.
  let name: String
  let product: UInt16
  /// Nil when the device has none or did not tell it.
  let serial: String?
  /// The index of its string, for asking the device itself; 0: it has none.
  let serialIndex: UInt8
  /// Bits per second.
  let speed: UInt64
  /// Nil when it cannot be told. 0: not configured.
  let activeConfiguration: UInt8?
  let configurations: [USBConfiguration]

  var location: USBLocation { identity.location }
}

/// Numbers devices. No number comes again, whichever transport asks for one.
final class DeviceIDs {
  private var following: UInt32

  init(first: UInt32) { following = first }

  func next() -> DeviceID {
    defer { following &+= 1 }
    return DeviceID(rawValue: following)
  }
}
