internal import EventLoop

/// A stream of bytes to and from a port on a device.
///
/// One task may read while another one writes. The stream is closed by ``close()``, or when its last reference
/// goes. The device link has no half-close, so there is none here.
public actor DeviceStream {
  /// The device at the other end.
  public nonisolated let device: Device
  /// The port at the other end.
  public nonisolated let port: DevicePort

  private let engine: Engine
  private let meaning: StreamEnd
  private let waiter: ReadinessWaiter
  private var socket: Descriptor?
  /// How the device's side ended, once it has.
  private var ended: Result<Void, MuxError>?

  /// The loop's thread.
  nonisolated public var unownedExecutor: UnownedSerialExecutor {
    unsafe engine.unownedExecutor
  }

  /// On the loop's thread.
  init(_ opened: OpenedSocket, engine: Engine) throws(SystemError) {
    let socket = Descriptor(owning: opened.number)
    waiter = try ReadinessWaiter(socket.number, on: engine.loop)
    self.socket = consume socket
    self.engine = engine
    device = opened.device
    port = opened.port
    meaning = opened.end
  }

  isolated deinit {
    waiter.cancel()
    engine.assumeIsolated { $0.forget(meaning) }
  }

  /// Reads what is there, and waits for the first byte when nothing is.
  ///
  /// - Parameter limit: The most bytes to return, at least 1.
  /// - Returns: Between 1 and `limit` bytes; nil when the app has closed its side, after all of its bytes.
  /// - Throws: ``MuxError/deviceGone`` when the device, or the daemon that leads to it, was lost;
  ///   ``MuxError/closed`` after ``close()``, when the task is cancelled, and for every end but a clean one once the
  ///   ``Mux`` was shut down.
  public func read(upTo limit: Int = 65536) async throws(MuxError) -> [UInt8]? {
    while true {
      guard let number = socket?.number else { throw .closed }
      if let ended {
        try ended.get()
        return nil
      }
      var outcome = Transfer.wouldBlock
      let bytes = unsafe [UInt8](unsafeUninitializedCapacity: max(limit, 1)) { buffer, count in
        count = 0
        guard let start = buffer.baseAddress else { return }
        outcome = unsafe Socket.receive(number, into: start, count: buffer.count)
        if case .bytes(let received) = outcome { count = received }
      }
      switch outcome {
      case .bytes: return bytes
      case .wouldBlock:
        guard await wait(for: .read) else { throw .closed }
      case .end: await end(socketFailed: false)
      case .failed: await end(socketFailed: true)
      }
    }
  }

  /// Delivers all of `bytes` to the device, waiting while it takes none.
  ///
  /// - Throws: ``MuxError/deviceGone`` when the app or the device closed; ``MuxError/closed`` after ``close()``,
  ///   when the task is cancelled, or once the ``Mux`` was shut down. An unknown part of the bytes was delivered then.
  public func write(_ bytes: [UInt8]) async throws(MuxError) {
    var offset = 0
    while offset < bytes.count {
      guard let number = socket?.number else { throw .closed }
      let outcome = unsafe bytes.withUnsafeBytes { buffer -> Transfer in
        guard let start = buffer.baseAddress else { return .wouldBlock }
        return unsafe Socket.send(number, from: start + offset, count: buffer.count - offset)
      }
      switch outcome {
      case .bytes(let sent): offset += sent
      case .wouldBlock, .end:
        guard await wait(for: .write) else { throw .closed }
      case .failed: throw await engine.lossOfStream
      }
    }
  }

  /// Closes the stream; the device sees its connection end. Reads and writes that wait throw
  /// ``MuxError/closed``.
  public func close() {
    waiter.cancel()
    socket = nil
  }

  /// Gives the connected stream socket away, with the duty to close it: non-blocking, closed on exec. The
  /// stream cannot be used any more.
  ///
  /// The socket's end does not tell a closed app from a lost device, as ``read(upTo:)`` does.
  ///
  /// - Throws: ``MuxError/closed`` when the stream is closed.
  public func takeFileDescriptor() throws(MuxError) -> Int32 {
    guard let taken = socket.take() else { throw .closed }
    waiter.cancel()
    return taken.release()
  }

  private func wait(for interest: Readiness) async -> Bool {
    let name = waiter.nextName()
    return await withTaskCancellationHandler {
      await waiter.wait(for: interest, name)
    } onCancel: {
      engine.loop.execute { [weak self] in
        self?.assumeIsolated { $0.waiter.giveUp(name) }
      }
    }
  }

  /// Finds out how the device's side ended.
  private func end(socketFailed: Bool) async {
    let end = await engine.explain(meaning, on: device.id, socketFailed: socketFailed)
    ended = end == .clean ? .success(()) : .failure(await engine.lossOfStream)
  }
}

/// Lets tasks wait for a descriptor to be ready. Lives on the loop's thread.
final class ReadinessWaiter: ReadinessHandler {
  private var watcher: Watcher?
  private var readers: [UInt64: CheckedContinuation<Bool, Never>] = [:]
  private var writers: [UInt64: CheckedContinuation<Bool, Never>] = [:]
  private var last: UInt64 = 0
  /// Readiness that was told while nobody waited: the next one who does must look once more.
  private var told: Readiness = []

  init(_ descriptor: CInt, on loop: EventLoop) throws(SystemError) {
    watcher = try Watcher(descriptor, on: loop, handler: self)
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    told.formUnion(readiness)
    if readiness.contains(.read) { wake(\.readers, .read) }
    if readiness.contains(.write) { wake(\.writers, .write) }
  }

  func cancel() {
    watcher.drop()
    for path in [\ReadinessWaiter.readers, \ReadinessWaiter.writers] {
      let waiting = self[keyPath: path]
      self[keyPath: path] = [:]
      for continuation in waiting.values { continuation.resume(returning: false) }
    }
  }

  /// A name for a wait that can be given up.
  func nextName() -> UInt64 {
    last &+= 1
    return last
  }

  /// Waits for `interest`, which is one of read and write.
  ///
  /// - Returns: False when it was cancelled or given up.
  func wait(
    for interest: Readiness, _ name: UInt64, isolation: isolated (any Actor)? = #isolation
  ) async -> Bool {
    guard let watcher, !Task.isCancelled else { return false }
    if told.contains(interest) {
      told.subtract(interest)
      return true
    }
    watcher.wait(for: interest)
    return await withCheckedContinuation { continuation in
      if interest == .read { readers[name] = continuation } else { writers[name] = continuation }
    }
  }

  /// Ends one wait: its task was cancelled.
  func giveUp(_ name: UInt64) {
    (readers.removeValue(forKey: name) ?? writers.removeValue(forKey: name))?.resume(returning: false)
  }

  private func wake(
    _ path: ReferenceWritableKeyPath<ReadinessWaiter, [UInt64: CheckedContinuation<Bool, Never>]>,
    _ readiness: Readiness
  ) {
    let waiting = self[keyPath: path]
    guard !waiting.isEmpty else { return }
    told.subtract(readiness)
    self[keyPath: path] = [:]
    for continuation in waiting.values { continuation.resume(returning: true) }
  }
}
