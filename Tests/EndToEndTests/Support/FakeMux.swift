import Foundation

/// A usbmuxd made for tests: speaks the client protocol on a socket, has no devices but those that
/// the test attaches. Written apart from the project's own code, so that a shared mistake shows.
///
/// One thread owns all sockets; `MuxState` is only touched under the monitor's lock.
final class FakeMux: @unchecked Sendable {
  private let monitor = Monitor()
  private let state: MuxState
  private let directory: String?
  let endpoint: Endpoint

  /// Listens on a new Unix socket, or at `endpoint` (port 0: a free one).
  init(at endpoint: Endpoint? = nil, listening: Bool = true) throws {
    signal(SIGPIPE, SIG_IGN)
    var place = endpoint ?? .unix("")
    if endpoint == nil {
      let path = try temporaryDirectory()
      directory = path
      place = .unix(path + "/mux")
    } else {
      directory = nil
    }
    state = try MuxState()
    if listening { place = try state.listen(place) }
    self.endpoint = place
    let loop = state
    let monitor = monitor
    Thread { MuxState.run(loop, monitor) }.start()
  }

  deinit {
    change { $0.stop() }
    if let directory { try? FileManager.default.removeItem(atPath: directory) }
  }

  /// What `USBMUXD_SOCKET_ADDRESS` must say.
  var address: String {
    switch endpoint {
    case .unix(let path): "UNIX:" + path
    case .ipv4, .ipv6: "\(endpoint)"
    }
  }

  var path: String {
    if case .unix(let path) = endpoint { path } else { "" }
  }

  // MARK: looking and waiting

  func change<Result>(_ body: (MuxState) throws -> Result) rethrows -> Result {
    let result = try monitor.changing { try body(state) }
    state.wake()
    return result
  }

  func read<Result>(_ body: (MuxState) throws -> Result) rethrows -> Result {
    try monitor.reading { try body(state) }
  }

  func wait(within seconds: Double = 5, until body: (MuxState) -> Bool) -> Bool {
    monitor.wait(within: seconds) { body(state) }
  }

  /// Streams that are open now, and all that ever were.
  var openStreams: Int { read { $0.openStreams } }
  var streamCount: Int { read { $0.streams.count } }
  /// The stream that was opened as number `index`, counted from 0; negative from the end.
  func stream(_ index: Int) -> StreamReport? {
    read { state in
      let position = index < 0 ? state.streams.count + index : index
      return state.streams.indices.contains(position) ? state.streams[position].report : nil
    }
  }
  var connects: [ConnectRequest] { read { $0.connects } }
  /// What a client did that no client may do.
  var violations: [String] { read { $0.violations } }

  // MARK: devices

  @discardableResult
  func attach(_ serial: String, kind: FakeDevice.Kind = .usb, ports: [UInt16: Port] = [:]) -> Int {
    change { $0.attach(serial, kind, ports) }
  }

  /// Real usbmuxd closes the streams first and tells the listeners afterwards.
  func detach(_ id: Int, eventFirst: Bool = false) { change { $0.detach(id, eventFirst: eventFirst) } }

  /// Unplugs and plugs in again: the phone gets a new number.
  @discardableResult
  func replug(_ id: Int) -> Int {
    change { state in
      guard let device = state.devices.first(where: { $0.id == id }) else { return id }
      state.detach(id, eventFirst: false)
      return state.attach(device.serial, device.kind, device.ports)
    }
  }

  func setPort(_ number: UInt16, _ port: Port) { change { $0.ports[number] = port } }
  func setStyle(_ kind: RequestKind, _ style: ReplyStyle) { change { $0.styles[kind] = style } }
  func setStyleOfAll(_ style: ReplyStyle) {
    change { for kind in RequestKind.allCases { $0.styles[kind] = style } }
  }

  // MARK: the daemon's life

  /// As if the process had been killed: every socket is closed, the path is removed.
  func die() { change { $0.die() } }
  /// A new process at the same path, with numbers of its own.
  func start() throws { try change { _ = try $0.listen(endpoint) } }
  /// Ends the connections that are in the Listen state, and nothing else.
  func cutListeners() { change { $0.cutListeners() } }

  /// A plain TCP server beside usbmuxd, served like a port of the phone: for phones on the network
  /// and for servers behind the simulated phone. Returns its port.
  func servePlainly(_ service: Service, at endpoint: Endpoint = .loopback(0)) throws -> UInt16 {
    try change { try $0.servePlainly(service, at: endpoint) }
  }
}

func temporaryDirectory() throws -> String {
  var template = Array("/tmp/tunneld-test-XXXXXX".utf8CString)
  guard mkdtemp(&template) != nil else { throw SystemFailure("mkdtemp") }
  return String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
