import EventLoop
import USBMux

/// Tells the service manager how the daemon is. Lives on the loop's thread.
final class ServiceNotifier {
  /// Phones that come and go in a burst make one line.
  private static let statusDelay: Int64 = 100_000_000

  private let loop: EventLoop
  private let mux: Mux
  private var statusTimer: LoopTimer?
  private var watchdog: LoopTimer?
  private var shown: String?
  private var isStopping = false
  private var isReady = false
  private(set) var status = ServiceStatus()

  /// Nil where no manager wants to know.
  init?(_ mux: Mux, on loop: EventLoop) {
    guard ServiceManager.isThere else { return nil }
    self.loop = loop
    self.mux = mux
    statusTimer = LoopTimer(on: loop) { [unowned self] in tellStatus() }
  }

  /// All listeners are there, after the start or after a reload.
  func ready() {
    guard !isStopping else { return }
    isReady = true
    shown = status.line
    ServiceManager.notify("READY=1\nSTATUS=\(status.line)")
    startWatchdog()
  }

  /// The configuration is read again; ``ready()`` is to follow, also when it was bad.
  func reloading() {
    guard !isStopping else { return }
    // systemd wants to know when, to tell this reload from another one.
    ServiceManager.notify("RELOADING=1\nMONOTONIC_USEC=\(loop.now / 1000)\nSTATUS=reading the configuration")
    shown = nil
  }

  /// No new connections are taken any more.
  func stopping() {
    isStopping = true
    ServiceManager.notify("STOPPING=1\nSTATUS=waiting for open connections")
  }

  /// The process ends for this reason, which then stands in `systemctl status`.
  func failed(_ reason: String) {
    isStopping = true
    ServiceManager.notify("STATUS=" + reason.split(whereSeparator: \.isNewline).joined(separator: " "))
  }

  /// Changes what the status line says.
  func update(_ change: (inout ServiceStatus) -> Void) {
    change(&status)
    if isReady, statusTimer?.isSet == false { statusTimer?.set(after: Self.statusDelay) }
  }

  func take(_ event: DeviceEvent) {
    update { status in
      switch event {
      case .attached(let device): status.phones.append(Self.text(device))
      case .detached(let device):
        guard let index = status.phones.firstIndex(of: Self.text(device)) else { return }
        status.phones.remove(at: index)
      }
    }
  }

  private static func text(_ device: Device) -> String {
    "\(device.udid) (\(device.isUSB ? "USB" : "Wi-Fi"))"
  }

  private func tellStatus() {
    let line = status.line
    guard !isStopping, line != shown else { return }
    shown = line
    ServiceManager.notify("STATUS=\(line)")
  }

  // MARK: Watchdog

  private func startWatchdog() {
    guard watchdog == nil, let time = ServiceManager.watchdogTime else { return }
    // systemd advises half of it.
    let period = time / 2
    watchdog = LoopTimer(on: loop) { [unowned self] in ping(period) }
    ping(period)
  }

  /// A timer of the loop calls this, and the ping goes out when the other thread has answered, too: if either
  /// hangs, nothing is sent.
  private func ping(_ period: Int64) {
    mux.whenAnswering { ServiceManager.notify("WATCHDOG=1") }
    watchdog?.set(after: period)
  }
}
