internal import EventLoop
internal import SimulatedPhone

/// A simulated phone and the servers of this machine that some of its ports lead to.
final class PhoneBox {
  private let loop: EventLoop
  private var phone: SimulatedPhone
  /// The servers behind external ports.
  private let servers: [UInt16: SocketAddress]
  private var bridges: [PhoneSessionID: LoopbackBridge] = [:]
  /// Those of sessions that are over, whose servers have not taken all yet.
  private var leaving: [PhoneSessionID: LoopbackBridge] = [:]
  /// The phone may have something to say.
  var changed: () -> Void = {}

  init(
    behaviour: PhoneBehaviour, ports: [UInt16: PhonePort], servers: [UInt16: SocketAddress],
    on loop: EventLoop
  ) {
    self.loop = loop
    self.servers = servers
    var ports = ports
    for port in servers.keys { ports[port] = .external }
    phone = SimulatedPhone(behaviour: behaviour, ports: ports)
  }

  var endpointPacketSize: Int { phone.behaviour.endpointPacketSize }

  func receive(_ transfer: Span<UInt8>) {
    phone.receive(transfer)
    serve()
  }

  /// The phone's next transfer; 0 when it has none.
  func nextTransfer(into buffer: UnsafeMutableRawBufferPointer) -> Int {
    var output = unsafe OutputSpan<UInt8>(buffer: buffer.bindMemory(to: UInt8.self), initializedCount: 0)
    _ = phone.nextTransfer(into: &output)
    let count = output.count
    serve()
    return count
  }

  private func serve() {
    while let event = phone.nextEvent() {
      switch event {
      case .opening(let session, let port):
        guard let server = servers[port] else {
          phone.refuse(session)
          continue
        }
        bridges[session] = LoopbackBridge(session, to: server, on: loop, phone: self)
      case .readable(let session): bridges[session]?.phoneHasBytes()
      case .writable(let session): bridges[session]?.phoneHasRoom()
      case .closed(let session, let unread):
        guard let bridge = bridges.removeValue(forKey: session) else { continue }
        leaving[session] = bridge
        bridge.finish(unread)
      }
    }
  }

  // MARK: Bridges

  func accept(_ session: PhoneSessionID) {
    phone.accept(session)
    changed()
  }

  func refuse(_ session: PhoneSessionID) {
    bridges[session] = nil
    phone.refuse(session)
    changed()
  }

  func read(_ session: PhoneSessionID, _ body: (Span<UInt8>) -> Int) {
    phone.read(session, body)
    changed()
  }

  func write(_ session: PhoneSessionID, _ bytes: Span<UInt8>) -> Int {
    let count = phone.write(session, bytes)
    changed()
    return count
  }

  /// A bridge of a session that is over has nothing left to do.
  func left(_ session: PhoneSessionID) { leaving[session] = nil }

  func close(_ session: PhoneSessionID) {
    bridges[session] = nil
    phone.close(session)
    changed()
  }
}
