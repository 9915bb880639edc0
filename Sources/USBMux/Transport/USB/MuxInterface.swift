/// The interface of a device through which it multiplexes connections, in one of its configurations.
struct MuxInterface: Hashable, Sendable {
  /// The configuration that holds it.
  let configuration: UInt8
  let number: UInt8
  /// From the device.
  let input: USBEndpoint
  /// To the device.
  let output: USBEndpoint

  /// Protocol: class 0xff **and** subclass 0xfe **and** protocol 0x02 (all three; accepting any one of them is
  /// a known bug elsewhere), two bulk endpoints, in either order. The interface decides, not the product
  /// number: other numbers than the known ones occur.
  init?(_ interface: USBInterface, of configuration: USBConfiguration) {
    guard interface.classCode == 0xff, interface.subclass == 0xfe, interface.protocolCode == 0x02 else {
      return nil
    }
    let bulk = interface.endpoints.filter { $0.kind == .bulk && $0.packetSize > 0 }
    guard let input = bulk.first(where: \.isInput), let output = bulk.first(where: { !$0.isInput }) else {
      return nil
    }
    self.configuration = configuration.value
    number = interface.number
    self.input = input
    self.output = output
  }
}

extension MuxInterface {
  /// The mux interface of a configuration: it has another number in each, so it is found by its classes.
  static func find(in configuration: USBConfiguration) -> MuxInterface? {
    for interface in configuration.interfaces {
      if let found = MuxInterface(interface, of: configuration) { return found }
    }
    return nil
  }

  /// In which order the configurations are tried.
  ///
  /// Protocol: stay in the active configuration when it holds a mux interface; else take the highest-numbered
  /// one that holds one and can be claimed; on an error fall back to the next. The active configuration can be
  /// 0, or unreadable (nil), at the moment of plugging in.
  static func candidates(in configurations: [USBConfiguration], active: UInt8?) -> [MuxInterface] {
    let all = configurations.compactMap(find).sorted { $0.configuration > $1.configuration }
    return all.filter { $0.configuration == active } + all.filter { $0.configuration != active }
  }
}
