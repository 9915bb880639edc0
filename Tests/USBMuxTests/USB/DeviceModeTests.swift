import MuxProtocol
import Testing

@testable import USBMux

@Suite("USB device mode")
struct DeviceModeTests {
  @Test("A mode is a number from 1 to 5")
  func parsing() {
    #expect(USBDeviceMode(parsing: "1") == .initial)
    #expect(USBDeviceMode(parsing: "3") == .network)
    #expect(USBDeviceMode(parsing: "5") == .networkDirect)
    for text in ["0", "6", "", "three", "3 ", "-1", "99999999999999999999"] {
      #expect(USBDeviceMode(parsing: text) == nil)
    }
  }

  @Test("Four bytes tell the initial mode from the others")
  func answers() {
    #expect(USBPresentMode(answer: [3, 3, 3, 0]) == .known(.initial))
    #expect(USBPresentMode(answer: [5, 3, 3, 0]) == .notInitial)
    for answer in [[], [3], [3, 3, 3], [3, 3, 3, 0, 0], [5, 3, 3, 1], [0, 0, 0, 0]] as [[UInt8]] {
      #expect(USBPresentMode(answer: answer) == .unknown)
    }
  }

  private func configurations(_ fifth: (UInt8, UInt8, UInt8)?, count: Int) -> [USBConfiguration] {
    var bytes: [UInt8] = []
    for value in 1...count {
      var parts = [Descriptors.interface(0, Descriptors.pictures)]
      if value == 5, let fifth { parts.append(Descriptors.interface(1, fifth)) }
      bytes += Descriptors.configuration(UInt8(value), parts)
    }
    return Descriptors.parse(bytes)
  }

  @Test("The other modes show in the configurations")
  func refining() {
    let other = USBPresentMode.notInitial
    #expect(other.refined(by: configurations((0xff, 0x2a, 0xff), count: 5)) == .known(.valeria))
    #expect(other.refined(by: configurations((0x02, 0x0d, 0x00), count: 5)) == .known(.network))
    #expect(other.refined(by: configurations(nil, count: 6)) == .known(.tethering))
    #expect(other.refined(by: configurations(nil, count: 1)) == .known(.networkDirect))
    #expect(other.refined(by: configurations((0x0a, 0x00, 0x00), count: 5)) == .unknown)
    #expect(other.refined(by: configurations(nil, count: 4)) == .unknown)
    #expect(other.refined(by: []) == .unknown)
    // What is certain stays so.
    #expect(USBPresentMode.known(.initial).refined(by: configurations(nil, count: 1)) == .known(.initial))
    #expect(USBPresentMode.unknown.refined(by: configurations(nil, count: 6)) == .unknown)
  }

  @Test("A mode is never set unasked, nor when the present one cannot be told, nor when it is the wanted one")
  func decisions() {
    #expect(USBModeRequest.decide(wanted: nil, present: .known(.initial)) == nil)
    #expect(USBModeRequest.decide(wanted: .network, present: .unknown) == nil)
    #expect(USBModeRequest.decide(wanted: .network, present: .notInitial) == nil)
    #expect(USBModeRequest.decide(wanted: .network, present: .known(.network)) == nil)
    #expect(USBModeRequest.decide(wanted: .network, present: .known(.initial)) == .set(.network))
    #expect(USBModeRequest.decide(wanted: .initial, present: .known(.tethering)) == .set(.initial))
  }

  @Test("The requests as they go over the wire")
  func requests() {
    #expect(USBModeRequest.requestType == 0xc0)
    #expect(USBModeRequest.read.request == 0x45)
    #expect(USBModeRequest.read.index == 0)
    #expect(USBModeRequest.read.answerLength == 4)
    #expect(USBModeRequest.set(.tethering).request == 0x52)
    #expect(USBModeRequest.set(.tethering).index == 4)
    #expect(USBModeRequest.set(.tethering).answerLength == 1)
  }
}

@Suite("USB identity")
struct USBIdentityTests {
  private let location = USBLocation(bus: 2, address: 17)

  @Test("The location id is the bus above the address; the node has three digits of each")
  func locations() {
    #expect(location.identifier == 0x2_0011)
    #expect(location.node == "/dev/bus/usb/002/017")
    #expect(USBLocation(bus: 255, address: 127).identifier == 0xff_007f)
    #expect(USBLocation(bus: 12, address: 127).node == "/dev/bus/usb/012/127")
  }

  @Test(
    "Speeds in bits per second",
    arguments: [
      ("1.5", 1_500_000), ("12", 12_000_000), ("480", 480_000_000), ("5000", 5_000_000_000),
      ("10000", 10_000_000_000), ("20000", 20_000_000_000), ("", 480_000_000), ("unknown", 480_000_000),
      ("0", 480_000_000), ("-1", 480_000_000), ("99999999999999999999", 480_000_000),
    ] as [(String, UInt64)])
  func speeds(_ text: String, _ speed: UInt64) {
    #expect(USBSpeed.bitsPerSecond(megabits: text) == speed)
  }

  @Test(
    "Serial numbers become UDIDs",
    arguments: [
      ("00008110000A1B2C3D4E5F60", "00008110-000A1B2C3D4E5F60"),
      ("00008110000a1b2c3d4e5f60\0\0\0", "00008110-000A1B2C3D4E5F60"),
      ("0123456789ABCDEF0123456789abcdef01234567", "0123456789abcdef0123456789abcdef01234567"),
      ("ffffffffffffffffffffffffffffffffffffffff", "ffffffffffffffffffffffffffffffff00020011"),
      ("FFFFFFFFFFFFFFFFFFFFFFFF", "FFFFFFFF-FFFFFFFF00020011"),
      ("", "ffffffffffffffffffffffffffffffff00020011"), ("\0\0", "ffffffffffffffffffffffffffffffff00020011"),
      (nil, "ffffffffffffffffffffffffffffffff00020011"), ("RESTORE CPID:8110", "RESTORE CPID:8110"),
    ] as [(String?, String)])
  func serialNumbers(_ serial: String?, _ udid: String) {
    #expect(USBSerialNumber.udid(serial, at: location).description == udid)
  }

  @Test("String descriptors are UTF-16, little-endian")
  func strings() {
    #expect(USBSerialNumber.parse(stringDescriptor: [8, 3, 0x30, 0, 0x61, 0, 0xe4, 0]) == "0a\u{e4}")
    // Cut off in a character, longer than it says, shorter than it says.
    #expect(USBSerialNumber.parse(stringDescriptor: [8, 3, 0x30, 0, 0x61]) == "0")
    #expect(USBSerialNumber.parse(stringDescriptor: [4, 3, 0x30, 0, 0x61, 0]) == "0")
    #expect(USBSerialNumber.parse(stringDescriptor: [255, 3, 0x30, 0]) == "0")
    for none in [[], [2], [2, 3], [0, 3, 0x30, 0], [4, 2, 0x30, 0], [3, 3, 0x30]] as [[UInt8]] {
      #expect(USBSerialNumber.parse(stringDescriptor: none) == nil)
    }
    // Half of a surrogate pair is no reason to fail.
    #expect(USBSerialNumber.parse(stringDescriptor: [4, 3, 0x00, 0xd8]) == "\u{fffd}")
  }
}
