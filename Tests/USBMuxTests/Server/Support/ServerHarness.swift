import Dispatch
import EventLoop
import Foundation
import MuxProtocol
import Synchronization

@testable import USBMux

/// A server on a loop thread of its own, over a transport that does what the test says.
final class ServerHarness: @unchecked Sendable {
  let directory: String
  let path: String
  let lockdown: String
  let transport: FakeTransport
  private let loop: EventLoop
  private var parts: Parts?
  private let isOwner: Bool

  /// `devices` are attached from the start. Socket and pair records are in `directory`, to follow on an earlier
  /// server, or else in a new one.
  init(
    devices: [Device] = [], isReady: Bool = true, directory: String? = nil, local: ListenAddress? = nil,
    options change: (inout ServerOptions) -> Void = { _ in }
  ) throws {
    self.directory =
      directory ?? FileManager.default.temporaryDirectory.path + "/mux-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: self.directory, withIntermediateDirectories: true)
    path = self.directory + "/socket"
    lockdown = self.directory + "/lockdown"
    var options = ServerOptions(lockdownDirectory: lockdown)
    change(&options)
    loop = try EventLoop()
    transport = FakeTransport(on: loop, isReady: isReady)
    // Nothing runs on the loop yet, so this thread may still touch what will live there.
    let sink = LogSink()
    let log = Log(
      level: .notice, on: loop, handler: { record in sink.lines.withLock { $0.append(record.message) } })
    let reports = Reports(loop)
    let hub = Hub(
      loop: loop, log: log, transport: transport, maximumConnections: nil,
      reportFromWorker: { reports.deliver($0) })
    reports.hub = hub
    for device in devices { transport.attach(device) }
    let server = try hub.addServer(local ?? .unix(path: path), options)
    self.sink = sink
    isOwner = directory == nil
    port = server.addresses.first?.port ?? 0
    parts = Parts(hub: hub, server: server)
    try loop.start()
  }

  private let sink: LogSink

  private final class LogSink: Sendable {
    let lines = Mutex<[String]>([])
  }

  /// Brings reports of the thread for bulk relays to the hub's thread, where alone the hub is used.
  private final class Reports: @unchecked Sendable {
    weak var hub: Hub?
    let loop: EventLoop

    init(_ loop: EventLoop) { self.loop = loop }

    func deliver(_ report: BulkWorker.Report) { loop.execute { self.hub?.take(report) } }
  }

  /// What lives on the loop's thread, and ends there.
  private struct Parts {
    let hub: Hub
    /// The hub alone keeps it.
    weak var server: ServerState?
  }

  deinit {
    nonisolated(unsafe) var parts = parts
    self.parts = nil
    let done = DispatchSemaphore(value: 0)
    loop.execute {
      parts?.hub.stop(drain: 0) {}
      parts = nil
      done.signal()
    }
    done.wait()
    loop.stop()
    if isOwner { try? FileManager.default.removeItem(atPath: directory) }
  }

  /// The lines of the log at its default level.
  var log: [String] { sink.lines.withLock { $0 } }

  let port: UInt16

  /// Runs `body` on the loop's thread and waits for it.
  @discardableResult
  func onLoop<Value>(_ body: @escaping () -> Value) -> Value {
    nonisolated(unsafe) let body = body
    nonisolated(unsafe) var value: Value?
    let done = DispatchSemaphore(value: 0)
    loop.execute {
      value = body()
      done.signal()
    }
    done.wait()
    guard let value else { fatalError("the loop did not run it") }
    return value
  }

  func attach(_ device: Device) { onLoop { self.transport.attach(device) } }
  func detach(_ id: UInt32) { onLoop { self.transport.detach(id) } }
  func answer(_ answer: FakeTransport.Answer) { onLoop { self.transport.answer = answer } }
  func stop(drain: Int64 = 0) { onLoop { self.parts?.hub.stop(drain: drain) {} } }

  func removeServer() { onLoop { self.parts.map { $0.hub.removeServer($0.server?.identifier ?? 0) } } }

  /// On the loop's thread.
  var clientCount: Int { parts?.server?.clientCount ?? 0 }

  func client() throws -> MuxClient {
    let client = try MuxClient(path: path)
    client.other = self
    return client
  }

  /// A client with a stream to `port` of `device`, and the device's end.
  func stream(to device: Int, port: UInt16 = 8100) throws -> (client: MuxClient, device: Stream) {
    let client = try client()
    try client.send(MuxClient.connectRequest(device, port: port))
    guard try client.message().number == 0 else { throw StreamEnded() }
    return (client, try transport.farEnd())
  }
}
