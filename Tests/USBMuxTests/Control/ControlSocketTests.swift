import Dispatch
import EventLoop
import Foundation
import Synchronization
import Testing

@testable import USBMux

/// Answers each line with itself, at once or when told to.
private final class EchoHandler: ControlSocketHandler {
  struct State {
    var lines: [String] = []
    var left: [UInt64] = []
    var answers = true
    var answer: (String) -> String = { $0 }
  }

  let state = Mutex(State())
  weak var socket: ControlSocket?

  func received(_ line: [UInt8], from client: UInt64) {
    let text = String(decoding: line, as: UTF8.self)
    let answer = state.withLock { state -> String? in
      state.lines.append(text)
      return state.answers ? state.answer(text) : nil
    }
    if let answer { socket?.reply(answer, to: client) }
  }

  func left(_ client: UInt64) { state.withLock { $0.left.append(client) } }
  func denied(user: UInt32?) {}
}

/// A control socket on a loop of its own, with a handler that outlives it.
private final class EchoHarness: @unchecked Sendable {
  let path: String
  let handler = EchoHandler()
  private let loop: EventLoop
  private var socket: ControlSocket?

  init(mode: UInt16 = 0o660) throws {
    path = FileManager.default.temporaryDirectory.path + "/control-\(UUID().uuidString.prefix(8))"
    loop = try EventLoop()
    socket = try ControlSocket(path, options: .init(mode: mode), on: loop, handler: handler)
    handler.socket = socket
    try loop.start()
  }

  deinit {
    nonisolated(unsafe) var parts = (socket: socket, handler: handler)
    socket = nil
    let done = DispatchSemaphore(value: 0)
    loop.execute {
      parts.socket?.close()
      parts.socket = nil
      done.signal()
    }
    done.wait()
    loop.stop()
    withExtendedLifetime(parts.handler) {}
  }

  func change(_ body: (inout EchoHandler.State) -> Void) { handler.state.withLock { body(&$0) } }
  var lines: [String] { handler.state.withLock { $0.lines } }
  var left: [UInt64] { handler.state.withLock { $0.left } }

  func reply(_ text: String, to client: UInt64) {
    loop.execute { self.handler.socket?.reply(text, to: client) }
  }

  func client() throws -> Stream {
    let descriptor = Foundation.socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
    var address = try #require(SocketAddress(path: path))
    try #require(address.connect(descriptor) == 0)
    address.port = 0
    return Stream(owning: descriptor)
  }

  func waits(until condition: () -> Bool) -> Bool {
    let deadline = Date(timeIntervalSinceNow: Stream.patience)
    while !condition() {
      if Date() > deadline { return false }
      usleep(2000)
    }
    return true
  }
}

@Suite("The control socket")
struct ControlSocketTests {
  private func line(_ stream: Stream) throws -> String {
    var bytes: [UInt8] = []
    while bytes.last != 0x0a { bytes += try stream.receive(exactly: 1) }
    return String(decoding: bytes.dropLast(), as: UTF8.self)
  }

  @Test("Lines are answered in order, however they come in")
  func answers() throws {
    let harness = try EchoHarness()
    let client = try harness.client()
    try client.send(Array("one\ntwo\n".utf8))
    #expect(try line(client) == "one")
    #expect(try line(client) == "two")
    for byte in Array("three\r\n".utf8) { try client.send([byte]) }
    #expect(try line(client) == "three")
  }

  @Test("One line at a time: the next waits for the answer")
  func oneAtATime() throws {
    let harness = try EchoHarness()
    harness.change { $0.answers = false }
    let client = try harness.client()
    try client.send(Array("one\ntwo\n".utf8))
    #expect(harness.waits { harness.lines == ["one"] })
    let other = try harness.client()
    try other.send(Array("three\n".utf8))
    #expect(harness.waits { harness.lines == ["one", "three"] })
    harness.change { $0.answers = true }
    harness.reply("1", to: 1)
    #expect(try line(client) == "1")
    #expect(try line(client) == "two")
    harness.reply("late", to: 99)
    harness.reply("twice", to: 1)
    try client.send(Array("four\n".utf8))
    #expect(try line(client) == "four", "answers to nothing are not sent")
  }

  @Test("A client that ends its sending side still gets its answer")
  func halfClose() throws {
    let harness = try EchoHarness()
    harness.change { $0.answers = false }
    let client = try harness.client()
    try client.send(Array("one\n".utf8))
    client.endSending()
    #expect(harness.waits { harness.lines == ["one"] })
    harness.reply("1", to: 1)
    #expect(try line(client) == "1")
    #expect(try client.receive() == nil)
    #expect(harness.waits { harness.left == [1] })
  }

  @Test("A client that is gone is noticed at once, also while its answer is made")
  func leaving() throws {
    let harness = try EchoHarness()
    let idle = try harness.client()
    idle.close()
    #expect(harness.waits { harness.left == [1] })
    harness.change { $0.answers = false }
    let busy = try harness.client()
    try busy.send(Array("one\n".utf8))
    #expect(harness.waits { harness.lines == ["one"] })
    busy.close()
    #expect(harness.waits { harness.left == [1, 2] })
    harness.reply("1", to: 2)
  }

  @Test("A line has a longest length, one below, at and one above")
  func limit() throws {
    let harness = try EchoHarness()
    harness.change { $0.answer = { "\($0.utf8.count)" } }
    for count in [ControlSocket.maximumLine - 1, ControlSocket.maximumLine] {
      let client = try harness.client()
      try client.send([UInt8](repeating: 0x61, count: count) + [0x0a])
      #expect(try line(client) == "\(count)")
    }
    let client = try harness.client()
    try? client.send([UInt8](repeating: 0x61, count: ControlSocket.maximumLine + 1) + [0x0a])
    #expect(try client.receive() == nil)
  }

  @Test("A client that does not read holds up nobody")
  func slowReader() throws {
    let harness = try EchoHarness()
    harness.change { $0.answer = { _ in String(repeating: "x", count: 8 << 20) } }
    let slow = try harness.client()
    try slow.send(Array("one\ntwo\n".utf8))
    #expect(harness.waits { harness.lines == ["one"] })
    harness.change { $0.answer = { $0 } }
    let other = try harness.client()
    try other.send(Array("three\n".utf8))
    #expect(try line(other) == "three")
    #expect(harness.lines == ["one", "three"], "the second line waits until the first answer is taken")
    #expect(try slow.receive(exactly: (8 << 20) + 1).count == (8 << 20) + 1)
    #expect(try line(slow) == "two")
  }

  @Test("Clients beyond the limit wait for a place")
  func manyClients() throws {
    let harness = try EchoHarness()
    var clients = try (0..<ControlSocket.maximumClients).map { _ in try harness.client() }
    for client in clients { try client.send(Array("x\n".utf8)) }
    for client in clients { #expect(try line(client) == "x") }
    let waiting = try harness.client()
    try waiting.send(Array("y\n".utf8))
    clients[3].close()
    #expect(try line(waiting) == "y")
    clients.removeAll()
  }

  @Test("Its file has the mode that was asked for, and goes with it; a second one is refused")
  func file() throws {
    var harness: EchoHarness? = try EchoHarness(mode: 0o600)
    let path = try #require(harness?.path)
    var status = stat()
    #expect(lstat(path, &status) == 0 && status.st_mode & 0o7777 == 0o600)
    let loop = try EventLoop()
    #expect {
      _ = try ControlSocket(path, on: loop, handler: try #require(harness).handler)
    } throws: {
      "\($0)".contains("another tunneld serves it")
    }
    harness = nil
    #expect(lstat(path, &status) != 0)
  }
}

@Suite("Who holds a port")
struct PortHolderTests {
  @Test("Lines of the kernel's table")
  func entries() throws {
    let four = try #require(
      SocketTableEntry(
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 51234 1 0 100"
      ))
    #expect(four.port == 8080 && four.isListening && four.inode == 51234 && four.address == [127, 0, 0, 1])
    #expect(four.isSame(as: try #require(SocketAddress(host: "127.0.0.1", port: 8080))))
    #expect(!four.isSame(as: try #require(SocketAddress(host: "127.0.0.2", port: 8080))))
    #expect(!four.isWildcard)
    let six = try #require(
      SocketTableEntry(
        "   1: 00000000000000000000000001000000:0016 00000000000000000000000000000000:0000 01 0:0 00:0 0 0 0 7 1"
      ))
    #expect(six.port == 22 && !six.isListening)
    #expect(six.isSame(as: try #require(SocketAddress(host: "::1", port: 22))))
    let any = SocketTableEntry("2: 00000000:0050 00000000:0000 0A 0:0 00:0 0 0 0 9 1")
    #expect(any?.isWildcard == true)
    for line in [
      "", "  sl  local_address rem_address   st tx_queue", "0: 0100007F:1F90", "0: zz:1 a 0A 0 0 0 0 0 9 1",
    ] {
      #expect(SocketTableEntry(line) == nil)
    }
  }

  #if os(Linux)
    @Test("This very process, when it listens")
    func own() throws {
      var bound = try BoundSockets(.address("127.0.0.1", port: 0))
      let address = try #require(bound.addresses.first)
      let socket = bound.take(0)
      #expect(PortHolder.find(address)?.process == Int(getpid()))
      #expect {
        _ = try BoundSockets(.address("127.0.0.1", port: address.port))
      } throws: {
        "\($0)".contains("by process \(getpid()) (")
      }
      _ = consume socket
      #expect(PortHolder.find(address) == nil)
    }
  #endif
}

@Suite("How long turns of a loop take")
struct TurnTimesTests {
  @Test("Buckets and quantiles")
  func buckets() {
    var turns = TurnTimes()
    #expect(turns.quantile(0.99) == 0)
    for time: Int64 in [0, 1999, 2000, 3999, 4000, -5] { turns.add(time) }
    #expect(turns.buckets.prefix(4) == [3, 2, 1, 0])
    #expect(turns.count == 6 && turns.total == 11_998 && turns.longest == 4000)
    #expect(turns.quantile(0.5) == 2e-6 && turns.quantile(1) == 4e-6)
    turns.add(.max)
    #expect(turns.buckets.last == 1 && TurnTimes.bound(TurnTimes.bucketCount - 1) == nil)
    #expect(turns.quantile(1) == Double(Int64.max) / 1e9)
  }
}
