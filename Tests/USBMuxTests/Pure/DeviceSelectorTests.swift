import MuxProtocol
import Testing

@testable import USBMux

/// Which device is meant: never by the order of a list, never another one than was named.
@Suite("Device selector")
struct DeviceSelectorTests {
  static let alpha = "00008110-000000000000000A"
  static let beta = "00008110-000000000000000B"
  static let gamma = "0123456789abcdef0123456789abcdef01234567"

  private func usb(_ id: UInt32, _ udid: String) -> Device {
    Device(
      id: DeviceID(rawValue: id), udid: UDID(serialNumber: udid),
      connection: .usb(speed: 480_000_000, location: id, product: 0x12a8))
  }

  private func network(_ id: UInt32, _ udid: String) -> Device {
    Device(id: DeviceID(rawValue: id), udid: UDID(serialNumber: udid), connection: .network(nil))
  }

  private func selector(
    _ udid: String? = nil, _ ways: DeviceSelector.Ways = .usb, first: Bool = false
  ) throws -> DeviceSelector {
    DeviceSelector(udid: try udid.map { try UDIDPrefix(parsing: $0) }, ways: ways, takesFirst: first)
  }

  private func failure(_ selector: DeviceSelector, _ devices: [Device]) -> MuxError? {
    do throws(MuxError) {
      _ = try selector.choose(from: devices)
      return nil
    } catch { return error }
  }

  @Test("No device")
  func none() throws {
    for ways in [DeviceSelector.Ways.usb, .usbThenNetwork] {
      #expect(failure(try selector(nil, ways), []) == .noSuchDevice(wanted: nil))
    }
    #expect(failure(try selector(nil, .network), []) == .noSuchDevice(wanted: "over the network"))
    #expect(failure(try selector("00008110"), []) == .noSuchDevice(wanted: "00008110"))
    #expect(
      failure(try selector("00008110", .network), [])
        == .noSuchDevice(wanted: "00008110 over the network"))
  }

  @Test("The only device needs no name")
  func only() throws {
    #expect(try selector().choose(from: [usb(1, Self.alpha)]).id.rawValue == 1)
  }

  @Test("Several and no name: refused with the list, in whatever order")
  func several() throws {
    let devices = [usb(1, Self.alpha), usb(2, Self.beta)]
    #expect(failure(try selector(), devices) == .ambiguousDevice(devices.map(\.udid)))
    #expect(failure(try selector(), devices.reversed()) == .ambiguousDevice(devices.reversed().map(\.udid)))
  }

  @Test("Several, and the first one is wanted: the first on USB, whoever was listed first")
  func first() throws {
    let devices = [network(1, Self.gamma), usb(2, Self.beta), usb(3, Self.alpha)]
    for ways in [DeviceSelector.Ways.usb, .usbThenNetwork] {
      #expect(try selector(nil, ways, first: true).choose(from: devices).id.rawValue == 2)
    }
    #expect(try selector(nil, .network, first: true).choose(from: devices).id.rawValue == 1)
  }

  @Test("The right one, another one, none", arguments: [false, true])
  func named(reversed: Bool) throws {
    var devices = [usb(1, Self.alpha), usb(2, Self.beta)]
    if reversed { devices.reverse() }
    #expect(try selector(Self.alpha).choose(from: devices).id.rawValue == 1)
    #expect(try selector(Self.beta).choose(from: devices).id.rawValue == 2)
    #expect(failure(try selector(Self.gamma), devices) == .noSuchDevice(wanted: Self.gamma))
    // An unknown name never falls through to the first one.
    #expect(failure(try selector(Self.gamma, first: true), devices) == .noSuchDevice(wanted: Self.gamma))
  }

  @Test(
    "Dash and case do not count",
    arguments: ["00008110-000000000000000A", "00008110000000000000000a", "00008110-000000000000000a"])
  func spelling(_ text: String) throws {
    // A daemon may list the serial number without its dash.
    for listed in [Self.alpha, "00008110000000000000000A"] {
      #expect(try selector(text).choose(from: [usb(2, Self.beta), usb(1, listed)]).id.rawValue == 1)
    }
  }

  @Test("A beginning that fits one is enough; one that fits several is not")
  func prefix() throws {
    let devices = [usb(1, Self.alpha), usb(2, Self.beta), usb(3, Self.gamma)]
    #expect(try selector("0123").choose(from: devices).id.rawValue == 3)
    #expect(
      failure(try selector("00008110"), devices)
        == .ambiguousDevice([UDID(serialNumber: Self.alpha), UDID(serialNumber: Self.beta)]))
  }

  @Test("USB before the network, whichever is listed first", arguments: [false, true])
  func twins(reversed: Bool) throws {
    var devices = [network(1, Self.alpha), usb(2, Self.alpha)]
    if reversed { devices.reverse() }
    for name in [nil, Self.alpha] {
      #expect(try selector(name).choose(from: devices).id.rawValue == 2)
      #expect(try selector(name, .usbThenNetwork).choose(from: devices).id.rawValue == 2)
      #expect(try selector(name, .network).choose(from: devices).id.rawValue == 1)
    }
  }

  @Test("Present on the network only: said so, and never taken unasked")
  func onlyOverNetwork() throws {
    let devices = [network(1, Self.alpha)]
    for name in [nil, Self.alpha, "0000"] {
      #expect(failure(try selector(name), devices) == .onlyOverNetwork(UDID(serialNumber: Self.alpha)))
      #expect(try selector(name, .usbThenNetwork).choose(from: devices).id.rawValue == 1)
    }
    #expect(failure(try selector(Self.beta), devices) == .noSuchDevice(wanted: Self.beta))
  }

  @Test("Several phones on the network do not make the choice among those on USB ambiguous")
  func networkNeighbours() throws {
    let others = [network(1, Self.alpha), network(2, Self.beta)]
    #expect(try selector().choose(from: others + [usb(3, Self.gamma)]).id.rawValue == 3)
    // None on USB: one may be plugged in at any time, so this is an absence and not a question.
    #expect(failure(try selector(), others) == .noSuchDevice(wanted: nil))
    #expect(failure(try selector("00008110"), others) == .noSuchDevice(wanted: "00008110"))
  }
}
