/// How a device is opened.
struct USBOpening: Equatable, Sendable {
  /// Reset the device first.
  var reset = false
  /// See to the wanted mode.
  var mayChangeMode = true
  /// When the active configuration cannot be used, try others: it may just not be ready yet, and what else the
  /// phone does in it (tethering) would end.
  var mayLeaveConfiguration = false
}

/// The life of one device on the bus, from its arrival to its departure: when it is opened, when it is given up
/// for a while, when it counts as attached.
///
/// Pure: the time is passed in, and what is to be done comes back as actions, which the driver performs in
/// order. A device that is plugged in again has another life.
struct USBDeviceLife: Sendable {
  enum State: Equatable, Sendable {
    /// Not open. The next try is due then.
    case waiting(until: Instant)
    /// The helper thread opens and claims it, or it is asked for its mode.
    case opening
    /// It was told to change its mode and is about to leave the bus; if it stays, it is opened as it is.
    case switching(until: Instant)
    /// Claimed; the link starts.
    case linking
    /// The link is up: it is attached.
    case up(since: Instant)
    /// The helper thread ends its transfers and closes it.
    case closing
    /// It left the bus.
    case gone
  }

  enum Action: Equatable, Sendable {
    /// Open it with a fresh handle, and ``opened()``, ``openFailed(_:at:)`` or ``modeWasSet(at:)`` follows.
    case open(USBOpening)
    /// End its transfers and close it; ``closed(at:)`` follows.
    case close
    case attach
    case detach
    /// Tell the user. The same problem is told once.
    case report(USBProblem)
  }

  /// Between two tries at first. A device is often not ready in its first seconds.
  static let shortPause = Duration.milliseconds(250)
  /// For how long tries follow each other quickly.
  static let eagerTime = Duration.seconds(4)
  static let longestPause = Duration.seconds(10)
  /// A device that was told to change its mode leaves within this time.
  static let switchTime = Duration.seconds(3)
  /// A link that lived this long was a good one: what failed before is forgotten.
  static let goodTime = Duration.seconds(5)
  /// Tries in the active configuration before others are thought of.
  static let patientTries = 4
  /// Somebody waits: a try is due this long after the last one.
  static let leastPause = Duration.milliseconds(100)

  private(set) var state: State
  /// Why it cannot be used, once that is news; nil while all is well.
  private(set) var problem: USBProblem?
  private var tries = 0
  private var failingSince: Instant?
  private var pause = USBDeviceLife.shortPause
  private var linkFailures = 0
  private var wasReset = false
  private var mayChangeMode = true
  private var lastEnd: Instant

  /// A device that has just been seen.
  init(at now: Instant) {
    state = .waiting(until: now)
    lastEnd = now
  }

  /// Whether it is up or known to fail, so that nobody need wait to hear of it.
  var isSettled: Bool {
    if case .up = state { true } else { problem != nil || state == .gone }
  }

  /// When ``advance(to:)`` has something to do.
  var nextDeadline: Instant? {
    switch state {
    case .waiting(let until), .switching(let until): until
    case .opening, .linking, .up, .closing, .gone: nil
    }
  }

  /// Does what is due.
  mutating func advance(to now: Instant) -> [Action] {
    switch state {
    case .waiting(let until):
      guard now >= until else { return [] }
      state = .opening
      // The last means for a device that does not answer; once, since it disturbs what else the phone does.
      let reset = linkFailures >= 2 && !wasReset
      if reset { wasReset = true }
      let opening = USBOpening(
        reset: reset, mayChangeMode: mayChangeMode, mayLeaveConfiguration: tries >= Self.patientTries)
      tries += 1
      return [.open(opening)]
    case .switching(let until):
      guard now >= until else { return [] }
      // It stays: carry on in the present mode, and do not ask again.
      mayChangeMode = false
      state = .closing
      return [.close]
    case .opening, .linking, .up, .closing, .gone: return []
    }
  }

  /// Somebody waits for a device.
  mutating func lookNow(at now: Instant) {
    guard case .waiting(let until) = state else { return }
    state = .waiting(until: min(until, max(now, lastEnd.advanced(by: Self.leastPause))))
  }

  /// It is open and its mux interface claimed.
  mutating func opened() {
    if state == .opening { state = .linking }
  }

  /// It was told to change its mode.
  mutating func modeWasSet(at now: Instant) {
    if state == .opening { state = .switching(until: now.advanced(by: Self.switchTime)) }
  }

  /// It could not be opened or claimed; nothing of it is open.
  mutating func openFailed(_ problem: USBProblem, at now: Instant) -> [Action] {
    guard state == .opening else { return [] }
    return fail(problem, at: now)
  }

  mutating func linkIsUp(at now: Instant) -> [Action] {
    guard state == .linking else { return [] }
    state = .up(since: now)
    problem = nil
    linkFailures = 0
    tries = 0
    return [.attach]
  }

  /// The link or its transfers failed, or another configuration was selected, which ends the claim.
  mutating func lost(_ problem: USBProblem, at now: Instant) -> [Action] {
    switch state {
    case .linking:
      linkFailures += 1
      state = .closing
      return report(problem, at: now) + [.close]
    case .up(let since):
      if since.duration(to: now) >= Self.goodTime { forgetFailures() }
      state = .closing
      return [.detach] + report(problem, at: now) + [.close]
    case .waiting, .opening, .switching, .closing, .gone: return []
    }
  }

  /// The helper thread has closed it.
  mutating func closed(at now: Instant) {
    guard state == .closing else { return }
    wait(from: now)
  }

  /// It left the bus. One life ends once.
  mutating func left(at now: Instant) -> [Action] {
    defer { state = .gone }
    switch state {
    case .up: return [.detach, .close]
    case .linking, .switching: return [.close]
    case .waiting, .opening, .closing, .gone: return []
    }
  }

  private mutating func fail(_ problem: USBProblem, at now: Instant) -> [Action] {
    let actions = report(problem, at: now)
    wait(from: now)
    return actions
  }

  /// A device that is not ready at first is no news: it is told when it stays so.
  private mutating func report(_ problem: USBProblem, at now: Instant) -> [Action] {
    let since = failingSince ?? now
    failingSince = since
    let isNews = !problem.isTransient || since.duration(to: now) >= .seconds(1)
    guard isNews, problem != self.problem else { return [] }
    self.problem = problem
    return [.report(problem)]
  }

  private mutating func wait(from now: Instant) {
    lastEnd = now
    if let failingSince, failingSince.duration(to: now) >= Self.eagerTime {
      pause = min(pause * 2, Self.longestPause)
    }
    state = .waiting(until: now.advanced(by: pause))
  }

  private mutating func forgetFailures() {
    failingSince = nil
    pause = Self.shortPause
    problem = nil
  }
}
