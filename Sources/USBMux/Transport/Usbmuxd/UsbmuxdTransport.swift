internal import EventLoop

/// Devices and streams of a daemon that owns the device: Apple's on macOS, usbmuxd on Linux, or another
/// tunneld.
///
/// A standing Listen connection knows the devices, so that a stream costs one exchange only. When it ends it
/// is opened again, at once and then with growing pauses; a daemon that comes back is noticed by its socket.
final class UsbmuxdTransport: Transport {
  weak var observer: (any TransportObserver)?
  private(set) var failure: MuxError?
  private(set) var isReady = false

  func link(of device: Device) -> LinkStatus { LinkStatus(transport: "usbmuxd") }

  private let address: DaemonAddress
  private let loop: EventLoop
  private let listenFrame: EncodedFrame
  private let listFrame: EncodedFrame

  private var known: [Known] = []
  private var session: ListenSession?
  private var listing: DaemonExchange?
  private var retry: LoopTimer?
  private var path: PathWatcher?
  private var backoff = Backoff()
  /// Rises when the daemon is another process than before, or may be: its streams ended with it.
  private var epoch: UInt64 = 1
  private var daemonProcess: Int64 = 0
  private var connectFrames: [Target: EncodedFrame] = [:]
  private var refreshing: [() -> Void] = []
  private var verdicts = VerdictQueue()
  private var isStopped = false
  private let memory = AnswerMemory()
  /// Ids that were announced as gone before the list of devices came.
  private var goneSinceListen: Set<DeviceID> = []

  private struct Known {
    let device: Device
    /// Announced by an earlier Listen connection and not yet by this one.
    var isStale = false
  }

  private struct Target: Hashable {
    let device: DeviceID
    let port: DevicePort
  }

  /// Devices that are kept in mind. A daemon that announces more than any hub holds is not worth more memory.
  static let maximumDevices = 1024
  /// For ListDevices, nanoseconds.
  private static let listTimeout: Int64 = 2_000_000_000
  /// For the ListDevices that explains the end of a stream, nanoseconds. When it is over, a clean end is shown as a
  /// reset, since it may have been none; a busy daemon must have the time to prevent that. The Listen connection is no
  /// second witness: a daemon that is too busy to list devices has not told of a lost one either. Where it has, or is
  /// gone itself, the stream ends without this answer.
  static let verdictTimeout: Int64 = 10_000_000_000
  private let verdictTimeout: Int64

  /// - Throws: ``MuxError/system(_:)`` when property lists cannot be made.
  init(
    address: DaemonAddress, on loop: EventLoop, verdictTimeout: Int64 = UsbmuxdTransport.verdictTimeout
  ) throws(MuxError) {
    self.address = address
    self.loop = loop
    self.verdictTimeout = verdictTimeout
    listenFrame = try Self.encode(.listen, tag: 1)
    listFrame = try Self.encode(.listDevices, tag: 2)
  }

  private static func encode(_ request: ClientRequest, tag: UInt32) throws(MuxError) -> EncodedFrame {
    do {
      let info = ClientInfo(programName: "tunneld", clientVersion: "tunneld", libraryVersion: 3)
      return EncodedFrame(try request.frame(tag: tag, info: info))
    } catch {
      throw .system("a request cannot be encoded: \(error)")
    }
  }

  var devices: [Device] { known.map(\.device) }

  func start() { listen() }

  func stop() {
    session?.cancel()
    session = nil
    listing?.cancel()
    listing = nil
    isStopped = true
    for question in verdicts.cancel() { question.done(.reset) }
    retry = nil
    path = nil
  }

  // MARK: Listening

  private func listen() {
    retry = nil
    let session = ListenSession(listenFrame, with: address, on: loop) { [weak self] event in
      self?.take(event)
    }
    self.session = session
    session.start()
  }

  private func take(_ event: ListenSession.Event) {
    switch event {
    case .started: listeningStarted()
    case .attached(let record): attached(Device(record))
    case .detached(let id):
      if !isReady { goneSinceListen.insert(id) }
      detached { $0.device.id == id }
    case .ended(let error): listeningEnded(error)
    }
  }

  private func listeningStarted() {
    goneSinceListen = []
    failure = nil
    backoff.reset()
    path = nil
    let process = session?.daemonProcess ?? 0
    if process == 0 || process != daemonProcess { epoch += 1 }
    daemonProcess = process
    // The list tells when the announcements are complete, and which stale devices are gone.
    list { [weak self] records in
      guard let self else { return }
      // Announcements may still be on their way; what was announced as gone since is not added again.
      for record in records ?? [] where !goneSinceListen.contains(record.id) { attached(Device(record)) }
      detached(where: \.isStale)
      isReady = true
      observer?.transportChanged()
      finishRefresh()
    }
  }

  private func listeningEnded(_ error: MuxError) {
    let wasListening = failure == nil && isReady
    session = nil
    listing?.cancel()
    listing = nil
    for index in known.indices { known[index].isStale = true }
    // One try at once: a daemon may have closed just this connection, and its streams live on.
    if wasListening {
      isReady = false
      return listen()
    }
    failure = error
    isReady = true
    epoch += 1
    detached { _ in true }
    observer?.transportChanged()
    finishRefresh()
    pause()
  }

  private func pause() {
    watchPath()
    retry = LoopTimer(on: loop) { [unowned self] in listen() }
    retry?.set(after: backoff.next())
  }

  private func watchPath() {
    guard path == nil, case .unix(let socket) = address, let slash = socket.lastIndex(of: "/") else { return }
    let directory = slash == socket.startIndex ? "/" : String(socket[..<slash])
    path = PathWatcher(
      directory: directory, name: String(socket[socket.index(after: slash)...]), on: loop
    ) { [unowned self] in
      // The path is there before the daemon listens on it, so this may take more than one look.
      backoff.reset()
      lookNow()
    }
  }

  func lookNow() {
    guard session == nil, retry != nil else { return }
    listen()
  }

  // MARK: Devices

  private func attached(_ device: Device) {
    if let index = known.firstIndex(where: { $0.device.id == device.id }) {
      if known[index].device == device {
        known[index].isStale = false
        return
      }
      // The same number for another device: a daemon that was replaced counts from the start again.
      detached { $0.device.id == device.id }
    }
    guard known.count < Self.maximumDevices else { return }
    known.append(Known(device: device))
    observer?.attached(device)
  }

  private func detached(where matches: (Known) -> Bool) {
    let gone = known.filter(matches)
    guard !gone.isEmpty else { return }
    known.removeAll(where: matches)
    for entry in gone {
      connectFrames = connectFrames.filter { $0.key.device != entry.device.id }
      observer?.detached(entry.device)
    }
  }

  /// Asks for the devices; what the Listen connection told before the answer is taken in first.
  private func list(_ done: @escaping ([DeviceRecord]?) -> Void) {
    listing = DaemonExchange(listFrame, with: address, on: loop, timeout: Self.listTimeout, memory: memory) {
      [weak self] result, _, _ in
      guard let self else { return }
      listing = nil
      session?.catchUp()
      done((try? result.get())?.deviceList)
    }
  }

  // MARK: Refreshing

  func refresh(_ done: @escaping () -> Void) {
    refreshing.append(done)
    guard refreshing.count == 1 else { return }
    guard session != nil, isReady else { return }
    list { [weak self] records in
      guard let self else { return }
      let listed = Set((records ?? []).map(\.id))
      if records != nil && known.allSatisfy({ listed.contains($0.device.id) }) && listed.count == known.count
      {
        return finishRefresh()
      }
      // The daemon that answers is not the one that is being listened to.
      session?.cancel()
      session = nil
      isReady = false
      for index in known.indices { known[index].isStale = true }
      listen()
    }
  }

  private func finishRefresh() {
    let waiting = refreshing
    refreshing = []
    for done in waiting { done() }
  }

  // MARK: Streams

  func open(_ device: Device, port: DevicePort, timeout: Int64, _ handler: any OpenHandler) -> any OpenAttempt
  {
    switch device.connection {
    case .usb: connect(device.id, port, timeout, handler)
    case .network(let address):
      NetworkConnect(address, port: port, on: loop, timeout: timeout, handler)
    }
  }

  private func connect(
    _ device: DeviceID, _ port: DevicePort, _ timeout: Int64, _ handler: any OpenHandler
  ) -> any OpenAttempt {
    let frame: EncodedFrame
    do throws(MuxError) {
      frame = try connectFrame(Target(device: device, port: port))
    } catch {
      return FailedAttempt(.failed(error), on: loop, handler)
    }
    let epoch = epoch
    return DaemonExchange(frame, with: address, on: loop, timeout: timeout, memory: memory) {
      [weak handler] result, socket, watcher in
      guard let handler else { return }
      switch result {
      case .success(.result(.ok)):
        if let socket = consume socket { handler.opened(.socket(socket, watcher, epoch: epoch)) }
      case .success(.result(.badDevice)): handler.openFailed(.unknownDevice)
      case .success(.result(.connectionRefused)): handler.openFailed(.failed(.refused(port)))
      case .success(.result(let code)):
        handler.openFailed(.failed(.protocolViolation("usbmuxd answered Connect with: \(code)")))
      case .success:
        handler.openFailed(.failed(.protocolViolation("usbmuxd answered Connect with something else")))
      case .failure(let error): handler.openFailed(.failed(error))
      }
    }
  }

  private func connectFrame(_ target: Target) throws(MuxError) -> EncodedFrame {
    if let frame = connectFrames[target] { return frame }
    let frame = try Self.encode(.connect(target.device, target.port), tag: 3)
    // Each forward needs one; a caller that walks through ports must not fill the memory.
    if connectFrames.count >= 256 { connectFrames = [:] }
    connectFrames[target] = frame
    return frame
  }

  // MARK: Verdicts

  func verdict(on device: DeviceID, epoch: UInt64, _ done: @escaping (DeviceEnd) -> Void) {
    // Nobody listens any more for what happens to devices.
    guard !isStopped else { return done(.reset) }
    verdicts.add(VerdictQueue.Question(device: device, epoch: epoch, done: done))
    askForVerdicts()
  }

  private func askForVerdicts() {
    guard verdicts.mayAsk else { return }
    let exchange = DaemonExchange(
      listFrame, with: address, on: loop, timeout: verdictTimeout, memory: memory
    ) {
      [weak self] result, _, _ in
      guard let self else { return }
      // A daemon that died has ended the Listen connection by now.
      session?.catchUp()
      let listed = (try? result.get())?.deviceList.map { Set($0.map(\.id)) }
      for question in verdicts.answered() {
        let isThere = question.epoch == self.epoch && listed?.contains(question.device) == true
        question.done(isThere ? .clean : .reset)
      }
      askForVerdicts()
    }
    verdicts.asks(exchange)
  }
}

extension DaemonMessage {
  /// The devices, when it is a list of them.
  fileprivate var deviceList: [DeviceRecord]? {
    if case .deviceList(let records) = self { records } else { nil }
  }
}
