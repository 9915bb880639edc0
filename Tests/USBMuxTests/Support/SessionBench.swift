import EventLoop
import Foundation
import SimulatedPhone

@testable import MuxProtocol
@testable import USBMux

/// Relays between clients that the test plays and sessions of a simulated phone, on a loop thread.
final class SessionBench: LinkOwner, RelayOwner, @unchecked Sendable {
  let thread: LoopThread
  private var resources: RelayResources?
  private(set) var link: LinkDriver?
  private var box: PhoneBox?
  private var relays: [UInt64: SessionRelay] = [:]
  private var openings: [UInt64: Opening] = [:]
  private var lastIdentifier: UInt64 = 0
  private let isUp = Box(false)
  let failure = Box<String?>(nil)
  let summaries = Box<[UInt64: RelaySummary]>([:])

  init(
    behaviour: PhoneBehaviour = PhoneBehaviour(), ports: [UInt16: PhonePort] = SimulatedPhone.usualPorts,
    servers: [UInt16: UInt16] = [:]
  ) throws {
    thread = try LoopThread()
    let loop = thread.loop
    let addresses = try servers.mapValues { try required(SocketAddress(host: "127.0.0.1", port: $0)) }
    try thread.run { [self] in
      resources = RelayResources(loop: loop)
      let box = PhoneBox(behaviour: behaviour, ports: ports, servers: addresses, on: loop)
      self.box = box
      let log = Log(level: .debug, on: loop, handler: nil)
      let link = LinkDriver(pipe: PhonePipe(box, on: loop), on: loop, log: log, name: "test", owner: self)
      self.link = link
      link.start()
    }
    try eventually("the link is up") { isUp.value }
  }

  func tearDown() {
    _ = try? thread.run { [self] in
      for relay in relays.values { relay.stop() }
      link?.stop()
      relays = [:]
      openings = [:]
      link = nil
      box = nil
      resources = nil
    }
  }

  /// Opens a session and joins it to a client; returns the client's end and the relay's number.
  func open(
    _ port: UInt16, client kind: RelayBench.Kind = .tcp, times: RelayTimes = RelayTimes()
  ) throws -> (Peer, UInt64) {
    let (number, client) = try kind.make()
    let result = Box<Result<UInt64, MuxError>?>(nil)
    try thread.run { [self] in
      guard let link else { return }
      lastIdentifier += 1
      let identifier = lastIdentifier
      let opening = Opening { [self] outcome in
        openings[identifier] = nil
        switch outcome {
        case .success(let opened):
          guard let resources else { return }
          let relay = SessionRelay(
            identifier: identifier, client: Descriptor(owning: number), clientIsUnix: kind == .unix,
            link: opened.link, session: opened.session, times: times, resources: resources, owner: self)
          relays[identifier] = relay
          opened.hand(over: relay)
          relay.start()
          result.value = .success(identifier)
        case .failure(let error):
          close(number)
          result.value = .failure(error)
        }
      }
      openings[identifier] = opening
      opening.attempt = try SessionOpening(
        link, port: USBMuxTests.port(port), on: thread.loop, timeout: 5_000_000_000, opening)
    }
    try eventually("the device answers") { result.value != nil }
    return (client, try required(result.value).get())
  }

  private final class Opening: OpenHandler {
    private let done: (Result<OpenedSession, MuxError>) -> Void
    var attempt: SessionOpening?
    init(_ done: @escaping (Result<OpenedSession, MuxError>) -> Void) { self.done = done }

    func opened(_ channel: consuming DeviceChannel) {
      switch consume channel {
      case .session(let opened): done(.success(opened))
      case .socket: done(.failure(.closed))
      }
    }

    func openFailed(_ error: OpenError) {
      if case .failed(let error) = error { done(.failure(error)) } else { done(.failure(.deviceGone)) }
    }
  }

  func onRelay(_ identifier: UInt64, _ body: @escaping (SessionRelay) -> Void) throws {
    try thread.run { [self] in if let relay = relays[identifier] { body(relay) } }
  }

  func summary(_ identifier: UInt64) throws -> RelaySummary {
    try eventually("the relay ends") { summaries.value[identifier] != nil }
    return try required(summaries.value[identifier])
  }

  var sessionCount: Int { (try? thread.run { [self] in link?.sessionCount ?? 0 }) ?? -1 }

  func linkIsUp(_ link: LinkDriver, _ version: MuxVersion) { isUp.value = true }
  func linkFailed(_ link: LinkDriver, _ reason: String) { failure.value = reason }
  func relayNeedsVerdict(_ relay: SocketRelay) {}
  func relayIsBulk(_ relay: SocketRelay) {}

  func relayEnded(_ relay: any Relay, _ summary: RelaySummary) {
    summaries.change { $0[relay.identifier] = summary }
    relays[relay.identifier] = nil
  }
}
