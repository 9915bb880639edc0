/// One endpoint of an interface.
struct USBEndpoint: Hashable, Sendable {
  /// bEndpointAddress: the number, and 0x80 for IN.
  let address: UInt8
  /// How it transfers: the two low bits of bmAttributes.
  let kind: Kind
  /// Bytes of one packet.
  let packetSize: Int

  enum Kind: UInt8, Sendable {
    case control, isochronous, bulk, interrupt
  }

  var isInput: Bool { address & 0x80 != 0 }
}

/// One setting of an interface of a configuration.
struct USBInterface: Hashable, Sendable {
  let number: UInt8
  let alternateSetting: UInt8
  let classCode: UInt8
  let subclass: UInt8
  let protocolCode: UInt8
  var endpoints: [USBEndpoint] = []
}

/// One configuration of a device.
struct USBConfiguration: Hashable, Sendable {
  /// bConfigurationValue: what selects it.
  let value: UInt8
  var interfaces: [USBInterface] = []
}

/// What the device descriptor tells.
///
///     u8 length = 18, u8 type = 1, u16 USB version, u8 class, u8 subclass, u8 protocol, u8 packet size,
///     u16 vendor, u16 product, u16 release, u8 manufacturer, u8 product name, u8 serial number,
///     u8 number of configurations                                            (little-endian)
struct USBDeviceDescriptor: Hashable, Sendable {
  let vendor: UInt16
  let product: UInt16
  /// The index of the string that is the serial number; 0: there is none.
  let serialNumberIndex: UInt8

  static let size = 18

  /// Reads a descriptor; nil when it is too short or another one.
  init?(_ bytes: Span<UInt8>) {
    guard bytes.count >= Self.size, Int(bytes[0]) >= Self.size, bytes[1] == USBDescriptorKind.device else {
      return nil
    }
    vendor = UInt16(bytes[8]) | UInt16(bytes[9]) << 8
    product = UInt16(bytes[10]) | UInt16(bytes[11]) << 8
    serialNumberIndex = bytes[16]
  }
}

private enum USBDescriptorKind {
  static let device: UInt8 = 1
  static let configuration: UInt8 = 2
  static let interface: UInt8 = 4
  static let endpoint: UInt8 = 5
}

extension USBConfiguration {
  /// Bytes of a configuration descriptor's own head.
  private static let headSize = 9
  /// More than a device can have.
  private static let limit = 255

  /// Reads the configurations that follow a device descriptor, as the kernel hands them out: each one a head
  /// with the total length, then its interfaces and endpoints between others that are stepped over.
  ///
  /// Nothing is refused: a configuration that is cut off or makes no sense counts as far as it can be read, and
  /// one that the device would not tell (the kernel leaves zeros, or nothing) is left out.
  static func parseAll(_ bytes: Span<UInt8>) -> [USBConfiguration] {
    var configurations: [USBConfiguration] = []
    var offset = 0
    while bytes.count - offset >= 2, configurations.count < limit {
      let length = Int(bytes[offset])
      guard bytes[offset + 1] == USBDescriptorKind.configuration, length >= headSize,
        bytes.count - offset >= headSize
      else {
        // Not where it should be: step on to where one may begin.
        offset += max(length, 1)
        continue
      }
      let total = max(Int(bytes[offset + 2]) | Int(bytes[offset + 3]) << 8, length)
      let end = min(offset + total, bytes.count)
      configurations.append(parse(bytes.extracting(offset..<end)))
      offset = end
    }
    return configurations
  }

  /// Reads one configuration, its head included.
  private static func parse(_ bytes: Span<UInt8>) -> USBConfiguration {
    var configuration = USBConfiguration(value: bytes[5])
    var offset = Int(bytes[0])
    // A descriptor of length 0 or 1 would never end.
    while bytes.count - offset >= 2, bytes[offset] >= 2, Int(bytes[offset]) <= bytes.count - offset {
      let length = Int(bytes[offset])
      switch bytes[offset + 1] {
      case USBDescriptorKind.interface where length >= 9:
        //  u8 length, u8 type, u8 number, u8 alternate setting, u8 endpoints, u8 class, u8 subclass,
        //  u8 protocol, u8 name
        configuration.interfaces.append(
          USBInterface(
            number: bytes[offset + 2], alternateSetting: bytes[offset + 3], classCode: bytes[offset + 5],
            subclass: bytes[offset + 6], protocolCode: bytes[offset + 7]))
      case USBDescriptorKind.endpoint where length >= 7:
        //  u8 length, u8 type, u8 address, u8 attributes, u16 packet size (bits 0-10), u8 interval
        guard let last = configuration.interfaces.indices.last else { break }
        let packetSize = Int(bytes[offset + 4]) | Int(bytes[offset + 5] & 0x07) << 8
        configuration.interfaces[last].endpoints.append(
          USBEndpoint(
            address: bytes[offset + 2],
            kind: USBEndpoint.Kind(rawValue: bytes[offset + 3] & 0x03) ?? .control,
            packetSize: packetSize))
      default: break
      }
      offset += length
    }
    return configuration
  }
}
