/// Where a device is on the buses of this machine. A replugged device has another address.
struct USBLocation: Hashable, Sendable, CustomStringConvertible {
  let bus: UInt8
  let address: UInt8

  /// Protocol: the location id is (bus << 16) or'ed with the device address.
  var identifier: UInt32 { UInt32(bus) << 16 | UInt32(address) }

  /// The device node.
  var node: String { "/dev/bus/usb/\(Self.threeDigits(bus))/\(Self.threeDigits(address))" }

  var description: String { "USB device \(bus):\(address)" }

  private static func threeDigits(_ number: UInt8) -> String {
    let text = String(number)
    return String(repeating: "0", count: 3 - min(text.utf8.count, 3)) + text
  }
}

/// How fast a device is connected, as clients are told it.
enum USBSpeed {
  /// Bits per second from the kernel's megabits (`1.5`, `12`, `480`, `5000`, `10000`, `20000`). Protocol: 480
  /// million is also the default.
  static func bitsPerSecond(megabits text: some StringProtocol) -> UInt64 {
    if text == "1.5" { return 1_500_000 }
    guard let megabits = UInt64(text), (1...1_000_000).contains(megabits) else { return 480_000_000 }
    return megabits * 1_000_000
  }
}

/// How a device's serial number becomes its UDID.
enum USBSerialNumber {
  /// Protocol: the UDID is the serial number's string descriptor; trailing NULs occur; all 'f' occurs in
  /// restore: then it is made unique by the location. A device without one (nil or empty) is treated like
  /// that, so that it can be told from others and named.
  static func udid(_ serial: String?, at location: USBLocation) -> UDID {
    let text = UDID.cleaned(serial ?? "")
    let unnamed = String(repeating: "f", count: 40)
    return UDID(serialNumber: text.isEmpty ? unnamed : text, location: location.identifier)
  }

  /// Reads a string descriptor: u8 length, u8 type = 3, then UTF-16, little-endian. Nil when it is none.
  static func parse(stringDescriptor bytes: [UInt8]) -> String? {
    guard bytes.count >= 2, bytes[1] == 3 else { return nil }
    let length = min(Int(bytes[0]), bytes.count)
    guard length >= 4 else { return nil }
    var units: [UInt16] = []
    for offset in stride(from: 2, to: length - 1, by: 2) {
      units.append(UInt16(bytes[offset]) | UInt16(bytes[offset + 1]) << 8)
    }
    return String(decoding: units, as: UTF16.self)
  }
}
