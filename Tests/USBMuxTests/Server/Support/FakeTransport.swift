import CSystem
import Dispatch
import EventLoop
import MuxProtocol

@testable import USBMux

/// Devices and streams at a test's command. All but ``farEnd()`` is used on the loop's thread.
final class FakeTransport: Transport, @unchecked Sendable {
  /// What becomes of an attempt to open a stream.
  enum Answer {
    case accept
    case fail(OpenError)
    /// As ``fail(_:)``, but from within the call.
    case failAtOnce(OpenError)
    case never
  }

  weak var observer: (any TransportObserver)?
  private(set) var devices: [Device] = []
  private(set) var failure: MuxError?
  private(set) var isReady: Bool
  var answer = Answer.accept
  private(set) var opened: [(device: DeviceID, port: UInt16)] = []
  private(set) var refreshes = 0
  let cancelled = DispatchSemaphore(value: 0)
  let asked = DispatchSemaphore(value: 0)
  private let accepted = DispatchSemaphore(value: 0)
  private var farEnds: [CInt] = []
  private let lock = DispatchQueue(label: "far ends")
  private let loop: EventLoop

  init(on loop: EventLoop, isReady: Bool) {
    self.loop = loop
    self.isReady = isReady
  }

  func link(of device: Device) -> LinkStatus { LinkStatus(transport: "fake") }

  func start() {}
  func stop() {}
  func lookNow() {}
  func refresh(_ done: @escaping () -> Void) {
    refreshes += 1
    done()
  }
  func verdict(on device: DeviceID, epoch: UInt64, _ done: @escaping (DeviceEnd) -> Void) { done(.clean) }

  func attach(_ device: Device) {
    devices.append(device)
    observer?.attached(device)
  }

  func detach(_ id: UInt32) {
    guard let index = devices.firstIndex(where: { $0.id.rawValue == id }) else { return }
    observer?.detached(devices.remove(at: index))
  }

  func becomeReady() {
    isReady = true
    observer?.transportChanged()
  }

  func open(_ device: Device, port: DevicePort, timeout: Int64, _ handler: any OpenHandler) -> any OpenAttempt
  {
    opened.append((device.id, port.number))
    asked.signal()
    let attempt = FakeAttempt(self, handler)
    switch answer {
    case .accept, .fail: loop.resume(attempt)
    case .failAtOnce(let error): handler.openFailed(error)
    case .never: break
    }
    return attempt
  }

  fileprivate func settle(_ attempt: FakeAttempt, _ handler: any OpenHandler) {
    switch answer {
    case .accept:
      var ends: (CInt, CInt) = (-1, -1)
      let status = withUnsafeMutablePointer(to: &ends) {
        $0.withMemoryRebound(to: CInt.self, capacity: 2) { cs_socketpair($0) }
      }
      guard status == 0 else { return handler.openFailed(.failed(.system("socketpair"))) }
      lock.sync { farEnds.append(ends.1) }
      // As a connection to a daemon does: the watcher goes along to those who take it at once.
      let watcher = try? Watcher(ends.0, on: loop, handler: attempt)
      handler.opened(.socket(Descriptor(owning: ends.0), watcher, epoch: nil))
      if watcher?.handler === attempt { watcher?.cancelBeforeClose() }
      accepted.signal()
    case .fail(let error), .failAtOnce(let error): handler.openFailed(error)
    case .never: break
    }
  }

  /// The device's end of the next stream.
  func farEnd() throws -> Stream {
    guard accepted.happens() else { throw TestTimeout() }
    return Stream(owning: lock.sync { farEnds.removeFirst() })
  }
}

final class FakeAttempt: OpenAttempt, Resumable, ReadinessHandler {
  private let transport: FakeTransport
  private weak var handler: (any OpenHandler)?

  init(_ transport: FakeTransport, _ handler: any OpenHandler) {
    self.transport = transport
    self.handler = handler
  }

  func resume() {
    if let handler { transport.settle(self, handler) }
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {}

  func cancel() {
    handler = nil
    transport.cancelled.signal()
  }
}

extension Device {
  static func usb(_ id: UInt32, _ udid: String = "00008110-000000C0FFEE0001", location: UInt32 = 0x1_0002)
    -> Device
  {
    Device(
      id: DeviceID(rawValue: id), udid: UDID(serialNumber: udid),
      connection: .usb(speed: 480_000_000, location: location, product: 0x12A8))
  }

  static func network(_ id: UInt32, _ udid: String = "00008110-000000C0FFEE0001") -> Device {
    Device(
      id: DeviceID(rawValue: id), udid: UDID(serialNumber: udid),
      connection: .network(NetworkAddress(socketAddress: [16, 2, 0, 0, 192, 0, 2, 7])))
  }
}
