/// What an emulated device tells of itself.
struct DeviceDescription {
  /// One configuration: its value, and the number of its mux interface, if any.
  struct Configuration {
    var value: UInt8
    var mux: UInt8?
    /// Class, subclass and protocol of one more interface behind the others.
    var extra: (UInt8, UInt8, UInt8)?
  }

  var name = "1-1"
  var bus = 1
  var address = 2
  var vendor: UInt16 = 0x05ac
  var product: UInt16 = 0x12a8
  var serial: String? = "00008110000000C0FFEE0001"
  /// Whether the kernel knows the serial number; otherwise the device must be asked.
  var serialInSysfs = true
  var speed = "480"
  var packetSize: UInt16 = 512
  var active: UInt8 = 4
  var swapsEndpoints = false
  /// Class, subclass and protocol of the mux interface.
  var muxClasses: (UInt8, UInt8, UInt8) = (0xff, 0xfe, 0x02)
  var configurations = [
    Configuration(value: 1, mux: nil), Configuration(value: 2, mux: nil), Configuration(value: 3, mux: 1),
    Configuration(value: 4, mux: 1, extra: (0xff, 0xfd, 0x01)),
  ]
  var hasReadableDescriptors = true
  var busSpeed = BusSpeed()
  /// Nothing tells of its coming.
  var isSilent = false

  static let output: UInt8 = 0x04
  static let input: UInt8 = 0x85

  private static func digits(_ number: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: 3 - text.count) + text
  }

  var node: String { "/dev/bus/usb/\(Self.digits(bus))/\(Self.digits(address))" }
  var path: String { "/sys/devices/usb\(bus)/\(name)" }

  /// As umockdev-record writes devices. An empty attribute is an unconfigured device's configuration.
  var umockdevText: String {
    var lines = [
      "P: /devices/usb\(bus)/\(name)", "E: SUBSYSTEM=usb", "E: DEVTYPE=\(isSilent ? "none" : "usb_device")",
      "E: DEVNAME=\(node)",
      "E: BUSNUM=\(Self.digits(bus))", "E: DEVNUM=\(Self.digits(address))", "A: busnum=\(bus)\\n",
      "A: devnum=\(address)\\n", "A: speed=\(speed)\\n", "A: idVendor=\(hex(vendor))\\n",
      "A: idProduct=\(hex(product))\\n", "A: bConfigurationValue=" + (active == 0 ? "" : "\(active)\\n"),
    ]
    if let serial, serialInSysfs { lines.append("A: serial=\(serial)\\n") }
    if hasReadableDescriptors {
      lines.append("H: descriptors=" + descriptors.map { pad(String($0, radix: 16), 2) }.joined())
    }
    return lines.joined(separator: "\n") + "\n\n"
  }

  static func rootHub(bus: Int) -> String {
    """
    P: /devices/usb\(bus)
    E: SUBSYSTEM=usb
    E: DEVTYPE=usb_device
    E: DEVNAME=/dev/bus/usb/\(digits(bus))/001
    E: BUSNUM=\(digits(bus))
    E: DEVNUM=001
    A: busnum=\(bus)\\n
    A: devnum=1\\n
    A: speed=480\\n
    A: idVendor=1d6b\\n
    A: idProduct=0002\\n
    A: bConfigurationValue=1\\n
    H: descriptors=12010002090001406b1d020015060302010109021900010100e0000904000001090000000705810304000c


    """
  }

  private func pad(_ text: String, _ count: Int) -> String {
    String(repeating: "0", count: max(0, count - text.count)) + text
  }
  private func hex(_ number: UInt16) -> String { pad(String(number, radix: 16), 4) }

  private var descriptors: [UInt8] {
    var bytes: [UInt8] = [
      18, 1, 0x00, 0x02, 0, 0, 0, 64, UInt8(vendor & 0xff), UInt8(vendor >> 8), UInt8(product & 0xff),
      UInt8(product >> 8), 0x00, 0x10, 1, 2, serial == nil ? 0 : 3, UInt8(configurations.count),
    ]
    for configuration in configurations { bytes += descriptor(configuration) }
    return bytes
  }

  private func descriptor(_ configuration: Configuration) -> [UInt8] {
    var interfaces: [[UInt8]] = []
    func add(_ classes: (UInt8, UInt8, UInt8), _ endpoints: [(UInt8, UInt8, UInt16)]) {
      let number = UInt8(interfaces.count)
      var bytes: [UInt8] = [
        9, 4, number, 0, UInt8(endpoints.count), classes.0, classes.1, classes.2, 0,
      ]
      for (address, kind, size) in endpoints {
        bytes += [7, 5, address, kind, UInt8(size & 0xff), UInt8(size >> 8), 0]
      }
      interfaces.append(bytes)
    }
    // Pictures come first on phones; a class-specific descriptor between others is stepped over.
    if configuration.mux != 0 {
      add((6, 1, 1), [(0x81, 2, packetSize), (0x02, 2, packetSize), (0x83, 3, 64)])
    }
    if let mux = configuration.mux {
      while interfaces.count < Int(mux) { add((0xff, 0xff, 0xff), []) }
      let endpoints: [(UInt8, UInt8, UInt16)] = [(Self.output, 2, packetSize), (Self.input, 2, packetSize)]
      add(muxClasses, swapsEndpoints ? endpoints.reversed() : endpoints)
    }
    if let extra = configuration.extra { add(extra, [(0x86, 2, packetSize), (0x05, 2, packetSize)]) }
    let head: [UInt8] = [5, 0x24, 0, 1, 1]
    let body: [UInt8] = interfaces.reduce(head, +)
    let total = UInt16(9 + body.count)
    return [
      9, 2, UInt8(total & 0xff), UInt8(total >> 8), UInt8(interfaces.count), configuration.value, 0, 0xc0,
      250,
    ] + body
  }
}
