internal import EventLoop

/// A running server: its listeners, its clients, and what it tells them. Lives on the loop's thread.
final class ServerState: ListenerOwner {
  let identifier: UInt64
  /// What the log calls it.
  let name: String
  let addresses: [SocketAddress]
  let options: ServerOptions
  let records: PairRecords
  unowned let hub: Hub
  private(set) var devices = ServedDevices()
  private var listeners = ListenerSet()
  private var clients: [UInt64: ServerClient] = [:]
  private var subscription: UInt64?

  /// Binds and listens, or throws and leaves nothing bound.
  init(
    _ identifier: UInt64, _ local: ListenAddress, _ options: ServerOptions, hub: Hub
  ) throws(MuxError) {
    self.identifier = identifier
    self.options = options
    self.hub = hub
    records = PairRecords(directory: options.lockdownDirectory, log: hub.log)
    var bound = try Self.bind(local, options)
    addresses = bound.addresses
    guard addresses.allSatisfy({ $0.isUnix || $0.isLoopback }) else {
      // The protocol knows no authentication.
      throw .cannotListen(address: "\(local)", .unusable, reason: Self.loopbackOnly)
    }
    name = "usbmuxd socket at " + (addresses.first?.description ?? local.description)
    listeners = try ListenerSet(&bound, at: local, on: hub.loop, owner: self)
    subscription = hub.subscribe { [unowned self] in take($0) }
  }

  private static let loopbackOnly =
    "phones are served on loopback addresses only; forward the port from there"

  private static func bind(_ local: ListenAddress, _ options: ServerOptions) throws(MuxError) -> BoundSockets
  {
    func refuse(_ kind: MuxError.ListenFailure, _ reason: String) -> MuxError {
      .cannotListen(address: "\(local)", kind, reason: reason)
    }
    switch local {
    case .localhost, .inherited: return try BoundSockets(local)
    case .address(let host, let port):
      guard SocketAddress(host: host, port: port)?.isLoopback == true else {
        throw refuse(.unusable, loopbackOnly)
      }
      return try BoundSockets(local)
    case .unix:
      var access = UnixSocketAccess(mode: options.socketMode & 0o777, group: nil)
      if let group = options.socketGroup {
        access.group = UnixSocketAccess.group(named: group)
        if access.group == nil { throw refuse(.unusable, "there is no group \(group)") }
      }
      do throws(MuxError) {
        return try BoundSockets(local, access: access)
      } catch {
        // The advice for ports does not fit a path.
        switch error {
        case .cannotListen(_, .inUse, _):
          throw refuse(
            .unusable, "another daemon, perhaps usbmuxd, serves it; stop that one, or choose another path")
        case .cannotListen(_, .denied, let reason):
          throw refuse(
            .unusable, "\(reason); choose a directory that you may write to, and a group that you are in")
        default: throw error
        }
      }
    }
  }

  /// Whether nobody can connect any more.
  var isClosed: Bool { listeners.isEmpty }

  /// Stops to listen, and ends all clients but those that have a stream to a device.
  func close() {
    if let subscription { hub.unsubscribe(subscription) }
    subscription = nil
    listeners.close()
    for client in clients.values where !client.isRelaying { client.stop() }
  }

  /// Ends all clients.
  func stop() {
    for client in clients.values { client.stop() }
  }

  // MARK: Clients

  var clientCount: Int { clients.count }

  func connections(at now: Int64, _ moved: MovedBytes) -> [MuxStatus.ConnectionStatus] {
    clients.values.compactMap { $0.status(at: now, moved) }
  }

  private var isFull: Bool { clients.count >= options.limits.clients }

  var mayAccept: Bool {
    guard isFull else { return hub.mayAccept }
    hub.log.limited(
      .warning, topic: "\(identifier) limit",
      "\(name): \(clients.count) programs are connected, which is the limit: others wait until one leaves")
    return false
  }

  func accepted(_ socket: consuming Descriptor, isUnix: Bool) {
    let client = ServerClient(hub.nextIdentifier(), socket: socket, isUnix: isUnix, server: self)
    clients[client.identifier] = client
    hub.statistics.accepted &+= 1
    client.start()
  }

  func cannotAccept(_ error: SystemError) { hub.cannotAccept(error) }

  func acceptAgain() { listeners.acceptAgain() }

  func ended(_ client: ServerClient) {
    let hubWasFull = hub.isFull
    let wasFull = isFull
    clients[client.identifier] = nil
    hub.clientEnded(of: self, wasFull: hubWasFull)
    if wasFull && !hubWasFull { acceptAgain() }
  }

  // MARK: Events

  private func take(_ event: DeviceEvent) {
    switch event {
    case .attached(let device): tellListeners(.attached(devices.attach(device)))
    case .detached(let device):
      guard let record = devices.detach(device) else { return }
      tellListeners(.detached(record.id), about: record)
      for client in clients.values { client.deviceLost(device) }
    }
  }

  /// A pair record was saved, for `device` where the program named one, else for the device of the record's
  /// name.
  func paired(_ record: RecordID, device: DeviceID?) {
    let known = device.flatMap { devices.device($0) == nil ? nil : $0 }
    guard let id = known ?? devices.id(named: record) else { return }
    tellListeners(.paired(id))
  }

  /// Protocol: unsolicited messages carry tag 0.
  ///
  /// The message is written once for each dialect, however many listen.
  private func tellListeners(_ message: DaemonMessage, about record: DeviceRecord? = nil) {
    let listening = clients.values.filter { $0.listener != nil }
    guard !listening.isEmpty else { return }
    let propertyList = try? EncodedFrame(message.frame(tag: 0))
    // Version 0 has no words for devices on the network, so their end means nothing there either.
    let binary =
      record?.isUSB == false ? nil : try? EncodedFrame(message.frame(tag: 0, dialect: .binary))
    for client in listening {
      switch client.listener?.dialect {
      case .propertyList: if let propertyList { client.tell(propertyList) }
      case .binary: if let binary { client.tell(binary) }
      case nil: break
      }
    }
  }

  /// The clients that listen, in the order in which they came.
  var listenerRecords: [ListenerRecord] {
    clients.values.filter { $0.listener != nil }.sorted { $0.identifier < $1.identifier }.map { client in
      let info = client.listener?.info ?? ClientInfo()
      let program = info.programName.map { UDID.cleaned($0.prefix(128)) } ?? "unknown"
      return ListenerRecord(
        bundleID: info.bundleID.map { UDID.cleaned($0.prefix(128)) } ?? "",
        identifier: "\(client.identifier)-\(program)", programName: program,
        libraryVersion: info.libraryVersion ?? 0)
    }
  }
}
