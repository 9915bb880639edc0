import EventLoop
import MuxProtocol
import Testing

@testable import USBMux

@Suite("Automatic transport")
struct AutomaticTransportTests {
  /// A transport that does what the test says.
  private final class Scripted: Transport {
    weak var observer: (any TransportObserver)?
    var devices: [Device] = []
    var failure: MuxError?
    var isReady = false
    var calls: [String] = []

    func link(of device: Device) -> LinkStatus { LinkStatus(transport: "scripted") }
    func start() { calls.append("start") }
    func stop() { calls.append("stop") }
    func lookNow() { calls.append("look") }
    func open(
      _ device: Device, port: DevicePort, timeout: Int64, _ handler: any OpenHandler
    ) -> any OpenAttempt {
      calls.append("open \(device.id)")
      return Attempt()
    }
    func refresh(_ done: @escaping () -> Void) { calls.append("refresh") }
    func verdict(on device: DeviceID, epoch: UInt64, _ done: @escaping (DeviceEnd) -> Void) {
      calls.append("verdict")
    }

    final class Attempt: OpenAttempt { func cancel() {} }

    func attach(_ device: Device) {
      devices.append(device)
      observer?.attached(device)
    }
    func detach(_ device: Device) {
      devices.removeAll { $0.id == device.id }
      observer?.detached(device)
    }
    func works() {
      failure = nil
      isReady = true
      observer?.transportChanged()
    }
    func fails(_ error: MuxError) {
      failure = error
      isReady = true
      observer?.transportChanged()
    }
  }

  private final class Witness: TransportObserver {
    var told: [String] = []
    func attached(_ device: Device) { told.append("+\(device.id)") }
    func detached(_ device: Device) { told.append("-\(device.id)") }
    func transportChanged() {}
  }

  private final class Nobody: OpenHandler {
    func opened(_ channel: consuming DeviceChannel) { channel.discard() }
    func openFailed(_ error: OpenError) {}
  }

  private final class Bench {
    let daemon = Scripted()
    private let made = Box<[Scripted]>([])
    var directs: [Scripted] { made.value }
    let witness = Witness()
    let loop: EventLoop
    let transport: AutomaticTransport

    init() throws {
      loop = try EventLoop()
      let log = Log(level: .error, on: loop, handler: nil)
      transport = AutomaticTransport(daemon: daemon, log: log) { [made] in
        let direct = Scripted()
        made.change { $0.append(direct) }
        return direct
      }
      transport.observer = witness
      transport.start()
    }
  }

  private let absent = MuxError.noDaemon(address: "/var/run/usbmuxd", reason: "No such file or directory")

  private func device(_ id: UInt32) -> Device {
    Device(
      id: DeviceID(rawValue: id), udid: UDID(serialNumber: "00008110000A1B2C3D4E5F60"),
      connection: .usb(speed: 480_000_000, location: 0, product: 0))
  }

  @Test("While nothing is known of the daemon nothing is touched")
  func undecided() throws {
    let bench = try Bench()
    #expect(bench.daemon.calls == ["start"])
    #expect(bench.directs.isEmpty)
    #expect(!bench.transport.isReady)
  }

  @Test("A daemon that answers is used, and USB left alone")
  func daemon() throws {
    let bench = try Bench()
    bench.daemon.attach(device(1))
    bench.daemon.works()
    #expect(bench.transport.isReady)
    #expect(bench.transport.devices.map(\.id.rawValue) == [1])
    #expect(bench.directs.isEmpty)
    #expect(bench.witness.told == ["+1"])
    _ = bench.transport.open(device(1), port: .lockdown, timeout: 1, Nobody())
    #expect(bench.daemon.calls.last == "open 1")
  }

  @Test("Where none answers the devices are opened directly, and that is no failure")
  func direct() throws {
    let bench = try Bench()
    bench.daemon.fails(absent)
    let direct = try #require(bench.directs.first)
    #expect(direct.calls == ["start"])
    #expect(bench.transport.failure == nil)
    #expect(!bench.transport.isReady)
    direct.attach(device(100))
    direct.works()
    #expect(bench.transport.isReady)
    #expect(bench.transport.devices.map(\.id.rawValue) == [100])
    _ = bench.transport.open(device(100), port: .lockdown, timeout: 1, Nobody())
    #expect(direct.calls.last == "open 100")
    bench.transport.refresh {}
    #expect(direct.calls.last == "refresh")
    bench.transport.lookNow()
    #expect(direct.calls.last == "look" && bench.daemon.calls.last == "look")
    // The daemon's pauses between tries change nothing.
    bench.daemon.fails(absent)
    #expect(bench.directs.count == 1)
    direct.fails(.permissionDenied(what: "/dev/bus/usb/001/002", remedy: "rule"))
    #expect(bench.transport.failure == direct.failure)
  }

  @Test("When the daemon comes, USB is let go first; when it goes, it is taken up again with other ids")
  func changingOver() throws {
    let bench = try Bench()
    bench.daemon.fails(absent)
    let first = try #require(bench.directs.first)
    first.attach(device(100))
    first.works()
    // The daemon's devices may be announced before its list is complete.
    bench.daemon.failure = nil
    bench.daemon.isReady = false
    bench.daemon.attach(device(1))
    #expect(bench.witness.told == ["+100", "-100", "+1"])
    #expect(first.calls.last == "stop")
    bench.daemon.works()
    #expect(bench.transport.devices.map(\.id.rawValue) == [1])
    // What the stopped one still says is not heard.
    first.observer?.detached(device(100))
    #expect(bench.witness.told == ["+100", "-100", "+1"])

    bench.daemon.detach(device(1))
    bench.daemon.fails(absent)
    #expect(bench.directs.count == 2)
    bench.directs[1].attach(device(101))
    #expect(bench.witness.told == ["+100", "-100", "+1", "-1", "+101"])
    // A stream of the daemon that ended meanwhile is asked about there.
    bench.transport.verdict(on: DeviceID(rawValue: 1), epoch: 1) { _ in }
    #expect(bench.daemon.calls.last == "verdict")
  }

  @Test("A daemon without devices takes over as well")
  func emptyDaemon() throws {
    let bench = try Bench()
    bench.daemon.fails(absent)
    bench.directs[0].attach(device(100))
    bench.daemon.works()
    #expect(bench.witness.told == ["+100", "-100"])
    #expect(bench.transport.devices.isEmpty)
  }

  @Test("A daemon that is there and cannot be talked to keeps its devices")
  func unusableDaemon() throws {
    let bench = try Bench()
    bench.daemon.fails(.permissionDenied(what: "/var/run/usbmuxd", remedy: "group"))
    #expect(bench.directs.isEmpty)
    #expect(bench.transport.failure == bench.daemon.failure)
    bench.daemon.fails(absent)
    #expect(bench.directs.count == 1)
    bench.daemon.fails(.protocolViolation("length 0"))
    #expect(bench.directs[0].calls.last == "stop")
    #expect(bench.transport.failure == bench.daemon.failure)
  }

  @Test("The end of it is the end of both")
  func stop() throws {
    let bench = try Bench()
    bench.daemon.fails(absent)
    bench.directs[0].attach(device(100))
    bench.transport.stop()
    #expect(bench.directs[0].calls.last == "stop")
    #expect(bench.daemon.calls.last == "stop")
    bench.daemon.fails(absent)
    #expect(bench.directs.count == 1)
    #expect(bench.witness.told == ["+100"])
  }
}
