import MuxProtocol
import Testing

@testable import USBMux

/// Builds descriptors field by field.
enum Descriptors {
  static func interface(
    _ number: UInt8, _ classes: (UInt8, UInt8, UInt8), alternate: UInt8 = 0, endpoints: UInt8 = 2
  ) -> [UInt8] {
    [9, 4, number, alternate, endpoints, classes.0, classes.1, classes.2, 0]
  }

  static func endpoint(_ address: UInt8, _ attributes: UInt8 = 2, size: UInt16 = 512) -> [UInt8] {
    [7, 5, address, attributes, UInt8(size & 0xff), UInt8(size >> 8), 0]
  }

  static func configuration(_ value: UInt8, _ parts: [[UInt8]]) -> [UInt8] {
    let body = parts.flatMap { $0 }
    let total = UInt16(9 + body.count)
    return [9, 2, UInt8(total & 0xff), UInt8(total >> 8), 1, value, 0, 0xc0, 250] + body
  }

  static let mux: (UInt8, UInt8, UInt8) = (0xff, 0xfe, 0x02)
  static let pictures: (UInt8, UInt8, UInt8) = (6, 1, 1)

  /// A configuration with pictures, and mux as the interface `number`, if any.
  static func phone(_ value: UInt8, mux number: UInt8?) -> [UInt8] {
    var parts = [interface(0, pictures), endpoint(0x81), endpoint(0x02), endpoint(0x83, 3, size: 64)]
    if let number { parts += [interface(number, mux), endpoint(0x04), endpoint(0x85)] }
    return configuration(value, parts)
  }

  static func parse(_ bytes: [UInt8]) -> [USBConfiguration] { USBConfiguration.parseAll(bytes.span) }
}

@Suite("USB descriptors")
struct DescriptorTests {
  @Test("A device descriptor names vendor, product and the serial number's string")
  func device() throws {
    let bytes: [UInt8] = [
      18, 1, 0x00, 0x02, 0, 0, 0, 64, 0xac, 0x05, 0xa8, 0x12, 0x02, 0x14, 1, 2, 3, 4,
    ]
    let found = USBDeviceDescriptor(bytes.span)
    let device = try #require(found)
    #expect(device.vendor == 0x05ac)
    #expect(device.product == 0x12a8)
    #expect(device.serialNumberIndex == 3)
    for count in 0..<bytes.count {
      let cut = USBDeviceDescriptor(bytes.span.extracting(0..<count))
      #expect(cut == nil)
    }
    var other = bytes
    other[1] = 2
    let none = USBDeviceDescriptor(other.span)
    #expect(none == nil)
  }

  @Test("A configuration is read interface by interface; what lies between is stepped over")
  func configuration() throws {
    let bytes = Descriptors.configuration(
      4,
      [
        [5, 0x24, 0, 1, 1], Descriptors.interface(0, Descriptors.pictures),
        Descriptors.endpoint(0x83, 3, size: 64),
        [8, 11, 0, 2, 2, 0x0d, 0, 0], Descriptors.interface(1, Descriptors.mux, alternate: 1),
        Descriptors.endpoint(0x04, size: 1024 | 0x0800), [6, 0x30, 15, 0, 0, 0], Descriptors.endpoint(0x85),
      ])
    let found = Descriptors.parse(bytes)
    #expect(found.count == 1)
    let configuration = try #require(found.first)
    #expect(configuration.value == 4)
    #expect(configuration.interfaces.count == 2)
    #expect(configuration.interfaces[0].endpoints.map(\.kind) == [.interrupt])
    #expect(configuration.interfaces[0].endpoints.map(\.packetSize) == [64])
    let mux = configuration.interfaces[1]
    #expect(mux.number == 1 && mux.alternateSetting == 1)
    #expect(mux.classCode == 0xff && mux.subclass == 0xfe && mux.protocolCode == 0x02)
    #expect(mux.endpoints.map(\.address) == [0x04, 0x85])
    #expect(mux.endpoints.map(\.isInput) == [false, true])
    #expect(mux.endpoints.map(\.packetSize) == [1024, 512], "the size is the eleven low bits")
  }

  @Test("Configurations follow one another; one that the device would not tell is left out")
  func several() {
    let zeros = [UInt8](repeating: 0, count: 9)
    let bytes =
      Descriptors.phone(1, mux: nil) + zeros + Descriptors.phone(3, mux: 1) + Descriptors.phone(4, mux: 2)
    #expect(Descriptors.parse(bytes).map(\.value) == [1, 3, 4])
    #expect(Descriptors.parse([]).isEmpty)
  }

  @Test("A configuration that is cut off counts as far as it goes")
  func cut() {
    let bytes = Descriptors.phone(4, mux: 1)
    for count in 0..<bytes.count {
      let found = Descriptors.parse(Array(bytes[..<count]))
      #expect(found.count == (count < 9 ? 0 : 1))
      #expect(found.allSatisfy { MuxInterface.find(in: $0) == nil }, "its last endpoint is missing")
    }
    #expect(Descriptors.parse(bytes).first.flatMap(MuxInterface.find) != nil)
  }

  @Test("Lengths that lie end nothing but their own configuration")
  func lies() {
    var endless = Descriptors.phone(3, mux: 1)
    endless[9] = 0
    var short = Descriptors.phone(3, mux: 1)
    short[9] = 255
    var total = Descriptors.phone(3, mux: 1)
    total[2] = 0
    total[3] = 0
    for bytes in [endless, short] {
      #expect(Descriptors.parse(bytes + Descriptors.phone(4, mux: 1)).map(\.value) == [3, 4])
    }
    #expect(Descriptors.parse(total + Descriptors.phone(4, mux: 1)).map(\.value) == [3, 4])
    // An endpoint in front of all interfaces belongs to none.
    #expect(
      Descriptors.parse(Descriptors.configuration(1, [Descriptors.endpoint(0x81)])).first?.interfaces.isEmpty
        == true)
  }

  @Test("Random bytes and random damage never trap")
  func chaos() {
    let seed = UInt64.random(in: 0 ... .max)
    var random = SplitMix(seed: seed)
    let phone = Descriptors.phone(1, mux: nil) + Descriptors.phone(4, mux: 1)
    for round in 0..<20_000 {
      var bytes = phone
      if round % 2 == 0 {
        bytes = (0..<Int.random(in: 0..<200, using: &random)).map { _ in .random(in: 0...255, using: &random)
        }
      } else {
        for _ in 0..<4 {
          bytes[Int.random(in: bytes.indices, using: &random)] = .random(in: 0...255, using: &random)
        }
      }
      let found = Descriptors.parse(bytes)
      _ = MuxInterface.candidates(in: found, active: 4)
      #expect(found.count <= 255, "seed \(seed)")
    }
  }

  struct SplitMix: RandomNumberGenerator {
    var state: UInt64
    init(seed: UInt64) { state = seed }
    mutating func next() -> UInt64 {
      state &+= 0x9e37_79b9_7f4a_7c15
      var value = state
      value = (value ^ (value >> 30)) &* 0xbf58_476d_1ce4_e5b9
      value = (value ^ (value >> 27)) &* 0x94d0_49bb_1331_11eb
      return value ^ (value >> 31)
    }
  }
}

@Suite("USB mux interface")
struct MuxInterfaceTests {
  private func find(_ parts: [[UInt8]]) -> MuxInterface? {
    Descriptors.parse(Descriptors.configuration(4, parts)).first.flatMap(MuxInterface.find)
  }

  @Test("Class, subclass and protocol must all fit", arguments: [0, 1, 2])
  func classes(_ field: Int) {
    let endpoints = [Descriptors.endpoint(0x04), Descriptors.endpoint(0x85)]
    #expect(find([Descriptors.interface(1, Descriptors.mux)] + endpoints) != nil)
    for wrong: UInt8 in [0x00, 0x01, 0x03, 0xfd, 0xfe, 0xff] {
      var fields = [Descriptors.mux.0, Descriptors.mux.1, Descriptors.mux.2]
      guard fields[field] != wrong else { continue }
      fields[field] = wrong
      #expect(find([Descriptors.interface(1, (fields[0], fields[1], fields[2]))] + endpoints) == nil)
    }
  }

  @Test("Two bulk endpoints, in either order")
  func endpoints() throws {
    let head = Descriptors.interface(1, Descriptors.mux)
    for pair in [[0x04, 0x85], [0x85, 0x04]] as [[UInt8]] {
      let mux = try #require(find([head] + pair.map { Descriptors.endpoint($0) }))
      #expect(mux.output.address == 0x04)
      #expect(mux.input.address == 0x85)
      #expect(mux.number == 1)
      #expect(mux.configuration == 4)
    }
    #expect(find([head, Descriptors.endpoint(0x04), Descriptors.endpoint(0x05)]) == nil)
    #expect(find([head, Descriptors.endpoint(0x85)]) == nil)
    #expect(find([head, Descriptors.endpoint(0x04, 3), Descriptors.endpoint(0x85)]) == nil, "interrupt")
    #expect(find([head, Descriptors.endpoint(0x04, size: 0), Descriptors.endpoint(0x85)]) == nil)
    // Others beside them do no harm.
    #expect(
      find([head, Descriptors.endpoint(0x81, 3), Descriptors.endpoint(0x04), Descriptors.endpoint(0x85)])
        != nil)
  }

  @Test(
    "Stay in the active configuration when it holds one, else the highest first",
    arguments: [
      (4, [4, 3]), (3, [3, 4]), (1, [4, 3]), (0, [4, 3]), (nil, [4, 3]), (9, [4, 3]),
    ] as [(UInt8?, [UInt8])])
  func candidates(_ active: UInt8?, _ order: [UInt8]) {
    let bytes =
      Descriptors.phone(1, mux: nil) + Descriptors.phone(3, mux: 2) + Descriptors.phone(4, mux: 1)
      + Descriptors.phone(5, mux: nil)
    let found = MuxInterface.candidates(in: Descriptors.parse(bytes), active: active)
    #expect(found.map(\.configuration) == order)
    #expect(found.map(\.number) == order.map { $0 == 3 ? 2 : 1 }, "another number in each")
  }

  @Test("Without any there is nothing to try")
  func none() {
    #expect(MuxInterface.candidates(in: Descriptors.parse(Descriptors.phone(1, mux: nil)), active: 1).isEmpty)
    #expect(MuxInterface.candidates(in: [], active: nil).isEmpty)
  }
}
