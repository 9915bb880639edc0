internal import EventLoop

/// A program that talks to the server, from its first request to the end of the stream that it may get.
///
/// Requests are read one at a time, and not one byte beyond each: what follows a Connect belongs to the
/// device. The next one is read when the answer to the last one is with the kernel, so a program that does not
/// read costs no memory.
final class ServerClient: ReadinessHandler, OpenHandler, Resumable {
  /// Stands in all lines of the log that are about this client.
  let identifier: UInt64
  private let isUnix: Bool
  private unowned let server: ServerState
  private var socket: Descriptor?
  private var watcher: Watcher?
  private var decoder: FrameDecoder
  private var output = OutputQueue()
  private var state = State.commands
  private var deadline: LoopTimer?
  private var isScheduled = false
  /// The program has ended its sending side.
  private var hungUp = false
  /// Both sides are over.
  private var isBroken = false

  /// Steps that are done before others get their turn: a frame, or one read of a part of it.
  private static let slice = 64
  /// For a program to take the last answer, nanoseconds.
  private static let farewell: Int64 = 5_000_000_000

  /// Who listens, and in which dialect.
  struct Listening {
    let info: ClientInfo
    let dialect: Dialect
  }

  private struct Connecting {
    let request: ReceivedRequest
    let device: Device
    let port: DevicePort
    var attempt: (any OpenAttempt)?
  }

  private enum State {
    /// Reads requests.
    case commands
    /// A request for the devices, which are not all known yet.
    case waiting(ReceivedRequest)
    case connecting(Connecting)
    /// The device has accepted; the Result must leave before the stream begins.
    case granted(Device, DevicePort)
    /// Is told what happens to devices.
    case listening(Listening)
    case relaying(StreamRelay, Device, DevicePort, since: Int64)
    /// Takes its last answer.
    case ending
    case over
  }

  /// The stream of a state that is `granted`.
  private var channel: DeviceChannel?

  init(_ identifier: UInt64, socket: consuming Descriptor, isUnix: Bool, server: ServerState) {
    self.identifier = identifier
    self.isUnix = isUnix
    self.server = server
    decoder = FrameDecoder(limit: server.options.limits.requestBytes)
    self.socket = consume socket
  }

  func start() {
    guard let number = socket?.number else { return }
    do throws(SystemError) {
      watcher = try Watcher(number, on: server.hub.loop, handler: self)
    } catch {
      server.hub.log.limited(.warning, topic: "watch", connection: identifier, "\(error)")
      end()
    }
  }

  private func log(_ level: LogLevel, _ message: @autoclosure () -> String) {
    server.hub.log.write(level, connection: identifier, message())
  }

  /// Set while it listens.
  var listener: Listening? {
    if case .listening(let listening) = state { listening } else { nil }
  }

  var isRelaying: Bool {
    if case .relaying = state { true } else { false }
  }

  // MARK: Events

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    if readiness.contains(.hangUp) { hungUp = true }
    if readiness.contains(.broken) { isBroken = true }
    if readiness.contains(.write) {
      flush()
      outputMoved()
    }
    if readiness.contains(.read) { receive() }
    leaveIfGone()
  }

  func resume() {
    isScheduled = false
    receive()
    leaveIfGone()
  }

  /// A program that disconnects while it waits for an answer takes the request back. One that has just ended
  /// its sending side still wants the answer.
  private func leaveIfGone() {
    switch state {
    case .waiting, .connecting: break
    case .commands, .granted, .listening, .relaying, .ending, .over: return
    }
    guard let number = socket?.number, isBroken || (hungUp && server.hub.resources.presence.isGone(number))
    else { return }
    log(.info, "the program left before it had its answer")
    end()
  }

  // MARK: Input

  private var reads: Bool {
    switch state {
    case .commands: output.isEmpty
    case .listening: true
    case .waiting, .connecting, .granted, .relaying, .ending, .over: false
    }
  }

  private func receive() {
    guard let number = socket?.number else { return }
    var left = Self.slice
    while reads {
      guard left > 0 else { return schedule() }
      left -= 1
      do throws(FrameError) {
        if let frame = try decoder.nextFrame() {
          take(frame)
          continue
        }
      } catch {
        log(.info, "\(error)")
        return end()
      }
      switch decoder.fill(from: number) {
      case .bytes: break
      case .wouldBlock:
        watcher?.wait(for: .read)
        return
      case .end: return finish()
      case .failed: return end()
      }
    }
  }

  private func schedule() {
    guard !isScheduled else { return }
    isScheduled = true
    server.hub.loop.resume(self)
  }

  private func take(_ frame: Frame) {
    if case .listening = state {
      // As usbmuxd does: a listener has nothing to ask for, and programs rely on the end.
      answer(.result(.badCommand), frame.dialect, frame.tag)
      return finish()
    }
    do throws(RequestError) {
      perform(try ClientRequest.decode(frame))
    } catch {
      log(.debug, "bad request: \(error)")
      answer(.result(error.result), error.dialect, error.tag)
    }
  }

  private func perform(_ received: ReceivedRequest) {
    switch received.request {
    case .listen, .listDevices:
      guard !server.hub.transport.isReady else { return answerDevices(received) }
      state = .waiting(received)
      server.hub.whenReady { [weak self] in self?.devicesAreKnown() }
    case .listListeners: answer(.listenerList(server.listenerRecords), to: received)
    case .connect(let device, let port): connect(device, port, received)
    case .readBUID: answer(.buid(server.records.systemIdentity()), to: received)
    case .readPairRecord(let record):
      answer(to: received) { () throws(SystemError) in .pairRecord(try server.records.read(record)) }
    case .savePairRecord(let record, let data, let device):
      answer(to: received) { () throws(SystemError) in
        try server.records.save(data, as: record)
        log(.info, "pair record \(record) is saved")
        return .result(.ok)
      } andThen: {
        server.paired(record, device: device)
      }
    case .deletePairRecord(let record):
      answer(to: received) { () throws(SystemError) in
        try server.records.delete(record)
        log(.info, "pair record \(record) is deleted")
        return .result(.ok)
      }
    }
  }

  private func devicesAreKnown() {
    guard case .waiting(let received) = state else { return }
    state = .commands
    answerDevices(received)
    receive()
  }

  private func answerDevices(_ received: ReceivedRequest) {
    guard case .listen = received.request else {
      return answer(.deviceList(server.devices.records), to: received)
    }
    // The Result and the devices that are there leave in one piece: programs have been seen to take a pause
    // for the end of the list.
    queue(.result(.ok), received.dialect, received.tag)
    for record in server.devices.records where record.isUSB || received.dialect == .propertyList {
      queue(.attached(record), received.dialect, 0)
    }
    state = .listening(Listening(info: received.info, dialect: received.dialect))
    flush()
  }

  // MARK: Output

  private func queue(_ message: DaemonMessage, _ dialect: Dialect, _ tag: UInt32) {
    do throws(EncodingError) {
      output.append(EncodedFrame(try message.frame(tag: tag, dialect: dialect)))
    } catch {
      log(.warning, "an answer cannot be written: \(error)")
    }
  }

  private func answer(_ message: DaemonMessage, _ dialect: Dialect, _ tag: UInt32) {
    queue(message, dialect, tag)
    flush()
  }

  private func answer(_ message: DaemonMessage, to received: ReceivedRequest) {
    answer(message, received.dialect, received.tag)
  }

  private func answer(
    to received: ReceivedRequest, _ work: () throws(SystemError) -> DaemonMessage, andThen: () -> Void = {}
  ) {
    do throws(SystemError) {
      answer(try work(), to: received)
      andThen()
    } catch {
      answer(.result(ResultCode(error)), to: received)
    }
  }

  /// Tells a listener what happened. One that does not read is given up before it costs much.
  func tell(_ frame: EncodedFrame) {
    guard case .listening = state else { return }
    output.append(frame)
    flush()
    guard output.count > server.options.limits.queuedBytes else { return }
    server.hub.log.limited(
      .warning, topic: "\(server.identifier) slow", connection: identifier,
      "a program listens for devices and does not read: it is disconnected")
    end()
  }

  private func flush() {
    guard let number = socket?.number, !output.isEmpty else { return }
    switch output.send(to: number) {
    case .done: break
    case .waits: watcher?.wait(for: .write)
    case .failed: end()
    }
  }

  /// Some of what was queued has left.
  private func outputMoved() {
    guard output.isEmpty else { return }
    switch state {
    case .granted(let device, let port):
      if let channel = channel.take() { relay(to: device, port, over: channel) }
    case .ending: end()
    case .commands: receive()
    case .waiting, .connecting, .listening, .relaying, .over: break
    }
  }

  // MARK: Streams

  private func connect(_ id: DeviceID, _ port: DevicePort, _ received: ReceivedRequest) {
    guard let device = server.devices.device(id) else { return answer(.result(.badDevice), to: received) }
    // The transport may answer before `open` returns.
    state = .connecting(Connecting(request: received, device: device, port: port))
    // Readability tells a program that leaves, too.
    watcher?.wait(for: .read)
    let hub = server.hub
    let attempt = hub.transport.open(
      device, port: port, timeout: server.options.connectTimeout.nanosecondsOfLoop, self)
    guard case .connecting(var connecting) = state else { return }
    connecting.attempt = attempt
    state = .connecting(connecting)
  }

  func opened(_ channel: consuming DeviceChannel) {
    guard case .connecting(let connecting) = state else { return channel.discard() }
    state = .granted(connecting.device, connecting.port)
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
  private func refuse(_ connecting: Connecting, _ error: OpenError) {
    server.hub.statistics.failed(error.cause, resets: false)
    log(.info, "\(connecting.device.udid):\(connecting.port): \(error.cause)")
    state = .commands
    answer(.result(error.result), to: connecting.request)
    // Not at once: this may be a call from within `receive`.
    schedule()
  }

  private func relay(to device: Device, _ port: DevicePort, over channel: consuming DeviceChannel) {
    guard let socket = socket.take() else { return channel.discard() }
    // The relay's own watcher is told anew that a program is gone altogether.
    watcher.drop()
    var times = RelayTimes()
    times.halfClose = server.options.halfCloseTimeout.nanosecondsOfLoop
    let relay = StreamRelay(
      identifier, client: socket, clientIsUnix: isUnix, clientWatcher: nil, to: device, over: channel,
      times: times, hub: server.hub
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

  /// For a status; nil when it has no stream.
  func status(at now: Int64, _ moved: MovedBytes) -> MuxStatus.ConnectionStatus? {
    guard case .relaying(let relay, let device, let port, let since) = state else { return nil }
    let bytes = relay.delivered(moved)
    return MuxStatus.ConnectionStatus(
      identifier: identifier, forward: nil, udid: device.udid, port: port, state: .open,
      age: .nanoseconds(now - since), sent: bytes.sent, received: bytes.received)
  }

  // MARK: Ends

  /// A device of the transport is gone.
  func deviceLost(_ device: Device) {
    switch state {
    case .connecting(let connecting) where connecting.device.id == device.id:
      connecting.attempt?.cancel()
      refuse(connecting, .failed(.deviceGone))
    case .granted(let granted, _) where granted.id == device.id: end()
    case .relaying(let relay, let relayed, _, _) where relayed.id == device.id: relay.deviceLost()
    case .commands, .waiting, .connecting, .granted, .listening, .relaying, .ending, .over: break
    }
  }

  /// tunneld ends it.
  func stop() {
    if case .relaying(let relay, _, _, _) = state { relay.stop() } else { end() }
  }

  /// Lets it take what is queued, then ends it.
  private func finish() {
    switch state {
    case .ending, .over: return
    case .commands, .waiting, .connecting, .granted, .listening, .relaying: break
    }
    guard !output.isEmpty else { return end() }
    state = .ending
    deadline = LoopTimer(on: server.hub.loop) { [unowned self] in end() }
    deadline?.set(after: Self.farewell)
  }

  private func end() {
    if case .over = state { return }
    if case .connecting(let connecting) = state { connecting.attempt?.cancel() }
    state = .over
    watcher.drop()
    deadline = nil
    if let channel = channel.take() { channel.discard() }
    socket = nil
    server.ended(self)
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
