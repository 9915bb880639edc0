import MuxProtocol
import SimulatedPhone
import Testing

@testable import USBMux

/// One link, driven transfer by transfer.
@Suite("Link driver")
struct LinkDriverTests {
  @Test("The link comes up, and a session carries bytes both ways")
  func echo() throws {
    let bench = try LinkBench()
    #expect(bench.version == .two)
    let user = TestSession()
    let session = try bench.open(7, user)
    #expect(user.isOpen)
    user.outgoing = pattern(300_000)
    bench.link.wantsToSend(session)
    bench.settle()
    expectSame(user.received, user.outgoing)
    bench.link.close(session)
    bench.settle()
    #expect(bench.link.sessionCount == 0 && user.end == nil, "who closes is told nothing")
  }

  @Test("A refused port, a port that cannot be, a link that is over")
  func refusals() throws {
    let bench = try LinkBench()
    let user = TestSession()
    _ = try bench.open(4444, user)
    #expect(user.refusal != nil && !user.isOpen)
    bench.link.stop()
    #expect(throws: MuxError.deviceGone) { try bench.link.open(port(7), for: user) }
  }

  @Test("As many sessions as are allowed: the next one is the system's limit, and frees with a close")
  func sessionLimit() throws {
    var configuration = LinkConfiguration()
    configuration.maximumSessions = 3
    let bench = try LinkBench(configuration: configuration)
    let sessions = try (0..<3).map { _ in try bench.open(7, TestSession()) }
    #expect(throws: MuxError.system("3 connections to the device are open, which is the limit")) {
      try bench.link.open(port(7), for: TestSession())
    }
    bench.link.close(sessions[1])
    let user = TestSession()
    _ = try bench.open(7, user)
    #expect(user.isOpen)
  }

  @Test("Bulk sessions take turns")
  func turns() throws {
    let bench = try LinkBench(transfers: 1)
    let users = (0..<4).map { _ in TestSession() }
    let sessions = try users.map { try bench.open(9, $0) }
    bench.pipe.isFlowing = false
    for (user, session) in zip(users, sessions) {
      user.outgoing = pattern(20 * 32_000)
      bench.link.wantsToSend(session)
    }
    let before = bench.pipe.payloadPorts.count
    for _ in 0..<20 {
      bench.pipe.complete()
      bench.pipe.receiver?.pipeCanSend()
      _ = bench.pipe.deliver()
    }
    let ports = bench.pipe.payloadPorts[before...]
    for session in sessions {
      let turns = ports.count { $0 == session.hostPort }
      #expect(abs(turns - ports.count / 4) <= 1, "\(ports)")
    }
  }

  @Test("A reader that stalls closes its own window and nobody else's; nothing is lost")
  func stalledReader() throws {
    let bench = try LinkBench()
    let slow = TestSession()
    slow.isStalled = true
    let slowSession = try bench.open(19, slow)
    let quick = TestSession()
    let quickSession = try bench.open(7, quick)
    bench.settle()
    let window = LinkConfiguration().receiveWindow
    #expect(slow.received.count == window, "no more than the window, and all of that")
    quick.outgoing = pattern(2_000_000)
    bench.link.wantsToSend(quickSession)
    bench.settle()
    expectSame(quick.received, quick.outgoing)
    #expect(slow.received.count == window)
    // It takes half: as much comes again, behind what was there.
    let taken = slow.held / 2
    bench.link.consumed(slowSession, taken)
    bench.settle()
    #expect(slow.received.count == window + taken)
    let text = slow.received
    let line = Int(text.firstIndex(of: 10) ?? 0) + 1
    #expect(line > 70 && text.count > line)
  }

  @Test("A link that fails ends all its sessions, open and opening, and tells its owner once")
  func failure() throws {
    let bench = try LinkBench()
    let open = TestSession()
    _ = try bench.open(7, open)
    let opening = TestSession()
    bench.pipe.isFlowing = false
    _ = try bench.link.open(port(7), for: opening)
    bench.pipe.receiver?.pipeFailed("the cable was cut")
    #expect(bench.failure == "the cable was cut")
    for user in [open, opening] { #expect(user.end == .some(nil)) }
    #expect(bench.link.isOver && bench.pipe.isClosed)
    bench.pipe.receiver?.pipeFailed("again")
    #expect(bench.failure == "the cable was cut")
  }

  @Test("A device that loses the framing ends its link, not the process")
  func framing() throws {
    let bench = try LinkBench()
    let user = TestSession()
    _ = try bench.open(7, user)
    let garbage = [UInt8](repeating: 0xff, count: 64)
    garbage.withUnsafeBytes { bench.pipe.receiver?.pipeReceived($0) }
    #expect(bench.failure != nil && user.end == .some(nil))
  }

  @Test("An app that closes behind its data: the data first, then the end")
  func closedByApp() throws {
    for finishes in [false, true] {
      var behaviour = PhoneBehaviour()
      behaviour.finishes = finishes
      let bench = try LinkBench(behaviour: behaviour)
      let user = TestSession()
      let session = try bench.open(8765, user)
      user.outgoing = Array("GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8)
      bench.link.wantsToSend(session)
      bench.settle()
      #expect(user.received.starts(with: Array("HTTP/1.1 200".utf8)))
      #expect(user.end == .some(finishes ? .finished : .resetByDevice(reason: "")))
      #expect(bench.link.sessionCount == 0)
    }
  }

  @Test("A phone that speaks version 1 only")
  func versionOne() throws {
    var behaviour = PhoneBehaviour()
    behaviour.version = 1
    let bench = try LinkBench(behaviour: behaviour)
    #expect(bench.version == .one)
    let user = TestSession()
    let session = try bench.open(7, user)
    user.outgoing = pattern(100_000)
    bench.link.wantsToSend(session)
    bench.settle()
    expectSame(user.received, user.outgoing)
  }
}
