internal import EventLoop

/// A stream that was opened for a caller of the library.
struct OpenedSocket {
  /// The descriptor, with the duty to close it.
  let number: CInt
  let device: Device
  let port: DevicePort
  /// What the end of the stream means.
  let end: StreamEnd
}

/// How the end of a library's stream is explained.
enum StreamEnd: Sendable {
  /// The socket tells it: an end is clean, an error is none.
  case plain
  /// The daemon is asked.
  case daemon(epoch: UInt64)
  /// The bridge to a session of this process knows.
  case bridge(UInt64)
}

/// A stream that is being opened for a caller of the library: the device is chosen, awaited if need be, and
/// chosen once more when the daemon does not know it.
final class PendingOpen: OpenHandler {
  private let selector: DeviceSelector
  private let port: DevicePort
  private let timeout: Int64
  private unowned let hub: Hub
  private var done: ((Result<OpenedSocket, MuxError>) -> Void)?
  private var attempt: (any OpenAttempt)?
  private var timer: LoopTimer?
  private var subscription: UInt64?
  private var device: Device?
  private var deadline: Int64
  private var reopensLeft = 1

  init(
    _ selector: DeviceSelector, port: DevicePort, wait: Int64, timeout: Int64, hub: Hub,
    _ done: @escaping (Result<OpenedSocket, MuxError>) -> Void
  ) {
    self.selector = selector
    self.port = port
    self.timeout = timeout
    self.hub = hub
    self.done = done
    deadline = hub.loop.now + wait
  }

  func start() {
    hub.whenReady { [weak self] in self?.choose() }
  }

  private func choose() {
    guard done != nil, attempt == nil else { return }
    do throws(MuxError) {
      let device = try selector.choose(from: hub.transport.devices)
      self.device = device
      timer = nil
      attempt = hub.transport.open(device, port: port, timeout: timeout, self)
    } catch {
      if case .ambiguousDevice = error { return fail(error) }
      wait(error)
    }
  }

  private func wait(_ error: MuxError) {
    guard timer == nil else { return }
    let left = deadline - hub.loop.now
    let problem = hub.transport.failure ?? error
    guard left > 0 else { return fail(problem) }
    timer = LoopTimer(on: hub.loop) { [unowned self] in fail(hub.transport.failure ?? problem) }
    timer?.set(after: left)
    hub.transport.lookNow()
    subscription = hub.subscribe { [weak self] _ in self?.choose() }
  }

  func opened(_ channel: consuming DeviceChannel) {
    switch consume channel {
    case .socket(let socket, let watcher, let epoch):
      watcher?.cancel()
      guard let device else { return }
      finish(
        .success(
          OpenedSocket(
            number: socket.release(), device: device, port: port, end: epoch.map(StreamEnd.daemon) ?? .plain))
      )
    case .session(let opened):
      guard let device else { return opened.discard() }
      do throws(MuxError) {
        let (number, bridge) = try hub.bridge(opened)
        finish(.success(OpenedSocket(number: number, device: device, port: port, end: .bridge(bridge))))
      } catch {
        opened.discard()
        fail(error)
      }
    }
  }

  func openFailed(_ error: OpenError) {
    attempt = nil
    switch error {
    case .unknownDevice:
      guard reopensLeft > 0 else { return fail(.deviceGone) }
      reopensLeft -= 1
      hub.transport.refresh { [weak self] in self?.choose() }
    case .failed(let error): fail(error)
    }
  }

  func fail(_ error: MuxError) {
    attempt?.cancel()
    finish(.failure(error))
  }

  private func finish(_ result: Result<OpenedSocket, MuxError>) {
    guard let done else { return }
    self.done = nil
    attempt = nil
    timer = nil
    if let subscription { hub.unsubscribe(subscription) }
    done(result)
  }
}
