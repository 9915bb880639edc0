import EventLoop
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// Runs the forwards of a command line until a signal ends it.
actor Daemon: Command {
  private let loop: EventLoop
  private let options: RunOptions
  private let program: String
  private let mux: Mux
  private var signals: [SignalWatcher] = []
  private var outcome: Outcome?
  private var isEnding = false
  private var service: ServiceNotifier?

  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

  init(_ options: RunOptions, program: String, on loop: EventLoop) throws {
    self.loop = loop
    let options = try options.resolved()
    self.options = options
    self.program = program
    mux = try Mux(options.muxConfiguration(program: program), on: loop)
    service = ServiceNotifier(mux, on: loop)
  }

  nonisolated func begin(_ outcome: Outcome) {
    assumeIsolated { $0.start(outcome) }
  }

  private func start(_ outcome: Outcome) {
    self.outcome = outcome
    for number in [SIGTERM, SIGINT] {
      signals.append(SignalWatcher(number, on: loop) { [unowned self] in assumeIsolated { $0.end() } })
    }
    Task { await bind() }
  }

  /// All listeners, or none: a caller that reads "ready" can rely on every one of them.
  private func bind() async {
    var ready: [Forward] = []
    var server: UsbmuxdServer?
    for forward in options.forwards {
      do throws(MuxError) {
        guard let port = DevicePort(forward.devicePort) else { continue }
        ready.append(
          try await mux.forward(forward.address, to: port, options: options.forwardOptions))
      } catch {
        return await fail(error)
      }
    }
    if let served = options.server {
      do throws(MuxError) {
        server = try await mux.serve(served.location.address, options: served.mux(options.timeouts))
      } catch {
        return await fail(error)
      }
    }
    guard !isEnding else { return }
    announce(ready, server)
    report(ready, server)
  }

  /// Nothing that was bound is left behind, the files of Unix sockets least of all.
  private func fail(_ error: MuxError) async {
    Console.complain("\(program): \(error)")
    await mux.shutdown()
    service?.failed("\(error)")
    finish(Tunneld.ExitStatus.failure)
  }

  /// Tells the service manager, where there is one, that all listeners are there, and from then on of the phones.
  private func report(_ forwards: [Forward], _ server: UsbmuxdServer?) {
    let unclaimed = PassedSockets.current.unclaimed(
      by: options.forwards.map(\.local), servesPrograms: options.server?.location == .activated)
    for socket in unclaimed {
      Console.complain(
        "\(program): warning: systemd passes a socket named \(socket.name.quoted), which is for no forward")
    }
    guard let service else { return }
    service.update { status in
      status.forwards = forwards.map { forward in
        (forward.endpoints.first.map { "\($0) -> " } ?? "") + "\(forward.devicePort)"
      }
      status.servers = server?.endpoints.map { $0.port == nil ? $0.host : "\($0)" } ?? []
    }
    service.ready()
    mux.watchDevices { [unowned self] event in assumeIsolated { $0.service?.take(event) } }
  }

  private func announce(_ forwards: [Forward], _ server: UsbmuxdServer?) {
    switch options.announcement {
    case .tunneld:
      for forward in forwards {
        for endpoint in forward.endpoints {
          Console.print("ready: \(endpoint) -> device port \(forward.devicePort)")
        }
      }
      for endpoint in server?.endpoints ?? [] {
        Console.print("ready: usbmuxd socket at \(endpoint.port == nil ? endpoint.host : "\(endpoint)")")
      }
    case .iproxy:
      // These are iproxy's own lines, which programs look for.
      for forward in forwards {
        Console.print(
          "Creating listening port \(forward.port ?? 0) for device port \(forward.devicePort)")
      }
      Console.print("waiting for connection")
    }
  }

  /// The first signal lets connections end for a bounded time; a second one does not wait.
  private func end() {
    guard !isEnding else { return finish(Tunneld.ExitStatus.success) }
    isEnding = true
    service?.stopping()
    Task {
      await mux.shutdown(drain: options.timeouts.drain)
      finish(Tunneld.ExitStatus.success)
    }
  }

  private func finish(_ status: Int32) {
    outcome?.status = status
    loop.stop()
  }
}
