internal import EventLoop

/// A stream to a device on the network: TCP to its address, since daemons do not carry these.
final class NetworkConnect: OpenAttempt, Resumable {
  private let port: DevicePort
  private let timeout: Int64
  private var connector: SocketConnector?
  private weak var handler: (any OpenHandler)?
  private var socket: Descriptor?
  private var failure: SocketConnector.Failure?

  /// Starts to connect; what comes of it is told later, also where the system answered at once.
  init(
    _ address: NetworkAddress?, port: DevicePort, on loop: EventLoop, timeout: Int64,
    _ handler: any OpenHandler
  ) {
    self.port = port
    self.timeout = timeout
    self.handler = handler
    let target = address.flatMap { SocketAddress(host: $0.description, port: port.number) }
    connector = SocketConnector(to: target.map { [$0] } ?? [], on: loop, timeout: timeout) {
      [weak self] socket, failure in
      guard let self else { return }
      self.socket = consume socket
      self.failure = failure
      loop.resume(self)
    }
  }

  func cancel() {
    handler = nil
    connector?.cancel()
    connector = nil
    socket = nil
  }

  func resume() {
    connector = nil
    guard let handler else { return }
    self.handler = nil
    if let socket = socket.take() {
      handler.opened(.socket(socket, nil, epoch: nil))
    } else {
      handler.openFailed(.failed(error))
    }
  }

  private var error: MuxError {
    switch failure {
    case .system(let error) where error.isAbsence: .refused(port)
    case .system(let error) where error.isExhaustion: .system("no descriptor for a connection: \(error)")
    case .timeout: .timeout(what: "connecting to the device over the network", seconds: Double(timeout) / 1e9)
    case .system, .lookup, nil: .deviceGone
    }
  }
}

/// An attempt that failed before it began; its handler hears of it a little later, as of any other.
final class FailedAttempt: OpenAttempt, Resumable {
  private weak var handler: (any OpenHandler)?
  private let error: OpenError

  init(_ error: OpenError, on loop: EventLoop, _ handler: any OpenHandler) {
    self.error = error
    self.handler = handler
    loop.resume(self)
  }

  func cancel() { handler = nil }

  func resume() { handler?.openFailed(error) }
}
