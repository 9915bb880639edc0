import CUMockdev
import Foundation
import MuxProtocol
import SimulatedPhone

/// All emulated devices, and what the tests tell them to do.
///
/// Commands are lines; each has one line of answer, `ok ...` or `error ...`:
///
///     attach NAME [key=value ...]     plug a device in; with shared memory, `rate` (MB/s), `turnaround` and
///                                     `interrupt` (us) say how fast its bus and its phone are
///     unplug NAME                     transfers fail, and a uevent tells it
///     unplug NAME silent              transfers fail; no uevent (a container without udevd)
///     vanish NAME                     it leaves the list; transfers stay under way, no uevent
///     select NAME VALUE [quiet]       somebody selects another configuration [transfers stay under way]
///     set NAME key=value ...          faults: busy, claim-errors, out-of-memory, hold, hold-output, ...
///     status NAME
///     process                         the program's process id
///     serial NAME TEXT                the kernel knows the serial number from now on
final class Bed: @unchecked Sendable {
  private let lock = NSLock()
  private var devices: [String: EmulatedDevice] = [:]
  private var buses: Set<Int> = []
  private var nextAddress = 2
  private let later = DispatchQueue(label: "later")

  func perform(_ line: String) -> String {
    let words = line.split(separator: " ").map(String.init)
    if words == ["process"] { return "ok \(EmulatedDevice.client)" }
    guard words.count >= 2 else { return "error too short" }
    var options: [String: String] = [:]
    for word in words.dropFirst(2) {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      options[String(parts[0])] = parts.count > 1 ? String(parts[1]) : ""
    }
    lock.lock()
    defer { lock.unlock() }
    if words[0] == "attach" { return attach(words[1], options) }
    guard let device = devices[words[1]] else { return "error no such device" }
    switch words[0] {
    case "unplug": return unplug(device, isSilent: options["silent"] != nil)
    case "vanish":
      device.leave(failsTransfers: false)
      remove(device, tells: false)
      return "ok"
    case "select":
      device.selectFromOutside(
        options.keys.compactMap { UInt8($0) }.first ?? 0, failsTransfers: options["quiet"] == nil)
      return "ok"
    case "set":
      device.change { Self.apply(options, to: &device.faults, device) }
      return "ok"
    case "serial":
      cu_set_attribute(device.description.path, "serial", (words.last ?? "") + "\n")
      return "ok"
    case "status": return "ok " + device.status
    default: return "error unknown command"
    }
  }

  private func attach(_ name: String, _ options: [String: String]) -> String {
    guard devices[name] == nil else { return "error it is there already" }
    var description = DeviceDescription()
    description.name = name
    description.bus = name.split(separator: "-").first.flatMap { Int($0) } ?? 1
    description.address = options["address"].flatMap { Int($0) } ?? nextAddress
    nextAddress = max(nextAddress, description.address) + 1
    Self.apply(options, to: &description)
    var behaviour = PhoneBehaviour()
    behaviour.udid = description.serial ?? ""
    behaviour.endpointPacketSize = Int(description.packetSize)
    Self.apply(options, to: &behaviour)
    if buses.insert(description.bus).inserted { _ = cu_add(DeviceDescription.rootHub(bus: description.bus)) }
    var ports = SimulatedPhone.usualPorts
    ports[ChosenService.port] = .service { ChosenService() }
    guard let device = EmulatedDevice(description, behaviour: behaviour, ports: ports) else {
      return "error no node: \(String(cString: strerror(errno)))"
    }
    Self.apply(options, to: &device.faults, device)
    device.modeWasSet = { [unowned self] mode in
      // It answers first, and leaves a little later.
      later.asyncAfter(deadline: .now() + 0.05) { [self] in reenumerate(name, mode: mode) }
    }
    devices[name] = device
    return device.attach() ? "ok \(description.node)" : "error umockdev refused"
  }

  /// The program is over.
  func removeSharedMemory() {
    lock.lock()
    for device in devices.values { device.leave(failsTransfers: true) }
    lock.unlock()
  }

  private func unplug(_ device: EmulatedDevice, isSilent: Bool) -> String {
    device.leave(failsTransfers: true)
    remove(device, tells: !isSilent)
    return "ok"
  }

  private func remove(_ device: EmulatedDevice, tells: Bool) {
    devices[device.description.name] = nil
    if tells { cu_uevent(device.description.path, "remove") }
    cu_remove(device.description.path)
    cu_detach(device.description.node)
    unlink(String(cString: cu_root()) + device.description.node)
  }

  /// In the wanted mode it has other configurations, and another address.
  private func reenumerate(_ name: String, mode: Int) {
    lock.lock()
    defer { lock.unlock() }
    guard let old = devices[name] else { return }
    _ = unplug(old, isSilent: false)
    var description = old.description
    description.address = nextAddress
    nextAddress += 1
    description.configurations = Self.configurations(mode: mode)
    description.active = 0
    guard let device = EmulatedDevice(description, behaviour: old.behaviour, ports: old.ports) else { return }
    devices[name] = device
    _ = device.attach()
  }

  static func configurations(mode: Int) -> [DeviceDescription.Configuration] {
    typealias One = DeviceDescription.Configuration
    let first = [One(value: 1, mux: nil), One(value: 2, mux: nil), One(value: 3, mux: 1)]
    let fourth = One(value: 4, mux: 1, extra: (0xff, 0xfd, 0x01))
    return switch mode {
    case 2: first + [fourth, One(value: 5, mux: 1, extra: (0xff, 0x2a, 0xff))]
    case 3: first + [fourth, One(value: 5, mux: 1, extra: (0x02, 0x0d, 0x00))]
    case 4: first + [fourth, One(value: 5, mux: 2), One(value: 6, mux: 1, extra: (0x02, 0x0d, 0x00))]
    case 5: [One(value: 1, mux: 0, extra: (0x02, 0x0d, 0x00))]
    default: first + [fourth]
    }
  }

  // MARK: Options

  private static func apply(_ options: [String: String], to description: inout DeviceDescription) {
    for (key, value) in options {
      switch key {
      case "serial": description.serial = value == "none" ? nil : value
      case "hidden-serial": description.serialInSysfs = false
      case "product": description.product = UInt16(value, radix: 16) ?? 0
      case "speed": description.speed = value
      case "packet": description.packetSize = UInt16(value) ?? 512
      case "active": description.active = UInt8(value) ?? 0
      case "swap": description.swapsEndpoints = true
      case "mode": description.configurations = configurations(mode: Int(value) ?? 1)
      case "classes":
        let parts = value.split(separator: "/").compactMap { UInt8($0, radix: 16) }
        if parts.count == 3 { description.muxClasses = (parts[0], parts[1], parts[2]) }
      case "silent": description.isSilent = true
      case "rate": description.busSpeed.rate = Double(value) ?? 0
      case "turnaround": description.busSpeed.turnaround = (UInt64(value) ?? 0) * 1000
      case "interrupt": description.busSpeed.interrupt = (UInt64(value) ?? 0) * 1000
      case "vendor": description.vendor = UInt16(value, radix: 16) ?? 0
      case "unreadable": description.hasReadableDescriptors = false
      default: break
      }
    }
  }

  private static func apply(_ options: [String: String], to behaviour: inout PhoneBehaviour) {
    for (key, value) in options {
      let number = Int(value) ?? 0
      switch key {
      case "version": behaviour.version = UInt32(number)
      case "piece": behaviour.readPieceSize = number
      case "glue": behaviour.gluesPackets = true
      case "mute": behaviour.ignoredVersions = number
      case "stale": behaviour.stalePackets = number
      case "window": behaviour.window = number
      case "finishes": behaviour.finishes = true
      default: break
      }
    }
  }

  private static func apply(
    _ options: [String: String], to faults: inout EmulatedDevice.Faults, _ device: EmulatedDevice
  ) {
    for (key, value) in options {
      let number = Int(value) ?? 0
      switch key {
      case "busy": faults.busy = number
      case "claim-errors": faults.claimErrors = number
      case "config-error":
        if let configuration = UInt8(value) { faults.configurationErrors[configuration] = -1 }
      case "out-of-memory": faults.submitErrors = number
      case "hold": faults.holdsCancelled = number != 0
      case "hold-output": faults.holdsOutput = number != 0
      case "stall-modes": faults.stallsModes = true
      case "ignore-control": faults.ignoresControl = true
      case "next-in": faults.nextInput = Int32(-number)
      case "next-out": faults.nextOutput = Int32(-number)
      case "denied": chmod(String(cString: cu_root()) + device.description.node, 0)
      case "allowed": chmod(String(cString: cu_root()) + device.description.node, 0o666)
      case "driver": device.setDriver(value, interface: 0)
      default: break
      }
    }
  }
}
