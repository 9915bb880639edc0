internal import EventLoop

/// One request to a daemon and its reply, on a connection of its own.
///
/// It reads no byte beyond the reply: after a Connect the stream begins there.
final class DaemonExchange: ReadinessHandler, OpenAttempt, Resumable {
  /// The reply, and the connection with its watcher for what comes next.
  typealias Completion = (Result<DaemonMessage, MuxError>, consuming Descriptor?, Watcher?) -> Void

  private let loop: EventLoop
  private let address: DaemonAddress
  private let request: EncodedFrame
  private let timeout: Int64
  private let memory: AnswerMemory
  private var completion: Completion?
  private var connector: SocketConnector?
  private var socket: Descriptor?
  private var watcher: Watcher?
  private var deadline: LoopTimer?
  private var sent = 0
  private var isStarting = true
  private var early: Result<DaemonMessage, MuxError>?
  private var decoder = FrameDecoder(limit: FrameLimit.reply)

  /// Starts the exchange. `completion` is called once, never from within this call.
  init(
    _ request: EncodedFrame, with address: DaemonAddress, on loop: EventLoop, timeout: Int64,
    memory: AnswerMemory, _ completion: @escaping Completion
  ) {
    self.loop = loop
    self.address = address
    self.request = request
    self.timeout = timeout
    self.memory = memory
    self.completion = completion
    connect()
    isStarting = false
    // What failed at once is told later, like everything else.
    if early != nil { loop.resume(self) }
  }

  func resume() {
    if let early { finish(early) }
  }

  func cancel() {
    completion = nil
    release()
    connector?.cancel()
    connector = nil
    socket = nil
  }

  private func connect() {
    deadline = LoopTimer(on: loop) { [unowned self] in
      finish(.failure(.timeout(what: "the answer of usbmuxd", seconds: Double(timeout) / 1e9)))
    }
    deadline?.set(after: timeout)
    connector = SocketConnector(to: address, on: loop, timeout: timeout) { [weak self] socket, failure in
      guard let self else { return }
      connector = nil
      if let failure { return finish(.failure(MuxError(failure, at: address, seconds: timeout))) }
      self.socket = consume socket
      begin()
    }
  }

  private func begin() {
    guard let number = socket?.number else { return }
    do throws(SystemError) {
      watcher = try Watcher(number, on: loop, handler: self)
    } catch {
      return finish(.failure(.system(error.description)))
    }
    send(number)
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    guard let number = socket?.number else { return }
    if sent < request.bytes.count {
      if readiness.contains(.write) { send(number) }
      // A daemon that ends before it has read the request has still something to say.
      if readiness.contains(.hangUp) { receive(number) }
    } else {
      receive(number)
    }
  }

  private func send(_ number: CInt) {
    while sent < request.bytes.count {
      let moved = unsafe request.bytes.withUnsafeBytes { bytes -> Transfer in
        guard let start = bytes.baseAddress else { return .wouldBlock }
        return unsafe Socket.send(number, from: start + sent, count: bytes.count - sent)
      }
      switch moved {
      case .bytes(let count): sent += count
      case .wouldBlock, .end: return wait(for: .write)
      case .failed(let error): return finish(.failure(.noDaemon(at: address, error)))
      }
    }
    wait(for: .read)
  }

  private func wait(for interest: Readiness) { watcher?.wait(for: interest) }

  private func receive(_ number: CInt) {
    while completion != nil {
      do throws(FrameError) {
        if let frame = try decoder.nextFrame() { return decode(frame) }
      } catch {
        return finish(.failure(.protocolViolation("usbmuxd: \(error)")))
      }
      switch decoder.fill(from: number) {
      case .bytes: break
      case .wouldBlock: return wait(for: .read)
      case .end:
        return finish(.failure(.protocolViolation("usbmuxd ended the connection without an answer")))
      case .failed(let error): return finish(.failure(.noDaemon(at: address, error)))
      }
    }
  }

  private func decode(_ frame: Frame) {
    guard frame.tag == request.tag else {
      return finish(
        .failure(.protocolViolation("usbmuxd answered request \(request.tag) as \(frame.tag)")))
    }
    do throws(MessageError) {
      finish(.success(try memory.decode(frame)))
    } catch {
      finish(.failure(.protocolViolation("usbmuxd: \(error)")))
    }
  }

  private func finish(_ result: Result<DaemonMessage, MuxError>) {
    guard let completion else { return }
    if isStarting {
      early = result
      return
    }
    self.completion = nil
    deadline = nil
    connector?.cancel()
    connector = nil
    let watcher = watcher
    self.watcher = nil
    completion(result, socket.take(), watcher)
    // Nobody wanted it: the socket is closed by now.
    if watcher?.handler === self { watcher?.cancelBeforeClose() }
  }

  private func release() {
    watcher.drop()
    deadline = nil
  }
}

extension MuxError {
  /// A connection to a daemon that failed.
  static func noDaemon(at address: DaemonAddress, _ error: SystemError) -> MuxError {
    if error.isPermission {
      return .permissionDenied(
        what: "\(address)", remedy: "join the group that owns the socket, or run as its owner")
    }
    if error.isExhaustion { return .system("no descriptor for a connection to usbmuxd: \(error)") }
    return .noDaemon(address: "\(address)", reason: error.message)
  }

  init(_ failure: SocketConnector.Failure, at address: DaemonAddress, seconds timeout: Int64) {
    self =
      switch failure {
      case .system(let error): .noDaemon(at: address, error)
      case .timeout: .timeout(what: "connecting to usbmuxd at \(address)", seconds: Double(timeout) / 1e9)
      case .lookup(let reason): .noDaemon(address: "\(address)", reason: reason)
      }
  }
}
