internal import EventLoop

/// A stream to a device on the network: TCP to its address, since daemons do not carry these.
final class NetworkConnect: OpenAttempt {
  private var connector: SocketConnector?
  private weak var handler: (any OpenHandler)?

  init(
    _ address: NetworkAddress?, port: DevicePort, on loop: EventLoop, timeout: Int64,
    _ handler: any OpenHandler
  ) {
    self.handler = handler
    let target = address.flatMap { SocketAddress(host: $0.description, port: port.number) }
    connector = SocketConnector(to: target.map { [$0] } ?? [], on: loop, timeout: timeout) {
      [weak self] socket, failure in
      guard let self else { return }
      connector = nil
      guard let handler = self.handler else { return }
      if let socket = consume socket {
        handler.opened(.socket(socket, nil, epoch: nil))
      } else {
        handler.openFailed(.failed(Self.error(failure, port, timeout)))
      }
    }
  }

  func cancel() {
    handler = nil
    connector?.cancel()
    connector = nil
  }

  private static func error(_ failure: SocketConnector.Failure?, _ port: DevicePort, _ timeout: Int64)
    -> MuxError
  {
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
