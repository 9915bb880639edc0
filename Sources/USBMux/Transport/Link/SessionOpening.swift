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
    let opened = OpenedSession(link, session)
    link.hand(session, to: opened)
    handler.opened(.session(opened))
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

/// An open session that nobody has taken over yet: what the device sends is kept, and acknowledged later.
final class OpenedSession: SessionUser {
  let link: LinkDriver
  let session: SessionID
  private var held: HeldBytes
  private var isOver = false
  private var end: SessionEnd?

  init(_ link: LinkDriver, _ session: SessionID) {
    self.link = link
    self.session = session
    held = HeldBytes(link.heldPool)
  }

  /// Makes `relay` the session's user, with what was kept for it.
  func hand(over relay: SessionRelay) {
    link.hand(session, to: relay)
    unsafe held.take { bytes in
      _ = unsafe relay.sessionReceived(bytes)
      return bytes.count
    }
    if isOver { relay.sessionEnded(end) }
  }

  func discard() { if !isOver { link.close(session) } }

  func sessionOpened() {}

  func sessionRefused(_ reason: String) { sessionEnded(nil) }

  func sessionReceived(_ bytes: UnsafeRawBufferPointer) -> Int {
    unsafe held.append(bytes)
    return 0
  }

  func sessionFill(_ buffer: UnsafeMutableRawPointer, atMost limit: Int) -> Int { 0 }

  func sessionEnded(_ end: SessionEnd?) {
    isOver = true
    self.end = end
  }
}
