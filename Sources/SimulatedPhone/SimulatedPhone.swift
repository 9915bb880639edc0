/// Who serves a port of a simulated phone.
package enum PhonePort: Sendable {
  /// Sends back what it is sent.
  case echo
  /// Takes in everything.
  case discard
  /// Sends printable characters without end.
  case characterGenerator
  /// A small HTTP server.
  case http
  /// A minimal lockdownd.
  case lockdown(udid: String)
  /// Any other built-in server: one is made for each session.
  case service(@Sendable () -> any PhoneService)
  /// The caller: it meets ``PhoneEvent``s and answers them.
  case external

  fileprivate func makeService() -> (any PhoneService)? {
    switch self {
    case .echo: EchoService()
    case .discard: DiscardService()
    case .characterGenerator: CharacterGeneratorService()
    case .http: HTTPService()
    case .lockdown(let udid): LockdownService(udid: udid)
    case .service(let make): make()
    case .external: nil
    }
  }
}

/// A phone with servers on some of its ports, behind its end of the USB link.
///
/// OUT transfers go in, IN transfers come out. Ports without an entry are refused, as by a phone on
/// which no app listens. Events come for external ports only.
package struct SimulatedPhone: ~Copyable, Sendable {
  private var link: PhoneLink
  private let ports: [UInt16: PhonePort]
  private var services: [(any PhoneService)?] = []
  private var events = PhoneEventQueue()

  package init(behaviour: PhoneBehaviour = PhoneBehaviour(), ports: [UInt16: PhonePort] = Self.usualPorts) {
    link = PhoneLink(behaviour: behaviour)
    self.ports = ports
  }

  /// Echo on 7, discard on 9, characters on 19, HTTP on 8765.
  package static let usualPorts: [UInt16: PhonePort] = [
    7: .echo, 9: .discard, 19: .characterGenerator, 8765: .http,
  ]

  /// How the phone behaves.
  package var behaviour: PhoneBehaviour { link.behaviour }
  /// What the host did wrong.
  package var violations: ViolationLog { link.violations }
  /// Segments for sessions that did not exist (any more).
  package var strangers: Int { link.strangers }
  /// Sessions that exist.
  package var sessionCount: Int { link.sessionCount }

  /// Takes one OUT transfer, exactly as it was submitted; an empty one is a zero-length packet.
  package mutating func receive(_ transfer: Span<UInt8>) {
    link.receive(transfer)
    serve()
  }

  /// Whether ``nextTransfer(into:)`` has something.
  package var hasTransfers: Bool { link.hasTransfers }

  /// Appends the next IN transfer, at most ``PhoneBehaviour/readPieceSize`` bytes and at most what
  /// there is room for; false when there is nothing to send.
  package mutating func nextTransfer(into output: inout OutputSpan<UInt8>) -> Bool {
    let result = link.nextTransfer(into: &output)
    serve()
    return result
  }

  /// What happened next to sessions of external ports, or nil.
  package mutating func nextEvent() -> PhoneEvent? { events.next() }

  /// The server behind an external port listens.
  package mutating func accept(_ session: PhoneSessionID) {
    link.accept(session)
  }

  /// Nobody listens behind an external port.
  package mutating func refuse(_ session: PhoneSessionID, reason: String = "") {
    link.refuse(session, reason: reason)
  }

  /// Lets `body` see what the host sent, if anything; it returns how many bytes it took, which makes
  /// room in the window.
  package mutating func read(_ session: PhoneSessionID, _ body: (Span<UInt8>) -> Int) {
    link.read(session, body)
  }

  /// Writes bytes for the host and returns how many of them were taken. If not all,
  /// ``PhoneEvent/writable(_:)`` follows.
  package mutating func write(_ session: PhoneSessionID, _ bytes: Span<UInt8>) -> Int {
    link.write(session, bytes)
  }

  /// Ends a session behind everything that was written. No event about it follows.
  package mutating func close(_ session: PhoneSessionID) {
    link.close(session)
  }

  /// Lets the built-in servers do what they can.
  private mutating func serve() {
    while let event = link.nextEvent() {
      switch event {
      case .opening(let session, let port):
        open(session, port: port)
      case .readable(let session), .writable(let session):
        if hasService(session) { run(session) } else { events.append(event) }
      case .closed(let session, _):
        if hasService(session) { services[session.index] = nil } else { events.append(event) }
      }
    }
  }

  private func hasService(_ session: PhoneSessionID) -> Bool {
    session.index < services.count && services[session.index] != nil
  }

  private mutating func open(_ session: PhoneSessionID, port: UInt16) {
    while services.count <= session.index { services.append(nil) }
    guard let owner = ports[port] else { return link.refuse(session, reason: "") }
    services[session.index] = owner.makeService()
    guard services[session.index] != nil else {
      return events.append(.opening(session, port: port))
    }
    link.accept(session)
    run(session)
  }

  /// Feeds a server and collects what it says, until neither goes on.
  private mutating func run(_ session: PhoneSessionID) {
    guard var service = services[session.index] else { return }
    // The server is taken out while it runs, so that its storage has one owner.
    services[session.index] = nil
    var progress = true
    while progress {
      progress = false
      link.read(session) { bytes in
        let count = service.receive(bytes)
        progress = count > 0
        return count
      }
      link.write(session) { output, limit in
        guard limit > 0 else { return }
        let before = output.count
        service.produce(into: &output, limit: limit)
        if output.count > before { progress = true }
      }
    }
    if service.isFinished {
      link.close(session)
    } else {
      services[session.index] = service
    }
  }
}
