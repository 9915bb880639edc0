/// Goes through a daemon where one answers, and to the devices themselves where none does; changes over when the
/// daemon comes or goes.
///
/// Only one of the two is used at a time, since a device has one owner: direct access lets go of all devices
/// before the daemon's are told of, and is not taken up while a daemon is there that merely cannot be talked to.
final class AutomaticTransport: Transport {
  weak var observer: (any TransportObserver)?

  private let daemon: any Transport
  private let makeDirect: () -> any Transport
  private var direct: (any Transport)?
  private let log: Log
  private var daemonRelay: Relay?
  private var directRelay: Relay?
  private var isStopped = false

  /// Tells which of the two has something to say.
  private final class Relay: TransportObserver {
    private unowned let owner: AutomaticTransport
    private let isDaemon: Bool

    init(_ owner: AutomaticTransport, isDaemon: Bool) {
      self.owner = owner
      self.isDaemon = isDaemon
    }

    func attached(_ device: Device) { owner.attached(device, isDaemon: isDaemon) }
    func detached(_ device: Device) { owner.detached(device, isDaemon: isDaemon) }
    func transportChanged() { owner.changed(isDaemon: isDaemon) }
  }

  /// `makeDirect` makes a new transport each time; its devices have other ids than the earlier ones' and the
  /// daemon's.
  init(daemon: any Transport, log: Log, makeDirect: @escaping () -> any Transport) {
    self.daemon = daemon
    self.makeDirect = makeDirect
    self.log = log
  }

  private var active: any Transport { direct ?? daemon }

  var devices: [Device] { active.devices }
  var failure: MuxError? { active.failure }
  var isReady: Bool { active.isReady }
  func link(of device: Device) -> LinkStatus { active.link(of: device) }

  func start() {
    let relay = Relay(self, isDaemon: true)
    daemonRelay = relay
    daemon.observer = relay
    daemon.start()
  }

  func stop() {
    isStopped = true
    direct?.stop()
    direct = nil
    daemon.stop()
  }

  func lookNow() {
    daemon.lookNow()
    direct?.lookNow()
  }

  func open(
    _ device: Device, port: DevicePort, timeout: Int64, _ handler: any OpenHandler
  ) -> any OpenAttempt {
    active.open(device, port: port, timeout: timeout, handler)
  }

  func refresh(_ done: @escaping () -> Void) { active.refresh(done) }

  /// Only the daemon's streams end without a reason, perhaps after direct access has begun.
  func verdict(on device: DeviceID, epoch: UInt64, _ done: @escaping (DeviceEnd) -> Void) {
    daemon.verdict(on: device, epoch: epoch, done)
  }

  // MARK: Changing over

  private func attached(_ device: Device, isDaemon: Bool) {
    guard !isStopped else { return }
    // A daemon's devices may be told of before its list is complete.
    if isDaemon { leaveDirect() }
    observer?.attached(device)
  }

  private func detached(_ device: Device, isDaemon: Bool) {
    guard !isStopped else { return }
    observer?.detached(device)
  }

  private func changed(isDaemon: Bool) {
    guard !isStopped else { return }
    guard isDaemon else {
      observer?.transportChanged()
      return
    }
    switch daemon.failure {
    case nil:
      guard daemon.isReady else { return }
      leaveDirect()
      observer?.transportChanged()
    case .noDaemon: takeUpDirect()
    default:
      // It is there, and something else is wrong with it: the devices are its own.
      leaveDirect()
      observer?.transportChanged()
    }
  }

  private func takeUpDirect() {
    guard direct == nil else { return }
    log.write(.info, "no usbmuxd answers: devices are reached over USB directly")
    let relay = Relay(self, isDaemon: false)
    let transport = makeDirect()
    directRelay = relay
    direct = transport
    transport.observer = relay
    transport.start()
    observer?.transportChanged()
  }

  private func leaveDirect() {
    guard let transport = direct else { return }
    log.write(.info, "a usbmuxd answers: devices are left to it")
    let lost = transport.devices
    direct = nil
    directRelay = nil
    for device in lost { observer?.detached(device) }
    transport.stop()
  }
}
