internal import EventLoop

/// A session that the device has been asked for.
final class SessionOpening: OpenAttempt, SessionUser {
  private let link: LinkDriver
  private let port: DevicePort
  private let timeout: Int64
  private weak var handler: (any OpenHandler)?
  private var session: SessionID?
  private var timer: LoopTimer?

  /// Asks for a session; what comes of it is told later.
  init(_ link: LinkDriver, port: DevicePort, on loop: EventLoop, timeout: Int64, _ handler: any OpenHandler)
    throws(MuxError)
  {
    self.link = link
    self.port = port
    self.timeout = timeout
    self.handler = handler
    session = try link.open(port, for: self)
    timer = LoopTimer(on: loop) { [unowned self] in
      let seconds = Double(timeout) / 1e9
      fail(.timeout(what: "the device's answer on port \(port)", seconds: seconds), closes: true)
    }
    timer?.set(after: timeout)
  }

  func cancel() {
    handler = nil
    fail(.closed, closes: true)
  }

  func sessionOpened() {
    guard let session else { return }
    self.session = nil
    timer = nil
    guard let handler else { return link.close(session) }
    handler.opened(.session(link, session))
  }

  func sessionRefused(_ reason: String) { fail(.refused(port), closes: false) }

  func sessionReceived(_ bytes: UnsafeRawBufferPointer) -> Int { bytes.count }

  func sessionFill(_ buffer: UnsafeMutableRawPointer, atMost limit: Int) -> Int { 0 }

  func sessionEnded(_ end: SessionEnd?) {
    switch end {
    case .connectTimeout:
      fail(
        .timeout(what: "the device's answer on port \(port)", seconds: Double(timeout) / 1e9), closes: false)
    case .violated(let violation): fail(.protocolViolation("the device: \(violation)"), closes: false)
    case .resetByDevice, .finished, nil: fail(.deviceGone, closes: false)
    }
  }

  private func fail(_ error: MuxError, closes: Bool) {
    guard let session else { return }
    self.session = nil
    timer = nil
    if closes { link.close(session) }
    handler?.openFailed(.failed(error))
  }
}
