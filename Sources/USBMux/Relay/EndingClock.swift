internal import EventLoop

/// Who runs out of time.
protocol EndingClockOwner: AnyObject {
  /// Bytes delivered so far, both ways.
  var progress: UInt64 { get }
  /// Whether all that came before a reset has reached the client.
  var isDelivered: Bool { get }
  /// The client turns out to be gone.
  func clientIsGone()
  /// Time is up.
  func timeIsUp(_ reason: RelaySummary.Reason, resets: Bool)
}

/// The times that bound a relay's end. Made when the first end comes, so an idle relay owns no timer.
final class EndingClock {
  private let resources: RelayResources
  private let socket: CInt
  private let times: RelayTimes
  private unowned let owner: any EndingClockOwner
  private var timer: LoopTimer?
  private var waiting = Waiting.nothing

  private enum Waiting {
    case nothing
    /// The client may be gone; then it is not looked for again.
    case halfClosed(idleSince: Int64, progress: UInt64, check: Int, isGone: Bool)
    case lingering
    case resetting(deadline: Int64)
  }

  /// The look-ups after a half-close, nanoseconds apart: a client that is closing at this very moment is
  /// found a little later, one that leaves without reading is found within seconds.
  private static let presenceChecks: [Int64] = [5_000_000, 50_000_000, 500_000_000, 2_000_000_000]
  /// Between looks at what a client that is being reset has taken, nanoseconds.
  private static let resetCheck: Int64 = 5_000_000

  init(_ resources: RelayResources, client socket: CInt, times: RelayTimes, owner: any EndingClockOwner) {
    self.resources = resources
    self.socket = socket
    self.times = times
    self.owner = owner
    timer = LoopTimer(on: resources.loop) { [unowned self] in fired() }
  }

  /// The client has ended its sending side and still reads.
  func clientHalfClosed() {
    guard case .nothing = waiting else { return }
    waiting = .halfClosed(idleSince: resources.loop.now, progress: owner.progress, check: 0, isGone: false)
    timer?.set(after: Self.presenceChecks[0])
  }

  /// The client has been shown the end and has to end too.
  func linger() {
    waiting = .lingering
    timer?.set(after: times.linger)
  }

  /// Waits, for a bounded time, until all has been delivered: a reset throws away what is still queued.
  func reset() {
    let now = resources.loop.now
    let deadline: Int64
    if case .resetting(let set) = waiting { deadline = set } else { deadline = now + times.resetGrace }
    guard !owner.isDelivered && now < deadline else { return stop(.deviceLost, resets: true) }
    waiting = .resetting(deadline: deadline)
    timer?.set(after: Self.resetCheck)
  }

  private func fired() {
    switch waiting {
    case .nothing: break
    case .lingering: stop(.ended, resets: false)
    case .resetting: reset()
    case .halfClosed(var idleSince, let progress, let check, let wasGone):
      let isGone = wasGone || resources.presence.isGone(socket)
      let now = resources.loop.now
      if owner.progress != progress { idleSince = now }
      let left = times.halfClose - (now - idleSince)
      guard left > 0 else { return stop(.idleAfterHalfClose, resets: !owner.isDelivered) }
      let next = min(check + 1, Self.presenceChecks.count - 1)
      waiting = .halfClosed(
        idleSince: idleSince, progress: owner.progress, check: next, isGone: isGone)
      timer?.set(after: isGone ? left : min(left, Self.presenceChecks[next]))
      // What it sent is still delivered, within the same time.
      if isGone && !wasGone { owner.clientIsGone() }
    }
  }

  private func stop(_ reason: RelaySummary.Reason, resets: Bool) {
    waiting = .nothing
    timer = nil
    owner.timeIsUp(reason, resets: resets)
  }
}
