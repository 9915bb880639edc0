import Foundation

/// A service manager's end of sd_notify(3): collects the messages that a service sends.
final class NotifySocket {
  let path: String
  private let descriptor: Int32
  private let directory: String
  private(set) var messages: [String] = []

  init() throws {
    directory = try temporaryDirectory()
    path = directory + "/notify"
    #if canImport(Darwin)
      let datagram = SOCK_DGRAM
    #else
      let datagram = Int32(SOCK_DGRAM.rawValue)
    #endif
    descriptor = inheritance.withLock { () -> Int32 in
      let fd = socket(AF_UNIX, datagram, 0)
      _ = fcntl(fd, F_SETFD, FD_CLOEXEC)
      return fd
    }
    guard descriptor >= 0, Endpoint.unix(path).withAddress({ bind(descriptor, $0, $1) }) == 0 else {
      throw SystemFailure("bind \(path)")
    }
  }

  deinit {
    close(descriptor)
    try? FileManager.default.removeItem(atPath: directory)
  }

  /// Takes what is there now.
  func drain() {
    var bytes = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = recv(descriptor, &bytes, bytes.count, dontWait)
      guard count >= 0 else { return }
      messages.append(String(decoding: bytes[..<count], as: UTF8.self))
    }
  }

  /// Waits for a message with a line that begins with `line`; returns the message.
  func message(_ line: String, within seconds: Double = 5) -> String? {
    let deadline = Deadline(in: seconds)
    while true {
      drain()
      if let found = messages.first(where: { $0.split(separator: "\n").contains { $0.hasPrefix(line) } }) {
        return found
      }
      guard !deadline.passed, Socket.waitFor(descriptor, Int16(POLLIN), deadline) != 0 else { return nil }
    }
  }

  func forget() {
    drain()
    messages = []
  }

  /// Pings since ``forget()``.
  var pings: Int {
    drain()
    return messages.count { $0 == "WATCHDOG=1" }
  }
}
