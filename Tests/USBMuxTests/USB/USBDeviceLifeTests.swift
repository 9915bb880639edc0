import MuxProtocol
import Testing

@testable import USBMux

/// The life of a device, as a script: at a time something happens, and something is to be done.
@Suite("USB device life")
struct USBDeviceLifeTests {
  private let location = USBLocation(bus: 1, address: 2)

  private func at(_ seconds: Double) -> Instant { Instant(nanoseconds: Int64((seconds * 1e9).rounded())) }
  private var busy: USBProblem { .busy(location, owner: "usbmuxd (process 7)") }
  private var notReady: USBProblem { .failed(location, call: "libusb_open", reason: "Input/Output Error") }
  private func link(_ reason: String) -> USBProblem { .link(location, reason: reason) }

  /// Opened, claimed, its link up at `seconds`.
  private func attached(at seconds: Double) -> USBDeviceLife {
    var life = USBDeviceLife(at: at(seconds))
    #expect(life.advance(to: at(seconds)) == [.open(USBOpening())])
    life.opened()
    #expect(life.state == .linking)
    #expect(life.linkIsUp(at: at(seconds)) == [.attach])
    return life
  }

  @Test("Plugged in, opened, linked, unplugged: attached once and detached once")
  func ordinary() {
    var life = USBDeviceLife(at: at(0))
    #expect(!life.isSettled)
    #expect(life.nextDeadline == at(0))
    #expect(life.advance(to: at(0)) == [.open(USBOpening())])
    #expect(life.nextDeadline == nil)
    #expect(life.advance(to: at(1)) == [])
    life.opened()
    #expect(!life.isSettled)
    #expect(life.linkIsUp(at: at(1)) == [.attach])
    #expect(life.isSettled)
    #expect(life.linkIsUp(at: at(1)) == [], "once")
    #expect(life.left(at: at(9)) == [.detach, .close])
    #expect(life.left(at: at(9)) == [], "once")
    #expect(life.lost(link("late"), at: at(9)) == [])
    life.closed(at: at(9))
    #expect(life.state == .gone)
    #expect(life.nextDeadline == nil)
  }

  @Test("A device that is not ready is opened again for more than three seconds, and that is no news")
  func notReadyAtOnce() {
    var life = USBDeviceLife(at: at(0))
    var tries: [Double] = []
    var time = 0.0
    while time < 3.5 {
      let actions = life.advance(to: at(time))
      if !actions.isEmpty {
        tries.append(time)
        // Another configuration is thought of only when it stays so.
        #expect(actions == [.open(USBOpening(mayLeaveConfiguration: tries.count > 4))])
        let told = life.openFailed(notReady, at: at(time))
        #expect(told.isEmpty == (tries.count != 5), "told after a second, and once")
      }
      #expect(life.isSettled == (time >= 1))
      time += 0.05
    }
    #expect(tries.count >= 12)
    #expect(zip(tries, tries.dropFirst()).allSatisfy { $1 - $0 < 0.35 })
    _ = life.advance(to: at(4))
    life.opened()
    #expect(life.linkIsUp(at: at(4)) == [.attach])
    #expect(life.problem == nil)
  }

  @Test("Later the pauses grow, to a limit")
  func pauses() {
    var life = USBDeviceLife(at: at(0))
    var last = 0.0
    var pauses: [Double] = []
    while last < 100 {
      guard let deadline = life.nextDeadline else { break }
      let time = Double(deadline.nanoseconds) / 1e9
      if time > 0 { pauses.append(time - last) }
      last = time
      _ = life.advance(to: deadline)
      _ = life.openFailed(notReady, at: deadline)
    }
    #expect(zip(pauses, pauses.dropFirst()).allSatisfy { $0 <= $1 + 1e-6 })
    #expect(pauses.last == 10)
    #expect(pauses.count < 40)
  }

  @Test("BUSY and a denied node are told at once, once, and again when it is another problem")
  func reports() {
    let denied = USBProblem.denied(location, owner: "root", group: "root")
    var life = USBDeviceLife(at: at(0))
    _ = life.advance(to: at(0))
    #expect(life.openFailed(busy, at: at(0)) == [.report(busy)])
    #expect(life.isSettled)
    _ = life.advance(to: at(1))
    #expect(life.openFailed(busy, at: at(1)) == [])
    _ = life.advance(to: at(2))
    #expect(life.openFailed(denied, at: at(2)) == [.report(denied)])
    #expect(life.problem == denied)
    _ = life.advance(to: at(3))
    life.opened()
    #expect(life.linkIsUp(at: at(3)) == [.attach])
    #expect(life.problem == nil)
  }

  @Test("Somebody who waits hastens the next try, but not without end")
  func lookingNow() {
    var life = USBDeviceLife(at: at(0))
    var last = at(0)
    while let deadline = life.nextDeadline, deadline < at(60) {
      last = deadline
      _ = life.advance(to: deadline)
      _ = life.openFailed(busy, at: deadline)
    }
    #expect(life.nextDeadline == last.advanced(by: .seconds(10)))
    let soon = last.advanced(by: .milliseconds(50))
    life.lookNow(at: soon)
    #expect(life.nextDeadline == last.advanced(by: .milliseconds(100)))
    let later = last.advanced(by: .seconds(1))
    #expect(life.advance(to: later).count == 1)
    #expect(life.openFailed(busy, at: later) == [])
    life.lookNow(at: later.advanced(by: .seconds(2)))
    #expect(life.nextDeadline == later.advanced(by: .seconds(2)))
  }

  @Test("A lost claim: detached, closed, opened again in the same life")
  func lostClaim() {
    var life = attached(at: 0)
    #expect(life.lost(link("another configuration"), at: at(60)) == [.detach, .close])
    #expect(life.state == .closing)
    #expect(life.lost(link("again"), at: at(60)) == [], "once")
    #expect(life.advance(to: at(61)) == [], "not before it is closed")
    life.closed(at: at(61))
    #expect(life.nextDeadline == at(61.25))
    #expect(life.advance(to: at(61.25)) == [.open(USBOpening())])
    life.opened()
    #expect(life.linkIsUp(at: at(62)) == [.attach])
  }

  @Test("A link that fails again and again is told, and the pauses grow")
  func flapping() {
    var life = attached(at: 0)
    var time = 0.0
    var told = 0
    var openings = 0
    while time < 60 {
      if life.state != .closing, case .up = life.state {
        let actions = life.lost(link("a transfer failed"), at: at(time))
        #expect(actions.first == .detach && actions.last == .close)
        told += actions.count - 2
        life.closed(at: at(time))
      }
      time += 0.05
      if !life.advance(to: at(time)).isEmpty {
        openings += 1
        life.opened()
        _ = life.linkIsUp(at: at(time))
      }
    }
    #expect(told >= 1)
    #expect(openings < 30, "\(openings)")
  }

  @Test("A device that does not answer is reset as the last means, once")
  func reset() {
    var life = USBDeviceLife(at: at(0))
    var resets: [Int] = []
    var time = 0.0
    for attempt in 0..<8 {
      while life.nextDeadline.map({ $0 > at(time) }) == true { time += 0.05 }
      guard case .open(let opening)? = life.advance(to: at(time)).first else {
        Issue.record("attempt \(attempt) was not made")
        return
      }
      if opening.reset { resets.append(attempt) }
      life.opened()
      time += 4
      #expect(life.lost(link("no answer to VERSION"), at: at(time)).last == .close)
      life.closed(at: at(time))
    }
    #expect(resets == [2])
  }

  @Test("A device that changes its mode leaves the bus, and if it does not, it is used as it is")
  func modes() {
    var leaving = USBDeviceLife(at: at(0))
    _ = leaving.advance(to: at(0))
    leaving.modeWasSet(at: at(0.1))
    #expect(leaving.advance(to: at(3)) == [])
    #expect(leaving.left(at: at(3)) == [.close])

    var staying = USBDeviceLife(at: at(0))
    _ = staying.advance(to: at(0))
    staying.modeWasSet(at: at(0.1))
    #expect(staying.nextDeadline == at(3.1))
    #expect(staying.advance(to: at(3.1)) == [.close])
    staying.closed(at: at(3.2))
    #expect(staying.advance(to: at(4)) == [.open(USBOpening(mayChangeMode: false))])
  }

  @Test("It may leave at any time: what is open is closed, what was attached is detached")
  func leavingAnywhere() {
    var waiting = USBDeviceLife(at: at(0))
    #expect(waiting.left(at: at(0)) == [])

    var opening = USBDeviceLife(at: at(0))
    _ = opening.advance(to: at(0))
    #expect(opening.left(at: at(0)) == [], "the helper's answer comes later")
    opening.opened()
    #expect(opening.state == .gone)
    #expect(opening.openFailed(busy, at: at(1)) == [])

    var linking = USBDeviceLife(at: at(0))
    _ = linking.advance(to: at(0))
    linking.opened()
    #expect(linking.left(at: at(0)) == [.close])
    #expect(linking.linkIsUp(at: at(1)) == [])

    var closing = attached(at: 0)
    _ = closing.lost(link("gone"), at: at(1))
    #expect(closing.left(at: at(1)) == [], "it is being closed already")
    closing.closed(at: at(2))
    #expect(closing.state == .gone)
  }

  @Test("Problems are told in words that name the cause and the fix")
  func words() {
    #expect("\(busy)".contains("busy: usbmuxd (process 7)") && "\(busy)".contains("systemctl stop usbmuxd"))
    let denied = USBProblem.denied(location, owner: "root", group: "plugdev")
    #expect("\(denied)".contains("/dev/bus/usb/001/002") && "\(denied)".contains("root:plugdev"))
    #expect("\(denied)".contains("udev rule"))
    guard case .permissionDenied(let what, let remedy) = denied.error else {
      Issue.record("\(denied.error)")
      return
    }
    #expect(what == "/dev/bus/usb/001/002" && remedy.contains("udev rule"))
    #expect("\(USBProblem.noNode(location))".contains("container"))
    #expect(!busy.isTransient && !denied.isTransient && notReady.isTransient)
  }
}
