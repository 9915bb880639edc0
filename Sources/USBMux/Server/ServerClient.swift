internal import EventLoop

/// A program that talks to the server, from its first request to the end of the stream that it may get.
///
/// Requests are read one at a time, and not one byte beyond each: what follows a Connect belongs to the
/// device. The next one is read when the answer to the last one is with the kernel, so a program that does not
/// read costs no memory.
///
/// `ServerClient+Requests` answers them, `ServerClient+Streams` has what follows a Connect.
final class ServerClient: ReadinessHandler, Resumable {
  /// Stands in all lines of the log that are about this client.
  let identifier: UInt64
  let isUnix: Bool
  unowned let server: ServerState
  var socket: Descriptor?
  var watcher: Watcher?
  private var decoder: FrameDecoder
  var output = OutputQueue()
  var state = State.commands
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

  struct Connecting {
    let request: ReceivedRequest
    let device: Device
    let port: DevicePort
    var attempt: (any OpenAttempt)?
  }

  enum State {
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
  var channel: DeviceChannel?
  /// Until the relay has it.
  var tap: StreamTap?

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

  func log(_ level: LogLevel, _ message: @autoclosure () -> String) {
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

  func receive() {
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

  func schedule() {
    guard !isScheduled else { return }
    isScheduled = true
    server.hub.loop.resume(self)
  }

  // MARK: Output

  func queue(_ message: DaemonMessage, _ dialect: Dialect, _ tag: UInt32) {
    do throws(EncodingError) {
      output.append(EncodedFrame(try message.frame(tag: tag, dialect: dialect)))
    } catch {
      log(.warning, "an answer cannot be written: \(error)")
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

  func flush() {
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

  // MARK: Status

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
  func finish() {
    switch state {
    case .ending, .over: return
    case .commands, .waiting, .connecting, .granted, .listening, .relaying: break
    }
    guard !output.isEmpty else { return end() }
    state = .ending
    deadline = LoopTimer(on: server.hub.loop) { [unowned self] in end() }
    deadline?.set(after: Self.farewell)
  }

  func end() {
    if case .over = state { return }
    if case .connecting(let connecting) = state { connecting.attempt?.cancel() }
    state = .over
    tap.take()?.abandoned()
    watcher.drop()
    deadline = nil
    if let channel = channel.take() { channel.discard() }
    socket = nil
    server.ended(self)
  }
}
