import CSystem
import EventLoop
import Foundation
import Glibc
import Testing

@testable import USBMux

/// A socket's end in the hands of a test. Every call that waits does so for a bounded time.
final class Peer: @unchecked Sendable {
  /// How a stream ended.
  enum End: Equatable {
    case clean
    case reset
  }

  private(set) var number: CInt

  init(owning number: CInt) {
    self.number = number
    _ = fcntl(number, F_SETFL, fcntl(number, F_GETFL) | O_NONBLOCK)
  }

  deinit { close() }

  func close() {
    if number >= 0 { _ = Foundation.close(number) }
    number = -1
  }

  /// Closes with a reset (TCP).
  func abort() {
    _ = cs_reset_on_close(number)
    close()
  }

  func endSending() { _ = shutdown(number, CInt(SHUT_WR)) }

  /// Sends what the kernel takes at once; returns how many bytes that were.
  func sendSome(_ bytes: ArraySlice<UInt8>) throws -> Int {
    let count = bytes.withUnsafeBytes { Glibc.send(number, $0.baseAddress, $0.count, CInt(MSG_NOSIGNAL)) }
    if count >= 0 { return count }
    guard errno == EAGAIN else { throw SystemError(code: errno, call: "send") }
    return 0
  }

  /// Sends all.
  func send(_ bytes: [UInt8]) throws {
    var rest = bytes[...]
    while !rest.isEmpty {
      let count = try sendSome(rest)
      rest = rest.dropFirst(count)
      if count == 0 { try wait(for: POLLOUT) }
    }
  }

  /// Sends until nothing more is taken for a while; returns how much went.
  func fill(_ bytes: [UInt8], quietMilliseconds: CInt = 200) throws -> Int {
    var sent = 0
    while sent < bytes.count {
      let count = try sendSome(bytes[sent...])
      sent += count
      if count == 0, !isReady(for: POLLOUT, milliseconds: quietMilliseconds) { break }
    }
    return sent
  }

  /// Whether the socket becomes ready in so many milliseconds.
  func isReady(for events: CInt, milliseconds: CInt) -> Bool {
    var entry = pollfd(fd: number, events: Int16(events), revents: 0)
    return poll(&entry, 1, milliseconds) > 0
  }

  private func wait(for events: CInt) throws {
    guard isReady(for: events, milliseconds: CInt(patience * 1000)) else { throw TooLate("a socket") }
  }

  /// What is there, or what comes first; empty at a clean end.
  private func receiveSome(_ limit: Int) throws -> [UInt8] {
    while true {
      var count = 0
      let bytes = [UInt8](unsafeUninitializedCapacity: limit) { buffer, initialized in
        count = recv(number, buffer.baseAddress, limit, 0)
        initialized = max(count, 0)
      }
      if count >= 0 { return bytes }
      guard errno == EAGAIN else { throw SystemError(code: errno, call: "recv") }
      try wait(for: POLLIN)
    }
  }

  func receive(exactly count: Int) throws -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(count)
    while bytes.count < count {
      let more = try receiveSome(min(count - bytes.count, 1 << 20))
      guard !more.isEmpty else { throw TooLate("\(count) bytes, only \(bytes.count) before the end") }
      bytes += more
    }
    return bytes
  }

  /// All that comes, and how it ends.
  func receiveToEnd() throws -> (bytes: [UInt8], end: End) {
    var bytes: [UInt8] = []
    while true {
      do {
        let more = try receiveSome(1 << 18)
        if more.isEmpty { return (bytes, .clean) }
        bytes += more
      } catch let error as SystemError where error.code == ECONNRESET || error.code == EPIPE {
        return (bytes, .reset)
      }
    }
  }

  /// Whether anything can be read now.
  var hasBytes: Bool { isReady(for: POLLIN, milliseconds: 0) }
}

/// Two connected sockets: one for the code under test, one for the test.
enum Pair {
  static func unix() throws -> (CInt, Peer) {
    var ends: [CInt] = [-1, -1]
    guard cs_socketpair(&ends) == 0 else { throw SystemError.last("socketpair") }
    return (ends[0], Peer(owning: ends[1]))
  }

  /// The test's end is the one that connected, as a client's.
  static func tcp() throws -> (CInt, Peer) {
    let listener = try TCPListener()
    let client = try TCPListener.connect(to: listener.port)
    return (try listener.acceptNumber(), client)
  }
}

/// A listening socket on the loopback, in the hands of a test.
final class TCPListener: @unchecked Sendable {
  private let socket: Descriptor
  let port: UInt16

  init() throws {
    let address = try required(SocketAddress(host: "127.0.0.1", port: 0))
    let socket = try address.makeSocket()
    try address.bind(socket.number)
    try ListeningSocket.listen(socket.number, backlog: 64)
    port = try required(SocketAddress.bound(socket.number)).port
    self.socket = consume socket
  }

  static func connect(to port: UInt16, host: String = "127.0.0.1") throws -> Peer {
    let address = try required(SocketAddress(host: host, port: port))
    let socket = try address.makeSocket()
    let code = address.connect(socket.number)
    guard code == 0 || code == EINPROGRESS else { throw SystemError(code: code, call: "connect") }
    let peer = Peer(owning: socket.release())
    guard peer.isReady(for: POLLOUT, milliseconds: CInt(patience * 1000)) else { throw TooLate("connect") }
    let error = cs_socket_error(peer.number)
    guard error == 0 else { throw SystemError(code: error, call: "connect") }
    return peer
  }

  static func connect(unix path: String) throws -> Peer {
    let address = try required(SocketAddress(path: path))
    let socket = try address.makeSocket()
    let code = address.connect(socket.number)
    guard code == 0 else { throw SystemError(code: code, call: "connect") }
    return Peer(owning: socket.release())
  }

  func acceptNumber() throws -> CInt {
    var entry = pollfd(fd: socket.number, events: Int16(POLLIN), revents: 0)
    guard poll(&entry, 1, Int32(patience * 1000)) > 0 else { throw TooLate("accept") }
    let number = cs_accept(socket.number)
    guard number >= 0 else { throw SystemError.last("accept") }
    return number
  }

  func accept() throws -> Peer { Peer(owning: try acceptNumber()) }
}

/// Bytes in which every place is different enough that a lost, repeated or moved one shows.
func pattern(_ count: Int, seed: UInt8 = 0) -> [UInt8] {
  let block = 4096
  var template = [UInt8](repeating: 0, count: block)
  var state = UInt32(seed) &+ 0x9e37_79b9
  for index in template.indices {
    state = state &* 1_664_525 &+ 1_013_904_223
    template[index] = UInt8(truncatingIfNeeded: state >> 24)
  }
  var bytes: [UInt8] = []
  bytes.reserveCapacity(count + block)
  var number: UInt64 = 0
  while bytes.count < count {
    withUnsafeBytes(of: number) { template.replaceSubrange(0..<8, with: $0) }
    bytes += template
    number += 1
  }
  bytes.removeLast(bytes.count - count)
  return bytes
}

/// Whether two runs of bytes are equal, without the time that `==` takes in a debug build.
func same(_ left: [UInt8], _ right: [UInt8]) -> Bool {
  left.count == right.count
    && left.withUnsafeBytes { left in
      right.withUnsafeBytes { right in
        guard let first = left.baseAddress, let second = right.baseAddress else { return left.isEmpty }
        return memcmp(first, second, left.count) == 0
      }
    }
}

/// Records an issue where the bytes differ; says the first place.
func expectSame(
  _ found: [UInt8], _ expected: [UInt8], sourceLocation: SourceLocation = #_sourceLocation
) {
  guard !same(found, expected) else { return }
  let place = zip(found, expected).enumerated().first { $1.0 != $1.1 }?.offset
  Issue.record(
    "\(found.count) bytes for \(expected.count), different from \(place.map(String.init) ?? "the end") on",
    sourceLocation: sourceLocation)
}

/// What a test cannot go on without.
func required<Value>(_ value: Value?) throws -> Value {
  guard let value else { throw TooLate("a value") }
  return value
}

/// A port on the device.
func port(_ number: UInt16) -> DevicePort { DevicePort(number) ?? .lockdown }

/// Descriptors and threads of this process.
enum Process {
  static func descriptors() -> Int { count("/proc/self/fd") }
  static func threads() -> Int { count("/proc/self/task") }
  private static func count(_ directory: String) -> Int {
    (try? FileManager.default.contentsOfDirectory(atPath: directory).count) ?? 0
  }
}
