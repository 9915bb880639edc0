/// Carries bytes between a client and a device, both ways at once. Lives on one loop thread at a time.
protocol Relay: AnyObject {
  /// The connection's number in the log.
  var identifier: UInt64 { get }
  /// Bytes delivered to the device and to the client so far.
  var delivered: (sent: UInt64, received: UInt64) { get }
  /// The device, or the way to it, is gone.
  func deviceLost()
  /// Ends it now: the client is reset unless it has already been shown the end.
  func stop()
}

/// What a relay asks of, and tells, the one who started it. Called on the relay's loop thread.
protocol RelayOwner: AnyObject {
  /// The device's stream is over; find out how, and call ``SocketRelay/deviceEndVerified(_:)``.
  func relayNeedsVerdict(_ relay: SocketRelay)
  /// The relay carries bulk data and could go on elsewhere: the owner may move it (``SocketRelay/detach()``).
  func relayIsBulk(_ relay: SocketRelay)
  /// A relay that was bulk carries small messages now: the owner may move it back.
  func relayIsQuiet(_ relay: SocketRelay)
  /// Both sides are closed. The relay does nothing more.
  func relayEnded(_ relay: any Relay, _ summary: RelaySummary)
}

extension RelayOwner {
  func relayIsQuiet(_ relay: SocketRelay) { relay.goOn() }
}

/// How a relay went.
struct RelaySummary: Equatable, Sendable {
  enum Reason: Equatable, Sendable {
    /// The app closed its side, or the client did after it had all.
    case ended
    /// The client is gone.
    case clientGone
    /// The device or the daemon is lost; the client was reset.
    case deviceLost
    /// Nothing moved for the bounded time after the client had ended its sending side.
    case idleAfterHalfClose
    /// tunneld ended it.
    case stopped
  }

  let reason: Reason
  /// Bytes delivered to the device.
  let sent: UInt64
  /// Bytes delivered to the client.
  let received: UInt64
}

/// The times that bound a relay's end, nanoseconds.
struct RelayTimes: Sendable {
  /// Without progress after the client has ended its sending side.
  var halfClose: Int64 = 30_000_000_000
  /// For a client to end after the app has.
  var linger: Int64 = 10_000_000_000
  /// For bytes that came before a reset to reach the client.
  var resetGrace: Int64 = 500_000_000
}
