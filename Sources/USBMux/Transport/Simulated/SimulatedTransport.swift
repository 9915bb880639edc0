internal import EventLoop
internal import SimulatedPhone

/// Phones that exist in this process only, behind the very protocol that real ones speak.
final class SimulatedTransport: Transport, LinkOwner {
  weak var observer: (any TransportObserver)?
  let failure: MuxError? = nil
  private let loop: EventLoop
  private let log: Log
  private let configuration: SimulationConfiguration
  private let servers: [UInt16: SocketAddress]
  private var phones: [Phone] = []
  private var lastID: UInt32 = 0

  private struct Phone {
    let device: Device
    let link: LinkDriver
    var isUp = false
  }

  /// - Throws: ``MuxError/system(_:)`` when a server's address is none.
  init(_ configuration: SimulationConfiguration, on loop: EventLoop, log: Log) throws(MuxError) {
    self.configuration = configuration
    self.loop = loop
    self.log = log
    var servers: [UInt16: SocketAddress] = [:]
    for (port, service) in configuration.services {
      guard case .loopback(let host, let number) = service else { continue }
      let numeric = host == "localhost" ? "127.0.0.1" : host
      guard let address = SocketAddress(host: numeric, port: number) else {
        throw .system("\(host) is not a numeric loopback address")
      }
      servers[port] = address
    }
    self.servers = servers
  }

  var devices: [Device] { phones.filter(\.isUp).map(\.device) }
  var isReady: Bool { phones.allSatisfy(\.isUp) }

  func link(of device: Device) -> LinkStatus {
    let link = phones.first { $0.device.id == device.id }?.link
    return LinkStatus(transport: "simulated", version: link?.version.map { Int($0.rawValue) })
  }

  func start() {
    for number in 0..<configuration.devices { add(number) }
    for phone in phones { phone.link.start() }
    if phones.isEmpty { observer?.transportChanged() }
  }

  private func add(_ number: Int) {
    lastID += 1
    var behaviour = PhoneBehaviour()
    // 00008110-000000C0FFEE0001 and on.
    let digits = String(0xC0FFEE0001 + UInt64(number), radix: 16, uppercase: true)
    behaviour.udid = "00008110-" + String(repeating: "0", count: 16 - digits.count) + digits
    let ports = configuration.ports.merging([DevicePort.lockdown.number: .lockdown(udid: behaviour.udid)]) {
      chosen, _ in chosen
    }
    let box = PhoneBox(behaviour: behaviour, ports: ports, servers: servers, on: loop)
    let device = Device(
      id: DeviceID(rawValue: lastID), udid: UDID(serialNumber: behaviour.udid),
      connection: .usb(speed: 480_000_000, location: lastID, product: 0x12a8))
    let link = LinkDriver(
      pipe: PhonePipe(box, on: loop), on: loop, log: log, name: "device \(device.udid)", owner: self)
    phones.append(Phone(device: device, link: link))
  }

  func stop() {
    for phone in phones { phone.link.stop() }
    phones = []
  }

  func lookNow() {}

  func linkIsUp(_ link: LinkDriver, _ version: MuxVersion) {
    guard let index = phones.firstIndex(where: { $0.link === link }) else { return }
    phones[index].isUp = true
    observer?.attached(phones[index].device)
    if isReady { observer?.transportChanged() }
  }

  func linkFailed(_ link: LinkDriver, _ reason: String) {
    guard let index = phones.firstIndex(where: { $0.link === link }) else { return }
    let phone = phones.remove(at: index)
    log.write(.warning, "the link to the simulated device \(phone.device.udid) failed: \(reason)")
    if phone.isUp { observer?.detached(phone.device) }
    if isReady { observer?.transportChanged() }
  }

  func open(_ device: Device, port: DevicePort, timeout: Int64, _ handler: any OpenHandler) -> any OpenAttempt
  {
    guard let phone = phones.first(where: { $0.device.id == device.id }) else {
      return FailedAttempt(.unknownDevice, on: loop, handler)
    }
    do throws(MuxError) {
      return try SessionOpening(phone.link, port: port, on: loop, timeout: timeout, handler)
    } catch {
      return FailedAttempt(.failed(error), on: loop, handler)
    }
  }

  func refresh(_ done: @escaping () -> Void) { done() }

  func verdict(on device: DeviceID, epoch: UInt64, _ done: @escaping (DeviceEnd) -> Void) { done(.clean) }
}
