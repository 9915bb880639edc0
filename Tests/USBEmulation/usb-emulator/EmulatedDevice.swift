import CUMockdev
import Foundation
import MuxProtocol
import SimulatedPhone

/// An emulated device: answers what the kernel's usbfs would, in front of a simulated phone.
///
/// Called on umockdev's thread and on the control thread, one at a time.
final class EmulatedDevice: @unchecked Sendable {
  /// What goes wrong, and how often; -1: always.
  struct Faults {
    var busy = 0
    var claimErrors = 0
    var configurationErrors: [UInt8: Int] = [:]
    var submitErrors = 0
    /// Cancelled transfers never come back.
    var holdsCancelled = false
    /// Vendor requests stall, as with old devices.
    var stallsModes = false
    /// Vendor requests are never answered.
    var ignoresControl = false
    /// The next transfer ends with this status: bulk IN, bulk OUT.
    var nextInput: Int32?
    var nextOutput: Int32?
    /// OUT transfers stay under way.
    var holdsOutput = false
  }

  struct Urb {
    let address: UInt64
    let buffer: UInt64
    let length: Int
    let endpoint: UInt8
  }

  let lock = NSLock()
  var description: DeviceDescription
  var behaviour: PhoneBehaviour
  var ports: [UInt16: PhonePort]
  var faults = Faults()
  var phone: SimulatedPhone
  private(set) var active: UInt8
  private(set) var claimed: Set<UInt8> = []
  private var drivers: [UInt8: String] = [:]
  private var inputs: [Urb] = []
  private var outputs: [Urb] = []
  private var controls: [Urb] = []
  private var done: [(urb: Urb, status: Int32, count: Int)] = []
  private var isGone = false
  private let fifo: Int32
  /// Transfers come through shared memory when it is there.
  private var bus: EmulatedBus?
  private var isReady = false
  private let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 256 * 1024, alignment: 64)
  /// The opening of the node that counts; 0: none.
  private var file: UInt = 0
  /// What happened, for the tests.
  private(set) var counts: [String: Int] = [:]
  private var pastViolations: [String] = []

  /// The one client's process.
  nonisolated(unsafe) static var client: Int64 = 0
  /// Whether transfers come through shared memory; decided before the first device.
  nonisolated(unsafe) static var usesSharedMemory = false
  /// Told on umockdev's thread of an accepted mode: the device is to come back in that mode.
  var modeWasSet: ((Int) -> Void)?

  init?(_ description: DeviceDescription, behaviour: PhoneBehaviour, ports: [UInt16: PhonePort]) {
    self.description = description
    self.behaviour = behaviour
    self.ports = ports
    active = description.active
    phone = SimulatedPhone(behaviour: behaviour, ports: ports)
    fifo = cu_make_fifo(String(cString: cu_root()) + description.node)
    guard fifo >= 0 else { return nil }
    guard Self.usesSharedMemory else { return }
    guard let bus = EmulatedBus(self, fifo: fifo, speed: description.busSpeed) else { return nil }
    self.bus = bus
  }

  func attach() -> Bool {
    let context = Unmanaged.passRetained(self).toOpaque()
    guard cu_attach(description.node, deviceRequested, deviceClosed, context) == 0 else { return false }
    guard cu_add(description.umockdevText) == 0 else { return false }
    // Listeners for USB devices have not taken the event for one of theirs.
    if description.isSilent { cu_set_property(description.path, "DEVTYPE", "usb_device") }
    return true
  }

  func count(_ what: String) { counts[what, default: 0] += 1 }

  func setDriver(_ name: String, interface: UInt8) { drivers[interface] = name }

  // MARK: Requests

  func request(_ file: UInt, _ number: UInt, _ argument: UInt64) -> Int {
    lock.lock()
    defer {
      updateReadiness()
      lock.unlock()
    }
    let kind = cu_kind_of(number)
    if isGone, kind != CU_REAP { return -Int(ENODEV) }
    switch kind {
    case CU_CAPABILITIES:
      count("open")
      // The end of an earlier opening may not have been told yet.
      if self.file != 0 { release() }
      self.file = file
      // Zero packet, bulk continuation, no packet size limit, scatter-gather, reap after disconnect.
      return write(UInt32(0x1f), to: argument)
    case CU_CLAIM: return claim(argument)
    case CU_RELEASE:
      if let interface = readNumber(argument) { claimed.remove(UInt8(truncatingIfNeeded: interface)) }
      return 0
    case CU_SET_CONFIGURATION: return setConfiguration(argument)
    case CU_GET_DRIVER:
      guard let interface = readNumber(argument) else { return -Int(EFAULT) }
      guard let driver = drivers[UInt8(truncatingIfNeeded: interface)] else { return -Int(ENODATA) }
      var name = [UInt8](driver.utf8) + [0]
      return cu_write_memory(Self.client, argument + 4, &name, name.count) == 0 ? 0 : -Int(EFAULT)
    case CU_DRIVER_REQUEST:
      guard let interface = readNumber(argument) else { return -Int(EFAULT) }
      count("driver-detached")
      drivers[UInt8(truncatingIfNeeded: interface)] = nil
      return 0
    case CU_SUBMIT: return submit(argument)
    case CU_DISCARD: return discard(argument)
    case CU_REAP: return reap(argument)
    case CU_RESET:
      count("reset")
      cancelAll(-Int32(ECONNRESET))
      claimed = []
      restartPhone()
      return 0
    case CU_CLEAR_HALT: return 0
    default: return -Int(ENOTTY)
    }
  }

  private func claim(_ argument: UInt64) -> Int {
    guard let number = readNumber(argument) else { return -Int(EFAULT) }
    count("claim")
    if spend(\.busy) { return -Int(EBUSY) }
    if spend(\.claimErrors) { return -Int(EIO) }
    guard let configuration = description.configurations.first(where: { $0.value == active }),
      configuration.mux == UInt8(truncatingIfNeeded: number)
    else { return -Int(ENOENT) }
    claimed.insert(UInt8(truncatingIfNeeded: number))
    return 0
  }

  private func setConfiguration(_ argument: UInt64) -> Int {
    guard let number = readNumber(argument) else { return -Int(EFAULT) }
    let value = UInt8(truncatingIfNeeded: number)
    count("set-configuration")
    if spend(\.busy) || !claimed.isEmpty || !drivers.isEmpty { return -Int(EBUSY) }
    if let left = faults.configurationErrors[value], left != 0 {
      faults.configurationErrors[value] = left - 1
      return -Int(EIO)
    }
    guard description.configurations.contains(where: { $0.value == value }) else { return -Int(EINVAL) }
    select(value)
    return 0
  }

  private func select(_ value: UInt8) {
    active = value
    cu_set_attribute(description.path, "bConfigurationValue", value == 0 ? "" : "\(value)\n")
  }

  private func submit(_ argument: UInt64) -> Int {
    var raw = cu_urb()
    guard cu_read_urb(Self.client, argument, &raw) == 0 else { return -Int(EFAULT) }
    if spend(\.submitErrors) { return -Int(ENOMEM) }
    let urb = Urb(
      address: argument, buffer: raw.buffer, length: Int(max(0, raw.length)), endpoint: raw.endpoint)
    if Int(raw.type) == Int(CU_TYPE_CONTROL) { return submitControl(urb) }
    guard !claimed.isEmpty else {
      count("unclaimed")
      return -Int(EINVAL)
    }
    switch urb.endpoint {
    case DeviceDescription.input:
      inputs.append(urb)
      pump()
    case DeviceDescription.output:
      if faults.holdsOutput {
        outputs.append(urb)
        return 0
      }
      if let status = faults.nextOutput {
        faults.nextOutput = nil
        done.append((urb, status, 0))
        return 0
      }
      guard receive(urb) else { return -Int(EFAULT) }
      if raw.flags & UInt32(CU_URB_ZERO_PACKET) != 0, urb.length > 0,
        urb.length % Int(description.packetSize) == 0
      {
        phone.receive([UInt8]().span)
      }
      done.append((urb, 0, urb.length))
      pump()
    default: return -Int(ENOENT)
    }
    return 0
  }

  private func receive(_ urb: Urb) -> Bool {
    count("out")
    if urb.length == 0 { count("zero-length") }
    guard urb.length <= scratch.count else { return false }
    guard urb.length == 0 || cu_read_memory(Self.client, urb.buffer, scratch.baseAddress, urb.length) == 0
    else {
      return false
    }
    phone.receive(Span<UInt8>(_unsafeBytes: UnsafeRawBufferPointer(rebasing: scratch[..<urb.length])))
    return true
  }

  /// Lets the phone fill the reads that are under way.
  private func pump() {
    while !inputs.isEmpty {
      if let status = faults.nextInput {
        faults.nextInput = nil
        done.append((inputs.removeFirst(), status, 0))
        continue
      }
      guard phone.hasTransfers else { break }
      let room = UnsafeMutableRawBufferPointer(rebasing: scratch[..<min(inputs[0].length, scratch.count)])
      var output = OutputSpan<UInt8>(buffer: room.bindMemory(to: UInt8.self), initializedCount: 0)
      guard phone.nextTransfer(into: &output) else { break }
      let length = output.count
      let urb = inputs.removeFirst()
      count("in")
      let written = cu_write_memory(Self.client, urb.buffer, scratch.baseAddress, length)
      done.append((urb, written == 0 ? 0 : -Int32(EFAULT), length))
    }
  }

  private func discard(_ argument: UInt64) -> Int {
    for list in [\EmulatedDevice.inputs, \.outputs, \.controls] {
      guard let index = self[keyPath: list].firstIndex(where: { $0.address == argument }) else { continue }
      if faults.holdsCancelled {
        count("held")
        return 0
      }
      done.append((self[keyPath: list].remove(at: index), -Int32(ENOENT), 0))
      return 0
    }
    return -Int(EINVAL)
  }

  private func reap(_ argument: UInt64) -> Int {
    guard !done.isEmpty else { return isGone ? -Int(ENODEV) : -Int(EAGAIN) }
    let (urb, status, length) = done.removeFirst()
    var address = urb.address
    guard cu_finish_urb(Self.client, urb.address, status, Int32(length)) == 0,
      cu_write_memory(Self.client, argument, &address, 8) == 0
    else { return -Int(EFAULT) }
    return 0
  }

  private func updateReadiness() {
    if bus != nil { return }
    let ready = !done.isEmpty || isGone
    guard ready != isReady else { return }
    isReady = ready
    cu_set_ready(fifo, ready ? 1 : 0)
  }

  // MARK: Control transfers

  private func submitControl(_ urb: Urb) -> Int {
    var setup = [UInt8](repeating: 0, count: 8)
    guard urb.length >= 8, cu_read_memory(Self.client, urb.buffer, &setup, 8) == 0 else {
      return -Int(EFAULT)
    }
    count("control-\(String(setup[1], radix: 16))")
    if faults.ignoresControl {
      controls.append(urb)
      return 0
    }
    guard var answer = answer(setup) else {
      done.append((urb, -Int32(EPIPE), 0))
      return 0
    }
    answer = Array(answer.prefix(urb.length - 8))
    _ = cu_write_memory(Self.client, urb.buffer + 8, answer, answer.count)
    done.append((urb, 0, answer.count))
    return 0
  }

  func answer(_ setup: [UInt8]) -> [UInt8]? {
    switch (setup[0], setup[1]) {
    // The languages of its texts.
    case (0x80, 6) where setup[3] == 3 && setup[2] == 0: return [4, 3, 0x09, 0x04]
    case (0x80, 6) where setup[3] == 3 && setup[2] == 3:
      guard let serial = description.serial else { return nil }
      let units = serial.utf16.flatMap { [UInt8($0 & 0xff), UInt8($0 >> 8)] }
      return [UInt8(units.count + 2), 3] + units
    case (0xc0, 0x45):
      if faults.stallsModes { return nil }
      return description.configurations.count <= 4 && description.configurations.count > 1
        ? [3, 3, 3, 0] : [5, 3, 3, 0]
    case (0xc0, 0x52):
      if faults.stallsModes { return nil }
      modeWasSet?(Int(setup[4]))
      return [0]
    default: return nil
    }
  }

  // MARK: What happens to it

  /// The client closed its node: what was under way ends, the claim goes.
  func closed(_ file: UInt) {
    lock.lock()
    defer { lock.unlock() }
    count("close")
    guard file == self.file else { return }
    release()
    updateReadiness()
  }

  private func release() {
    file = 0
    claimed = []
    inputs = []
    outputs = []
    controls = []
    done = []
    bus?.reset()
    // The phone remembers its sessions; the next host finds packets of them first.
    restartPhone(stale: phone.sessionCount > 0 ? 2 : 0)
  }

  private func restartPhone(stale: Int = 0) {
    pastViolations += phone.violations.first.map { "\($0)" }
    counts["past-violations", default: 0] += phone.violations.count
    var behaviour = behaviour
    behaviour.stalePackets += stale
    phone = SimulatedPhone(behaviour: behaviour, ports: ports)
  }

  private func cancelAll(_ status: Int32) {
    done += (inputs + outputs + controls).map { ($0, status, 0) }
    inputs = []
    outputs = []
    controls = []
  }

  /// It is unplugged: transfers fail, nothing else answers.
  func leave(failsTransfers: Bool) {
    lock.lock()
    defer { lock.unlock() }
    isGone = failsTransfers
    if failsTransfers { cancelAll(-Int32(ESHUTDOWN)) }
    if failsTransfers { bus?.leave() }
    updateReadiness()
  }

  /// Somebody else selects a configuration, which ends all claims.
  func selectFromOutside(_ value: UInt8, failsTransfers: Bool) {
    lock.lock()
    defer { lock.unlock() }
    claimed = []
    select(value)
    if failsTransfers { cancelAll(-Int32(ESHUTDOWN)) }
    updateReadiness()
  }

  func change(_ body: () -> Void) {
    lock.lock()
    defer { lock.unlock() }
    body()
    pump()
    updateReadiness()
  }

  var status: String {
    lock.lock()
    defer { lock.unlock() }
    let violations = phone.violations.count + counts["past-violations", default: 0]
    let words = pastViolations + phone.violations.first.map { "\($0)" }
    let all = counts.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }.joined(separator: " ")
    return
      "violations=\(violations) strangers=\(phone.strangers) sessions=\(phone.sessionCount) active=\(active) "
      + (bus.map { "bytes-in=\($0.bytes.input) bytes-out=\($0.bytes.output) " } ?? "")
      + "inputs=\(inputs.count) outputs=\(outputs.count) claimed=\(claimed.count) \(all) | "
      + words.prefix(8).joined(separator: "; ")
  }

  // MARK: Helpers

  private func spend(_ fault: WritableKeyPath<Faults, Int>) -> Bool {
    guard faults[keyPath: fault] != 0 else { return false }
    faults[keyPath: fault] -= faults[keyPath: fault] > 0 ? 1 : 0
    return true
  }

  private func readNumber(_ address: UInt64) -> UInt32? {
    var number: UInt32 = 0
    return cu_read_memory(Self.client, address, &number, 4) == 0 ? number : nil
  }

  private func write(_ number: UInt32, to address: UInt64) -> Int {
    var number = number
    return cu_write_memory(Self.client, address, &number, 4) == 0 ? 0 : -Int(EFAULT)
  }
}

private func deviceRequested(
  _ context: UnsafeMutableRawPointer?, _ file: UInt, _ request: UInt, _ argument: UInt64
) -> Int {
  guard let context else { return -Int(ENODEV) }
  return Unmanaged<EmulatedDevice>.fromOpaque(context).takeUnretainedValue().request(file, request, argument)
}

private func deviceClosed(_ context: UnsafeMutableRawPointer?, _ file: UInt) {
  guard let context else { return }
  Unmanaged<EmulatedDevice>.fromOpaque(context).takeUnretainedValue().closed(file)
}
