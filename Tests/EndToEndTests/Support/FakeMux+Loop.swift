import Foundation

/// One socket of the fake and what it is for.
final class Channel {
  enum Role {
    case wake
    case muxListener
    case plainListener(Service)
    /// Requests come in; a Connect may be pending.
    case control
    /// After Listen.
    case listening
    case stream(Stream)
  }

  let fd: Int32
  var role: Role
  var slot = 0
  var isOpen = true
  /// Bytes of requests that are not complete.
  var inbox: [UInt8] = []
  var outbox: [UInt8] = []
  /// Sends its outbox one byte at a time.
  var drips = false
  var closesWhenFlushed = false
  /// When `MuxState.tick` wants to look at it again.
  var timer: Double?
  var pending: PendingConnect?
  /// Attached messages that are still to come.
  var announcements: [[String: Any]] = []
  /// A plain TCP server lives on after the other side's FIN; usbmuxd does not.
  var livesHalfClosed = false
  var sawEnd = false

  init(_ fd: Int32, _ role: Role) {
    self.fd = fd
    self.role = role
  }
}

struct PendingConnect {
  var device: Int
  var port: UInt16
  var tag: UInt32
  var verdict: Port.Verdict
  var service: Service
}

/// A stream's progress on the phone's side.
final class Stream {
  var report: StreamReport
  let service: Service
  /// Echo bytes that wait for room, and how far they are sent.
  var backlog: [UInt8] = []
  var backlogStart = 0
  var tail: [UInt8] = []
  var started: Bool
  var nextPiece = 0.0
  var allowance = 0.0
  var allowanceAt: Double
  static let backlogLimit = 256 * 1024

  init(_ report: StreamReport, _ service: Service) {
    self.report = report
    self.service = service
    started = service.start == .atOnce
    allowanceAt = report.openedAt
  }

  var backlogCount: Int { backlog.count - backlogStart }
}

/// Everything that the fake knows. Methods run with the monitor's lock held.
final class MuxState: @unchecked Sendable {
  // Scripted by the test.
  var devices: [FakeDevice] = []
  var ports: [UInt16: Port] = [7: .open(.echo), 9: .open(.discard), 19: .open(.endless)]
  var styles: [RequestKind: ReplyStyle] = [:]
  /// A payload's first bytes go out in the same write as the Connect's Result.
  var gluesPayload = false
  /// Seconds between the Attached messages that follow a Listen.
  var announcementInterval = 0.0
  /// Connections are taken and closed at once.
  var hangsUp = false

  // Seen.
  var streams: [Stream] = []
  var openStreams = 0
  var connects: [ConnectRequest] = []
  var requests: [String] = []
  var accepted = 0
  var cancelledConnects = 0
  var violations: [String] = []
  var listeners: Int { channels.count { if case .listening = $0.role { true } else { false } } }
  var clients: Int {
    channels.count {
      switch $0.role {
      case .control, .listening, .stream: true
      case .wake, .muxListener, .plainListener: false
      }
    }
  }

  // The loop's own.
  private(set) var channels: [Channel] = []
  private var entries: [pollfd] = []
  private var timed: [ObjectIdentifier: Channel] = [:]
  private var epoch = 0
  private var stopped = false
  private var wakeWriter: Int32 = -1
  private var nextID = 3
  private var paths: [String] = []
  let scratch = UnsafeMutableRawBufferPointer.allocate(byteCount: 128 * 1024, alignment: 16)
  var resultBodies: [UInt32: [UInt8]] = [:]

  init() throws {
    var pair: [Int32] = [0, 0]
    guard pipe(&pair) == 0 else { throw SystemFailure("pipe") }
    pair.forEach(Socket.prepare)
    wakeWriter = pair[1]
    add(Channel(pair[0], .wake), Int16(POLLIN))
  }

  deinit {
    for channel in channels { close(channel.fd) }
    scratch.deallocate()
    close(wakeWriter)
  }

  func wake() {
    var byte: UInt8 = 1
    write(wakeWriter, &byte, 1)
  }

  // MARK: sockets

  func listen(_ endpoint: Endpoint) throws -> Endpoint {
    if case .unix(let path) = endpoint {
      unlink(path)
      paths.append(path)
    }
    let fd = try Socket.listen(endpoint)
    add(Channel(fd, .muxListener), Int16(POLLIN))
    switch endpoint {
    case .ipv4(let host, 0): return .ipv4(host, Socket.localPort(fd))
    case .ipv6(let host, 0): return .ipv6(host, Socket.localPort(fd))
    case .ipv4, .ipv6, .unix: return endpoint
    }
  }

  func servePlainly(_ service: Service, at endpoint: Endpoint) throws -> UInt16 {
    let fd = try Socket.listen(endpoint)
    add(Channel(fd, .plainListener(service)), Int16(POLLIN))
    return Socket.localPort(fd)
  }

  func die() {
    // The streams go first: the client must find out by itself why they ended.
    for channel in channels { if case .stream = channel.role { drop(channel, .byDeath) } }
    for channel in channels {
      switch channel.role {
      case .control, .listening, .muxListener: drop(channel, .byDeath)
      case .wake, .plainListener, .stream: break
      }
    }
    paths.forEach { unlink($0) }
    paths = []
  }

  func stop() {
    die()
    for channel in channels {
      // The wake channel stays: the loop's thread hears by it that it is to end.
      if case .wake = channel.role { continue }
      drop(channel, .byDeath)
    }
    stopped = true
  }

  func cutListeners() {
    for channel in channels { if case .listening = channel.role { drop(channel, .byDeath) } }
  }

  private func add(_ channel: Channel, _ events: Int16) {
    channel.slot = channels.count
    channels.append(channel)
    entries.append(pollfd(fd: channel.fd, events: events, revents: 0))
  }

  func drop(_ channel: Channel, _ end: StreamReport.End) {
    guard channel.isOpen else { return }
    channel.isOpen = false
    if case .stream(let stream) = channel.role {
      stream.report.end = end
      stream.report.endedAt = uptime()
      stream.backlog = []
      openStreams -= 1
    }
    if channel.pending != nil { cancelledConnects += 1 }
    let last = channels.count - 1
    channels.swapAt(channel.slot, last)
    entries.swapAt(channel.slot, last)
    channels[channel.slot].slot = channel.slot
    channels.removeLast()
    entries.removeLast()
    timed[ObjectIdentifier(channel)] = nil
    epoch += 1
    close(channel.fd)
  }

  /// Says what the channel waits for; without `watches`, not even hang-up is of interest now.
  func setInterest(_ channel: Channel, reading: Bool, writing: Bool, watches: Bool = true) {
    guard channel.isOpen else { return }
    var events: Int16 = 0
    if reading { events |= Int16(POLLIN) }
    if writing { events |= Int16(POLLOUT) }
    entries[channel.slot].events = events
    entries[channel.slot].fd = watches ? channel.fd : -1
  }

  func setTimer(_ channel: Channel, _ moment: Double?) {
    channel.timer = moment
    timed[ObjectIdentifier(channel)] = moment == nil ? nil : channel
  }

  func nextDeviceID() -> Int {
    nextID += 1
    return nextID
  }

  // MARK: the loop

  static func run(_ state: MuxState, _ monitor: Monitor) {
    var polled: [pollfd] = []
    var timeout: Int32 = 0
    var epoch = 0
    while true {
      let goesOn = monitor.reading {
        polled.removeAll(keepingCapacity: true)
        polled.append(contentsOf: state.entries)
        epoch = state.epoch
        timeout = state.timeout()
        return !state.stopped
      }
      if !goesOn { return }
      let count = poll(&polled, nfds_t(polled.count), timeout)
      if count < 0 && errno != EINTR { return }
      monitor.changing {
        if state.epoch == epoch { state.handle(polled) }
        state.tick()
      }
    }
  }

  private func timeout() -> Int32 {
    guard !timed.isEmpty else { return -1 }
    var first = Double.infinity
    for channel in timed.values { first = min(first, channel.timer ?? .infinity) }
    return Int32(min(1000, max(0, ((first - uptime()) * 1000).rounded(.up))))
  }

  private func handle(_ polled: [pollfd]) {
    var ready: [(Channel, Int16)] = []
    polled.withUnsafeBufferPointer { polled in
      for index in 0..<polled.count where polled[index].revents != 0 {
        ready.append((channels[index], polled[index].revents))
      }
    }
    for (channel, events) in ready where channel.isOpen {
      let ended = events & Int16(POLLHUP | POLLERR | POLLNVAL) != 0
      switch channel.role {
      case .wake:
        while Foundation.read(channel.fd, scratch.baseAddress, scratch.count) > 0 {}
      case .muxListener:
        acceptAll(channel, nil)
      case .plainListener(let service):
        acceptAll(channel, service)
      case .control, .listening:
        if events & Int16(POLLOUT) != 0 { flush(channel) }
        if channel.isOpen && (ended || events & Int16(POLLIN) != 0) { readRequests(channel) }
      case .stream(let stream):
        progress(channel, stream, readable: events & Int16(POLLIN) != 0, ended: ended)
      }
    }
  }

  private func tick() {
    guard !timed.isEmpty else { return }
    let now = uptime()
    for channel in timed.values where channel.isOpen && (channel.timer ?? .infinity) <= now {
      setTimer(channel, nil)
      if channel.pending != nil { decide(channel) }
      if !channel.announcements.isEmpty { announceNext(channel) }
      if channel.drips && !channel.outbox.isEmpty { flush(channel) }
      if channel.isOpen, case .stream(let stream) = channel.role {
        progress(channel, stream, readable: true, ended: false)
      }
    }
  }

  private func acceptAll(_ listener: Channel, _ service: Service?) {
    while let fd = Socket.accept(listener.fd) {
      if let service {
        Socket.set(fd, Int32(IPPROTO_TCP), TCP_NODELAY, 1)
        let channel = Channel(fd, .control)
        channel.livesHalfClosed = true
        add(channel, Int16(POLLIN))
        beginStream(channel, device: 0, port: Socket.localPort(listener.fd), service)
      } else {
        accepted += 1
        if hangsUp {
          close(fd)
          continue
        }
        // As the real one does; the kernel doubles it.
        Socket.set(fd, SOL_SOCKET, SO_SNDBUF, 128 * 1024)
        Socket.set(fd, SOL_SOCKET, SO_RCVBUF, 128 * 1024)
        add(Channel(fd, .control), Int16(POLLIN))
      }
    }
  }
}
