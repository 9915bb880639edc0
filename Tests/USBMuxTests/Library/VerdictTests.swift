import Dispatch
import EventLoop
import Foundation
import Testing

@testable import USBMux

/// How the end of a stream through a usbmuxd is explained, by a transport of its own.
@Suite("Verdicts on ends", .timeLimit(.minutes(3)))
struct VerdictTests {
  /// On the loop's thread, but for ``end``.
  private final class Bench: TransportObserver, @unchecked Sendable {
    let thread: LoopThread
    private(set) var transport: UsbmuxdTransport?
    let end = Box<DeviceEnd?>(nil)

    init(_ daemon: ScriptedDaemon, limit: Int64) throws {
      thread = try LoopThread()
      try thread.run { [unowned self] in
        let transport = try UsbmuxdTransport(
          address: daemon.address, on: thread.loop, verdictTimeout: limit)
        transport.observer = self
        transport.start()
        self.transport = transport
      }
      try thread.eventually("the list") { [unowned self] in transport?.isReady == true }
    }

    func ask() throws {
      try thread.run { [unowned self] in
        transport?.verdict(on: DeviceID(rawValue: 7), epoch: 2) { end in self.end.value = end }
      }
    }

    func stop() throws {
      try thread.run { [unowned self] in
        transport?.stop()
        transport = nil
      }
    }

    func attached(_ device: Device) {}
    func detached(_ device: Device) {}
    func transportChanged() {}
  }

  @Test("A daemon that takes its time is waited for")
  func late() throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    let bench = try Bench(daemon, limit: 60_000_000_000)
    let go = DispatchSemaphore(value: 0)
    daemon.onListDevices(.late(go))
    let before = daemon.requests.count
    try bench.ask()
    try eventually("the question") { daemon.requests.count > before }
    #expect(bench.end.value == nil)
    go.signal()
    try eventually("the verdict") { bench.end.value != nil }
    #expect(bench.end.value == .clean)
    try bench.stop()
    #expect(UsbmuxdTransport.verdictTimeout >= 10_000_000_000)
  }

  @Test("One that does not answer in time leaves the end unexplained, which is a reset")
  func tooLate() throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    let bench = try Bench(daemon, limit: 20_000_000)
    daemon.onListDevices(.silence)
    try bench.ask()
    try eventually("the verdict") { bench.end.value != nil }
    #expect(bench.end.value == .reset)
    try bench.stop()
  }
}
