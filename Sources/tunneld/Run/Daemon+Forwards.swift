import EventLoop
import USBMux

extension Daemon {
  // MARK: One at a time

  /// Runs `body` after all that was begun before it, so that no two changes of the forwards mix.
  func serially<Value: Sendable>(
    _ body: @Sendable (isolated Daemon) async -> Value
  ) async -> Value {
    if isChanging {
      await withCheckedContinuation { waitingChanges.append($0) }
    } else {
      isChanging = true
    }
    defer {
      if waitingChanges.isEmpty { isChanging = false } else { waitingChanges.removeFirst().resume() }
      updateManager()
    }
    return await body(self)
  }

  // MARK: Binding

  /// Makes a forward listen, and notes how that went.
  func bind(_ entry: ForwardEntry) async throws(MuxError) {
    guard let port = DevicePort(entry.options.devicePort) else { return }
    do throws(MuxError) {
      if let other = entries.first(where: {
        $0 !== entry && $0.forward != nil && $0.options.local.clashes(with: entry.options.local)
      }) {
        throw .cannotListen(
          address: entry.options.local.spelling, .inUse,
          reason: "forward \(other.title) listens there already")
      }
      let forward = try await mux.forward(
        entry.options.address, to: port, options: options.forwardOptions(for: entry.options))
      entry.state = .listening(forward)
      entry.retry = nil
    } catch {
      entry.state = .failed(error)
      throw error
    }
  }

  func makeEntry(_ options: ForwardOptions, from origin: ForwardEntry.Origin) -> ForwardEntry {
    lastNumber += 1
    let entry = ForwardEntry(lastNumber, options, from: origin)
    entries.append(entry)
    return entry
  }

  /// Makes a forward listen, now or as soon as it can.
  func bindOrRetry(_ entry: ForwardEntry) async {
    do throws(MuxError) {
      try await bind(entry)
    } catch {
      sink.write(.error, "forward \(entry.title) failed and will be tried again: \(error)")
      tryAgainLater(entry)
    }
  }

  private func tryAgainLater(_ entry: ForwardEntry) {
    let number = entry.number
    let timer = LoopTimer(on: loop) { [unowned self] in
      assumeIsolated { daemon in _ = Task { await daemon.serially { await $0.retry(number) } } }
    }
    timer.set(after: entry.nextPause())
    entry.retry = timer
  }

  private func retry(_ number: UInt64) async {
    guard !isEnding, let entry = entries.first(where: { $0.number == number }), entry.forward == nil else {
      return
    }
    do throws(MuxError) {
      try await bind(entry)
      sink.write(.notice, "forward \(entry.title) listens now")
      announce([entry])
    } catch {
      tryAgainLater(entry)
    }
  }

  func remove(_ entry: ForwardEntry) async {
    entries.removeAll { $0 === entry }
    entry.retry = nil
    await entry.forward?.stop()
  }

  // MARK: Reload

  /// Reads the configuration again, and makes of it what can be made without a restart.
  ///
  /// - Throws: what is wrong with it; nothing has changed then.
  func reload() async throws(UsageError) -> ReloadReport {
    service?.reloading()
    defer { tellManager() }
    let wanted: RunOptions
    do throws(UsageError) {
      wanted = try readAgain()
    } catch {
      reloadProblem = error.description
      sink.write(.error, "the configuration is left as it was: \(error)")
      throw error
    }
    reloadProblem = nil
    var report = await apply(wanted)
    report.needRestart = options.settingsForRestart(besides: wanted)
    options.takeChangeable(from: wanted)
    sink.configure(options.log)
    await mux.setLogLevel(options.logLevel)
    sink.write(.notice, "the configuration is reloaded: \(report.description)")
    return report
  }

  private func readAgain() throws(UsageError) -> RunOptions {
    guard options.configuration != nil else {
      throw UsageError("there is no configuration file to read again", fix: "start tunneld with -c FILE")
    }
    guard case .run(let wanted) = try invocation() else { return options }
    return try wanted.resolved()
  }

  private func apply(_ wanted: RunOptions) async -> ReloadReport {
    let before = options
    let plan = ForwardPlan(
      from: entries.filter { $0.origin == .file }, to: wanted.forwards.filter { $0.name != nil })
    // Defaults of all forwards are theirs at once.
    options.takeForwardDefaults(from: wanted)
    var report = ReloadReport(unchanged: plan.unchanged)
    for entry in plan.remove {
      await remove(entry)
      report.removed += 1
    }
    for (entry, options) in plan.change {
      entry.options = options
      report.changed += 1
    }
    for entry in entries {
      let isChanged = plan.change.contains { $0.entry === entry }
      let isNew = before.forwardOptions(for: entry.options) != options.forwardOptions(for: entry.options)
      guard isChanged || isNew, let forward = entry.forward, let port = DevicePort(entry.options.devicePort)
      else { continue }
      await mux.change(forward, to: port, options: options.forwardOptions(for: entry.options))
      if !isChanged && entry.origin == .file {
        report.changed += 1
        report.unchanged -= 1
      }
    }
    for options in plan.add {
      let entry = makeEntry(options, from: .file)
      await bindOrRetry(entry)
      report.added += 1
      if let failure = entry.failure { report.failed.append("forward \(entry.title): \(failure)") }
    }
    return report
  }
}

extension RunOptions {
  var logLevel: LogLevel { log.level ?? LogLevel(verbosity: verbosity) }

  /// What all forwards have that say nothing else.
  mutating func takeForwardDefaults(from other: RunOptions) {
    device = other.device
    connections = other.connections
    timeouts = other.timeouts
  }

  /// What can be changed while it runs.
  mutating func takeChangeable(from other: RunOptions) {
    takeForwardDefaults(from: other)
    forwards = other.forwards
    log = other.log
    verbosity = other.verbosity
  }
}
