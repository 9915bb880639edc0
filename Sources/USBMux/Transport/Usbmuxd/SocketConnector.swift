internal import EventLoop

/// Connects one socket without blocking: to the first address that answers, in time.
final class SocketConnector: ReadinessHandler {
  enum Failure: Error, Equatable {
    case system(SystemError)
    case timeout
    /// The host name could not be looked up.
    case lookup(String)
  }

  /// A Unix listener with a full backlog answers EAGAIN: the time to the next try, nanoseconds.
  private static let backlogPause: Int64 = 1_000_000

  private let loop: EventLoop
  private let done: (consuming Descriptor?, Failure?) -> Void
  private var addresses: [SocketAddress]
  private var socket: Descriptor?
  private var watcher: Watcher?
  private var retry: LoopTimer?
  private var lookup: NameLookup?
  private var deadline: LoopTimer?
  private var lastError: SystemError?
  private var isDone = false

  /// Starts to connect to `addresses`, one after the other. `done` is called once, perhaps at once.
  init(
    to addresses: [SocketAddress], on loop: EventLoop, timeout: Int64,
    _ done: @escaping (consuming Descriptor?, Failure?) -> Void
  ) {
    self.loop = loop
    self.addresses = addresses
    self.done = done
    next()
    if !isDone { startDeadline(timeout) }
  }

  /// Starts to connect to a daemon.
  convenience init(
    to daemon: DaemonAddress, on loop: EventLoop, timeout: Int64,
    _ done: @escaping (consuming Descriptor?, Failure?) -> Void
  ) {
    switch daemon {
    case .unix(let path):
      let address = SocketAddress(path: path)
      self.init(to: address.map { [$0] } ?? [], on: loop, timeout: timeout, done)
    case .tcp(let host, let port):
      if let address = SocketAddress(host: host, port: port) {
        self.init(to: [address], on: loop, timeout: timeout, done)
      } else {
        self.init(lookingUp: host, port: port, on: loop, timeout: timeout, done)
      }
    }
  }

  private init(
    lookingUp host: String, port: UInt16, on loop: EventLoop, timeout: Int64,
    _ done: @escaping (consuming Descriptor?, Failure?) -> Void
  ) {
    self.loop = loop
    self.done = done
    addresses = []
    lookup = NameLookup(host, on: loop) { [weak self] result in
      guard let self, !isDone else { return }
      lookup = nil
      switch result {
      case .success(let hosts):
        addresses = hosts.compactMap { SocketAddress(host: $0, port: port) }
        next()
      case .failure(let error): finish(nil, .lookup(error.message))
      }
    }
    startDeadline(timeout)
  }

  func cancel() {
    isDone = true
    release()
    socket = nil
  }

  private func startDeadline(_ timeout: Int64) {
    deadline = LoopTimer(on: loop) { [unowned self] in finish(nil, .timeout) }
    deadline?.set(after: timeout)
  }

  private func next() {
    while !addresses.isEmpty {
      do throws(SystemError) {
        let address = addresses[0]
        let socket = try address.makeSocket()
        let error = SystemError(code: address.connect(socket.number), call: "connect")
        if error.code == 0 { return finish(socket, nil) }
        if error.isInProgress {
          watcher = try Watcher(socket.number, on: loop, handler: self)
          watcher?.wait(for: .write)
          self.socket = consume socket
          return
        }
        if error.isWouldBlock {
          retry = LoopTimer(on: loop) { [unowned self] in next() }
          retry?.set(after: Self.backlogPause)
          return
        }
        throw error
      } catch {
        lastError = error
        addresses.removeFirst()
      }
    }
    finish(nil, .system(lastError ?? SystemError.invalidAddress))
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    guard readiness.contains(.write), let number = socket?.number else { return }
    self.watcher.drop()
    let code = Socket.pendingError(number)
    if code == 0 { return finish(socket.take(), nil) }
    lastError = SystemError(code: code, call: "connect")
    socket = nil
    addresses.removeFirst()
    next()
  }

  private func finish(_ socket: consuming Descriptor?, _ failure: Failure?) {
    guard !isDone else { return }
    isDone = true
    release()
    done(socket, failure)
  }

  private func release() {
    watcher.drop()
    retry = nil
    deadline = nil
    lookup = nil
  }
}
