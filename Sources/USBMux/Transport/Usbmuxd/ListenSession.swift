internal import CSystem
internal import EventLoop

/// The standing connection on which a daemon tells of devices.
///
/// Requests on it would end it (a usbmuxd answers BadCommand and closes), so it only listens.
final class ListenSession: ReadinessHandler, Resumable {
  enum Event {
    /// The daemon accepted; the devices that are present follow at once.
    case started
    case attached(DeviceRecord)
    case detached(DeviceID)
    /// It is over. Nothing follows.
    case ended(MuxError)
  }

  /// For the connection and the daemon's Result, nanoseconds.
  private static let timeout: Int64 = 5_000_000_000
  /// Reads and messages that are handled before others get their turn: a daemon that never stops talking must not
  /// keep the thread.
  private static let slice = 2048

  private let loop: EventLoop
  private let address: DaemonAddress
  private let tell: (Event) -> Void
  private var connector: SocketConnector?
  private var socket: Descriptor?
  private var watcher: Watcher?
  private var deadline: LoopTimer?
  private var request: [UInt8]
  private var decoder = FrameDecoder(limit: FrameLimit.reply)
  private var isStarted = false
  private var isOver = false
  /// The daemon's process where it can be told, else 0.
  private(set) var daemonProcess: Int64 = 0

  init(
    _ request: EncodedFrame, with address: DaemonAddress, on loop: EventLoop,
    tell: @escaping (Event) -> Void
  ) {
    self.loop = loop
    self.address = address
    self.request = request.bytes
    self.tell = tell
  }

  func start() {
    deadline = LoopTimer(on: loop) { [unowned self] in
      end(.timeout(what: "usbmuxd's answer to Listen", seconds: Double(Self.timeout) / 1e9))
    }
    deadline?.set(after: Self.timeout)
    connector = SocketConnector(to: address, on: loop, timeout: Self.timeout) { [weak self] socket, failure in
      guard let self else { return }
      connector = nil
      if let failure { return end(MuxError(failure, at: address, seconds: Self.timeout)) }
      self.socket = consume socket
      begin()
    }
  }

  func cancel() {
    isOver = true
    release()
  }

  /// Takes in what the daemon has told by now.
  func catchUp() {
    if let number = socket?.number { receive(number) }
  }

  private func begin() {
    guard let number = socket?.number else { return }
    let process = cs_peer_process(number)
    // A socket that systemd listens on names systemd, whoever answers.
    daemonProcess = process == 1 ? 0 : process
    do throws(SystemError) {
      watcher = try Watcher(number, on: loop, handler: self)
    } catch {
      return end(.system(error.description))
    }
    send(number)
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    guard let number = socket?.number else { return }
    if readiness.contains(.write) { send(number) }
    if readiness.contains(.read) { receive(number) }
  }

  private func send(_ number: CInt) {
    while !request.isEmpty {
      let moved = unsafe request.withUnsafeBytes { bytes -> Transfer in
        guard let start = bytes.baseAddress else { return .wouldBlock }
        return unsafe Socket.send(number, from: start, count: bytes.count)
      }
      switch moved {
      case .bytes(let count): request.removeFirst(count)
      case .wouldBlock, .end:
        watcher?.wait(for: .write)
        return
      case .failed(let error): return end(.noDaemon(at: address, error))
      }
    }
  }

  private func receive(_ number: CInt) {
    for _ in 0..<Self.slice {
      guard !isOver else { return }
      do throws(FrameError) {
        if let frame = try decoder.nextFrame() {
          decode(frame)
          continue
        }
      } catch {
        return end(.protocolViolation("usbmuxd: \(error)"))
      }
      switch decoder.fill(from: number) {
      case .bytes: break
      case .wouldBlock:
        watcher?.wait(for: .read)
        return
      case .end: return end(.noDaemon(address: "\(address)", reason: "it closed the connection"))
      case .failed(let error): return end(.noDaemon(at: address, error))
      }
    }
    loop.resume(self)
  }

  func resume() { catchUp() }

  private func decode(_ frame: Frame) {
    let message: DaemonMessage
    do throws(MessageError) {
      message = try DaemonMessage.decode(frame)
    } catch {
      // Events that are not known (yet) are none of our business.
      if isStarted && error.isUnknownKind { return }
      return end(.protocolViolation("usbmuxd: \(error)"))
    }
    switch message {
    case .result(.ok) where !isStarted:
      isStarted = true
      deadline = nil
      tell(.started)
    case .result(let code): end(.protocolViolation("usbmuxd refused to be listened to: \(code)"))
    case .attached(let record): tell(.attached(record))
    case .detached(let id): tell(.detached(id))
    case .paired, .deviceList, .listenerList, .buid, .pairRecord: break
    }
  }

  private func end(_ error: MuxError) {
    guard !isOver else { return }
    isOver = true
    release()
    tell(.ended(error))
  }

  private func release() {
    watcher.drop()
    deadline = nil
    connector?.cancel()
    connector = nil
    socket = nil
  }
}

extension MessageError {
  /// A message of a kind that this version does not know, as opposed to a broken one.
  fileprivate var isUnknownKind: Bool {
    switch self {
    case .unknownType, .unknownMessage: true
    default: false
    }
  }
}
