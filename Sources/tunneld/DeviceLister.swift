import EventLoop
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// `tunneld devices`: lists the devices once, or goes on and tells what changes.
actor DeviceLister: Command {
  private let loop: EventLoop
  private let options: DevicesOptions
  private let program: String
  private let mux: Mux
  private var signals: [SignalWatcher] = []
  private var outcome: Outcome?

  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

  init(_ options: DevicesOptions, program: String, on loop: EventLoop) throws(MuxError) {
    self.loop = loop
    self.options = options
    self.program = program
    let sink = LogSink(program: program)
    let configuration = Mux.Configuration(
      transport: options.transport.mux,
      // The list's own errors are told by its exit; what a watch hears on the way is worth a line.
      logLevel: options.watch ? LogLevel(verbosity: options.verbosity) : .error,
      logHandler: { sink.write($0) })
    mux = try Mux(configuration, on: loop)
  }

  nonisolated func begin(_ outcome: Outcome) {
    assumeIsolated { $0.start(outcome) }
  }

  private func start(_ outcome: Outcome) {
    self.outcome = outcome
    for number in [SIGTERM, SIGINT] {
      signals.append(
        SignalWatcher(number, on: loop) { [unowned self] in
          assumeIsolated { $0.finish(Tunneld.ExitStatus.success) }
        })
    }
    Task { if options.watch { await watch() } else { await list() } }
  }

  private func list() async {
    do throws(MuxError) {
      let devices = try await mux.devices().filter(isWanted)
      if !options.json { Console.print(DeviceText.table(devices)) }
      if options.json && !devices.isEmpty { Console.print(DeviceText.json(devices)) }
      finish(Tunneld.ExitStatus.success)
    } catch {
      Console.complain("\(program): \(error)")
      finish(Tunneld.ExitStatus.failure)
    }
  }

  private func watch() async {
    for await event in mux.deviceEvents() {
      switch event {
      case .attached(let device), .detached(let device):
        guard isWanted(device) else { continue }
      }
      Console.print(options.json ? DeviceText.json(event) : DeviceText.line(event))
    }
  }

  private func isWanted(_ device: Device) -> Bool {
    switch options.connections {
    case .usbOnly: device.isUSB
    case .usbPreferred: true
    case .networkOnly: !device.isUSB
    }
  }

  private func finish(_ status: Int32) {
    outcome?.status = status
    loop.stop()
  }
}
