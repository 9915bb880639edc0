import Foundation

/// Something did not happen in time.
struct TestTimeout: Error {}

/// The stream ended, or was reset, before what was waited for.
struct StreamEnded: Error {}

/// A blocking socket whose every wait has an end.
class Stream {
  /// Seconds. Long enough for a loaded machine; nothing waits so long when all is well.
  static let patience = 20.0

  /// Of a type that no program inherits which another test starts at the same time.
  static let streamSocket = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue)

  private(set) var descriptor: CInt
  /// What must not go before this.
  var other: AnyObject?

  init(owning descriptor: CInt) {
    self.descriptor = descriptor
    let flags = fcntl(descriptor, F_GETFL)
    _ = fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK)
    var time = timeval(tv_sec: Int(Self.patience), tv_usec: 0)
    for option in [SO_RCVTIMEO, SO_SNDTIMEO] {
      setsockopt(descriptor, SOL_SOCKET, option, &time, socklen_t(MemoryLayout<timeval>.size))
    }
  }

  deinit { close() }

  func close() {
    if descriptor >= 0 { _ = Foundation.close(descriptor) }
    descriptor = -1
  }

  func endSending() { _ = shutdown(descriptor, CInt(SHUT_WR)) }

  func send(_ bytes: [UInt8]) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = rest.withUnsafeBytes {
        Foundation.send(descriptor, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL))
      }
      guard count > 0 else { throw StreamEnded() }
      rest = rest.dropFirst(count)
    }
  }

  /// What one read brings: nil at the end, and after a reset.
  func receive(atMost limit: Int = 65536) throws -> [UInt8]? {
    var bytes = [UInt8](repeating: 0, count: limit)
    let count = recv(descriptor, &bytes, limit, 0)
    if count > 0 { return Array(bytes[..<count]) }
    if count < 0, errno == EAGAIN { throw TestTimeout() }
    return nil
  }

  func receive(exactly count: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    while bytes.count < count {
      guard let more = try receive(atMost: count - bytes.count) else { throw StreamEnded() }
      bytes += more
    }
    return bytes
  }

  /// All up to the end.
  func receiveAll() throws -> [UInt8] {
    var bytes: [UInt8] = []
    while let more = try receive() { bytes += more }
    return bytes
  }
}

extension Thread {
  /// Runs `body` on a thread of its own, which the group waits for.
  static func detachNewThread(in group: DispatchGroup, _ body: @escaping @Sendable () -> Void) {
    group.enter()
    detachNewThread {
      body()
      group.leave()
    }
  }
}

extension DispatchSemaphore {
  /// Waits for a signal; false when none came in time.
  func happens() -> Bool { wait(timeout: .now() + .seconds(Int(Stream.patience))) == .success }
}
