internal import EventLoop

extension ServerClient: OpenHandler {
  func connect(_ id: DeviceID, _ port: DevicePort, _ received: ReceivedRequest) {
    guard let device = server.devices.device(id) else { return answer(.result(.badDevice), to: received) }
    // The transport may answer before `open` returns.
    state = .connecting(Connecting(request: received, device: device, port: port))
    // Readability tells a program that leaves, too.
    watcher?.wait(for: .read)
    let hub = server.hub
    if let number = socket?.number {
      tap = hub.capture?.tap(identifier, client: number, isUnix: isUnix, to: device, port: port)
    }
    let attempt = hub.transport.open(
      device, port: port, timeout: server.options.connectTimeout.nanosecondsOfLoop, self)
    guard case .connecting(var connecting) = state else { return }
    connecting.attempt = attempt
    state = .connecting(connecting)
  }

  func opened(_ channel: consuming DeviceChannel) {
    guard case .connecting(let connecting) = state else { return channel.discard() }
    state = .granted(connecting.device, connecting.port)
    tap?.accepted()
    answer(.result(.ok), to: connecting.request)
    guard case .granted = state else { return channel.discard() }
    guard !output.isEmpty else { return relay(to: connecting.device, connecting.port, over: channel) }
    // The program has not read its answers for long. A watcher lives on with those only who take it at once.
    switch consume channel {
    case .socket(let socket, let watcher, let epoch):
      watcher?.cancel()
      self.channel = .socket(socket, nil, epoch: epoch)
    case .session(let opened): self.channel = .session(opened)
    }
  }

  func openFailed(_ error: OpenError) {
    guard case .connecting(let connecting) = state else { return }
    // The list was wrong. It is put right for the next one; this program has named an attachment that is over.
    if case .unknownDevice = error { server.hub.transport.refresh {} }
    refuse(connecting, error)
  }

  /// The program keeps its connection: it may ask for something else.
  func refuse(_ connecting: Connecting, _ error: OpenError) {
    server.hub.statistics.failed(error.cause, resets: false)
    tap.take()?.failed(error)
    log(.info, "\(connecting.device.udid):\(connecting.port): \(error.cause)")
    state = .commands
    answer(.result(error.result), to: connecting.request)
    // Not at once: this may be a call from within `receive`.
    schedule()
  }

  func relay(to device: Device, _ port: DevicePort, over channel: consuming DeviceChannel) {
    guard let socket = socket.take() else { return channel.discard() }
    // The relay's own watcher is told anew that a program is gone altogether.
    watcher.drop()
    var times = RelayTimes()
    times.halfClose = server.options.halfCloseTimeout.nanosecondsOfLoop
    let relay = StreamRelay(
      identifier, client: socket, clientIsUnix: isUnix, clientWatcher: nil, to: device, over: channel,
      times: times, tap: tap.take(), hub: server.hub
    ) { [unowned self] in relayEnded($0) }
    state = .relaying(relay, device, port, since: server.hub.loop.now)
    server.hub.statistics.opened &+= 1
    log(.info, "open: \(server.name) -> \(device.udid):\(port)")
    relay.start()
  }

  private func relayEnded(_ summary: RelaySummary) {
    server.hub.statistics.ended(summary)
    log(.info, "\(summary.reason): \(summary.sent) bytes sent, \(summary.received) received")
    end()
  }
}

extension OpenError {
  /// What a program is told: that there is no such device, or that it does not accept.
  fileprivate var result: ResultCode {
    switch self {
    case .unknownDevice: .badDevice
    case .failed(let error):
      switch error {
      case .noDaemon, .permissionDenied, .noSuchDevice, .onlyOverNetwork, .ambiguousDevice, .deviceGone,
        .closed:
        .badDevice
      case .refused, .protocolViolation, .timeout, .cannotListen, .system: .connectionRefused
      }
    }
  }

  fileprivate var cause: MuxError {
    switch self {
    case .unknownDevice: .deviceGone
    case .failed(let error): error
    }
  }
}
