import EventLoop
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// Runs forwards until a signal ends it.
actor Daemon: Command {
  let loop: EventLoop
  var options: RunOptions
  let program: String
  /// Reads the command line, and with it the configuration file, once more.
  let invocation: @Sendable () throws(UsageError) -> Invocation
  let mux: Mux
  let sink: LogSink
  /// Nil: streams are written nowhere.
  let capture: Capture?
  let start: Int64
  /// The forwards that are wanted, in the order in which they came.
  var entries: [ForwardEntry] = []
  var lastNumber: UInt64 = 0
  /// Whether something changes the forwards, and what is to do so after it.
  var isChanging = false
  var waitingChanges: [CheckedContinuation<Void, Never>] = []
  /// What was wrong with the configuration when it was last read.
  var reloadProblem: String?
  private(set) var isEnding = false
  private var server: UsbmuxdServer?
  private var control: ControlService?
  private var signals: [SignalWatcher] = []
  private var parent: ParentWatch?
  private(set) var service: ServiceNotifier?
  private var outcome: Outcome?
  /// How long the capture may take to end.
  private var captureTimer: LoopTimer?

  nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }

  init(
    _ options: RunOptions, program: String, on loop: EventLoop,
    again invocation: @escaping @Sendable () throws(UsageError) -> Invocation
  ) throws {
    self.loop = loop
    let options = try options.resolved()
    self.options = options
    self.program = program
    self.invocation = invocation
    start = loop.now
    let sink = LogSink(program: program, options: options.log)
    self.sink = sink
    if let path = options.capture {
      capture = try Capture(to: path, application: "tunneld \(ProgramVersion.number)") {
        sink.write(.error, $0)
      }
    } else {
      capture = nil
    }
    mux = try Mux(options.muxConfiguration(sink: sink, capture: capture), on: loop)
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
    // Without a file there is nothing to read again, and the signal ends a program whose terminal is gone.
    if options.configuration != nil {
      signals.append(SignalWatcher(SIGHUP, on: loop) { [unowned self] in assumeIsolated { $0.hangUp() } })
    }
    if options.exitsWithParent {
      parent = ParentWatch(on: loop) { [unowned self] in
        assumeIsolated {
          $0.sink.write(.warning, "the process that started this one has ended")
          $0.end()
        }
      }
    }
    Task { await serially { await $0.bind() } }
  }

  /// Of the command line, all listeners or none: a caller that reads "ready" can rely on every one of them. Of
  /// the configuration file those that can be; the others are tried again.
  private func bind() async {
    do throws(MuxError) {
      for forward in options.forwards where forward.name == nil {
        try await bind(makeEntry(forward, from: .commandLine))
      }
      if let served = options.server {
        server = try await mux.serve(served.location.address, options: served.mux(options.timeouts))
      }
      try openControlSocket()
    } catch {
      return await fail(error)
    }
    for forward in options.forwards where forward.name != nil {
      await bindOrRetry(makeEntry(forward, from: .file))
    }
    guard !isEnding else { return }
    announceAll()
    reportUnclaimedSockets()
    tellManager()
    mux.watchDevices { [unowned self] event in assumeIsolated { $0.service?.take(event) } }
  }

  /// Nothing that was bound is left behind, the files of Unix sockets least of all.
  private func fail(_ error: MuxError) async {
    Console.complain("\(program): \(error)")
    await mux.shutdown()
    service?.failed("\(error)")
    finish(Tunneld.ExitStatus.failure)
  }

  // MARK: Service manager

  private func reportUnclaimedSockets() {
    let unclaimed = PassedSockets.current.unclaimed(
      by: options.forwards.map(\.local), servesPrograms: options.server?.location == .activated)
    for socket in unclaimed {
      sink.write(.warning, "systemd passes a socket named \(socket.name.quoted), which is for no forward")
    }
  }

  /// Tells the service manager, where there is one, that all is there, after the start and after a reload.
  func tellManager() {
    updateManager()
    service?.ready()
  }

  /// What its status line says of forwards.
  func updateManager() {
    service?.update { status in
      status.forwards = entries.map { entry in
        guard let forward = entry.forward else { return "\(entry.options.local.spelling) failed" }
        return (forward.endpoints.first.map { "\($0) -> " } ?? "") + "\(entry.options.devicePort)"
      }
      status.servers = server?.endpoints.map { $0.port == nil ? $0.host : "\($0)" } ?? []
    }
  }

  private func openControlSocket() throws(MuxError) {
    guard let wanted = options.control else { return }
    do throws(MuxError) {
      control = try ControlService(wanted, for: self)
    } catch {
      guard wanted.isStandard else { throw error }
      sink.write(.warning, "\(error); going on without a control socket")
    }
  }

  // MARK: Ready

  private func announceAll() {
    switch options.announcement {
    case .tunneld:
      if options.ready.json {
        tell([ReadyText.json(entries, options, server: server, control: control?.path)])
      } else {
        tell(ReadyText.lines(entries) + (server.map(ReadyText.line) ?? []))
      }
    case .iproxy:
      // These are iproxy's own lines, which programs look for.
      for entry in entries {
        Console.print(
          "Creating listening port \(entry.forward?.port ?? 0) for device port \(entry.options.devicePort)")
      }
      Console.print("waiting for connection")
    }
  }

  private func tell(_ lines: [String]) {
    guard let descriptor = options.ready.descriptor else { return lines.forEach(Console.print) }
    Console.write(lines.map { $0 + "\n" }.joined(), to: descriptor)
    // Whoever reads to the end has it all.
    _ = close(descriptor)
  }

  /// What listens later than the others. Not to a descriptor of its own, which is closed: whoever reads it to its end
  /// knows from there which forwards are not ready, and asks over the control socket.
  func announce(_ entries: [ForwardEntry]) {
    guard options.ready.descriptor == nil else { return }
    let lines = options.ready.json ? [ReadyText.json(later: entries, options)] : ReadyText.lines(entries)
    for line in lines where Console.takesOutput { Console.print(line) }
  }

  func reply(_ line: String, to client: UInt64) { control?.reply(line, to: client) }

  // MARK: Signals

  private func hangUp() {
    // What is wrong is in the log.
    Task { await serially { _ = try? await $0.reload() } }
  }

  /// The first signal lets connections end for a bounded time; a second one does not wait.
  private func end() {
    guard !isEnding else { return finish(Tunneld.ExitStatus.success) }
    isEnding = true
    service?.stopping()
    control?.close()
    Task {
      await mux.shutdown(drain: options.timeouts.drain)
      endCapture()
    }
  }

  /// For the capture to be written to its end, nanoseconds. A FIFO's reader that does not read must not keep the
  /// process.
  private static let captureGrace: Int64 = 2_000_000_000

  private func endCapture() {
    guard let capture else { return finish(Tunneld.ExitStatus.success) }
    captureTimer = LoopTimer(on: loop) { [unowned self] in
      assumeIsolated {
        $0.sink.write(.warning, "the end of the capture is not written: nobody reads it, or its disk is slow")
        $0.finish(Tunneld.ExitStatus.success)
      }
    }
    captureTimer?.set(after: Self.captureGrace)
    capture.close { [loop] in
      loop.execute { self.assumeIsolated { $0.finish(Tunneld.ExitStatus.success) } }
    }
  }

  private func finish(_ status: Int32) {
    control?.close()
    outcome?.status = status
    loop.stop()
  }
}
