internal import CSystem
internal import EventLoop

/// Gives a caller of the library a descriptor for a session of a link in this process, and remembers how the
/// session ended, which a socket cannot tell.
final class StreamBridge: RelayOwner {
  /// How the relay ended.
  private var relayEnd = DeviceEnd.reset
  private var relay: SessionRelay?
  private var callerIsGone = false

  init(
    _ identifier: UInt64, _ socket: consuming Descriptor, _ opened: OpenedSession, _ resources: RelayResources
  ) {
    let relay = SessionRelay(
      identifier: identifier, client: socket, clientIsUnix: true, link: opened.link,
      session: opened.session, times: RelayTimes(), resources: resources, owner: self)
    self.relay = relay
    opened.hand(over: relay)
    relay.start()
  }

  /// How the device's side ended, as the caller was shown: a relay that has shown a clean end still waits for the
  /// caller's own.
  var end: DeviceEnd { relay?.hasShownEnd == true ? .clean : relayEnd }

  /// Whether nobody needs it any more: the caller asks nothing, and what it sent is delivered.
  var isDone: Bool { callerIsGone && relay == nil }
  /// Called when it is done.
  var done: () -> Void = {}

  func callerLeaves() {
    callerIsGone = true
    if isDone { done() }
  }

  func relayNeedsVerdict(_ relay: SocketRelay) {}

  func relayIsBulk(_ relay: SocketRelay) {}

  func relayEnded(_ relay: any Relay, _ summary: RelaySummary) {
    relayEnd = summary.reason == .deviceLost || summary.reason == .stopped ? .reset : .clean
    self.relay = nil
    if isDone { done() }
  }
}

/// Two connected Unix sockets.
struct SocketPair: ~Copyable {
  let first: Descriptor
  let second: Descriptor

  init() throws(MuxError) {
    var ends: (CInt, CInt) = (-1, -1)
    let status = unsafe withUnsafeMutablePointer(to: &ends) {
      unsafe $0.withMemoryRebound(to: CInt.self, capacity: 2) { unsafe cs_socketpair($0) }
    }
    guard status == 0 else { throw .system("no socket pair: \(SystemError.last("socketpair").message)") }
    first = Descriptor(owning: ends.0)
    second = Descriptor(owning: ends.1)
  }

  consuming func split() -> (CInt, CInt) { (first.release(), second.release()) }
}
