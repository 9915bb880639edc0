import EventLoop
import Foundation
import Testing

@testable import USBMux

/// Forwards as a program uses them that has the library.
@Suite("Forwards of the library", .timeLimit(.minutes(3)))
struct ForwardTests {
  private func mux(devices: Int = 1, maximumConnections: Int? = nil) throws -> Mux {
    try Mux(
      .init(
        transport: .simulated(SimulationConfiguration(devices: devices)),
        maximumConnections: maximumConnections))
  }

  private func echo(_ client: Peer, _ count: Int = 100_000) throws {
    let bytes = pattern(count)
    try together({ try client.send(bytes) }, { try expectSame(client.receive(exactly: count), bytes) })
  }

  @Test("localhost is both loopback addresses, on one port that the system picks")
  func localhost() async throws {
    let mux = try mux()
    let forward = try await mux.forward(.localhost(port: 0), to: port(7))
    let number = try #require(forward.port)
    #expect(forward.endpoints.map(\.description).contains("127.0.0.1:\(number)"))
    #expect(forward.devicePort == port(7))
    for endpoint in forward.endpoints {
      #expect(endpoint.port == number)
      try echo(try TCPListener.connect(to: number, host: endpoint.host))
    }
  }

  @Test("A Unix socket: private to its owner, and gone with its forward")
  func unixSocket() async throws {
    let path = FileManager.default.temporaryDirectory.path + "/forward-\(UUID().uuidString.prefix(8))"
    let mux = try mux()
    let forward = try await mux.forward(.unix(path: path), to: port(7))
    #expect(forward.port == nil && forward.endpoints.map(\.description) == ["unix:\(path)"])
    var status = stat()
    #expect(lstat(path, &status) == 0 && status.st_mode & 0o777 == 0o600)
    try echo(try TCPListener.connect(unix: path))
    await forward.stop()
    #expect(lstat(path, &status) != 0)
    // What a dead program left is taken over; what lives is not.
    do {
      let address = try required(SocketAddress(path: path))
      let socket = try address.makeSocket()
      try address.bind(socket.number)
    }
    let again = try await mux.forward(.unix(path: path), to: port(7))
    await #expect(throws: MuxError.self) { try await mux.forward(.unix(path: path), to: port(7)) }
    try echo(try TCPListener.connect(unix: path))
    await again.stop()
  }

  @Test("stop() frees the address at once and ends its connections, and no others")
  func stop() async throws {
    let mux = try mux()
    let other = try await mux.forward(.localhost(port: 0), to: port(7))
    let otherClient = try TCPListener.connect(to: try #require(other.port))
    try echo(otherClient)
    var number: UInt16 = 0
    for _ in 0..<20 {
      let forward = try await mux.forward(.address("127.0.0.1", port: number), to: port(7))
      number = try #require(forward.port)
      // More clients than are accepted in one slice, so that the listener is at work.
      let clients = try (0..<40).map { _ in try TCPListener.connect(to: number) }
      try echo(clients[0], 1000)
      await forward.stop()
      #expect(try clients[0].receiveToEnd().end == .reset)
    }
    try echo(otherClient)
  }

  @Test("An address in use, one that is none, one that cannot be")
  func addresses() async throws {
    let mux = try mux()
    let taken = try await mux.forward(.localhost(port: 0), to: port(7))
    let number = try #require(taken.port)
    func kind(_ address: ListenAddress) async -> MuxError.ListenFailure? {
      do throws(MuxError) {
        _ = try await mux.forward(address, to: port(7))
        return nil
      } catch {
        if case .cannotListen(_, let kind, _) = error { return kind }
        return nil
      }
    }
    #expect(await kind(.localhost(port: number)) == .inUse)
    #expect(await kind(.address("127.0.0.1", port: number)) == .inUse)
    #expect(await kind(.address("localhost", port: 0)) == .unusable)
    #expect(await kind(.address("192.0.2.1", port: 0)) == .unusable)
    #expect(await kind(.unix(path: "")) == .unusable)
    #expect(await kind(.unix(path: "/" + String(repeating: "a", count: 200))) == .unusable)
    #expect(await kind(.unix(path: "/nonexistent/socket")) == .unusable)
  }

  @Test("No device, several devices, a closed port: a reset, soon")
  func resets() async throws {
    for (devices, number) in [(0, 7), (2, 7), (1, 4444)] as [(Int, UInt16)] {
      let mux = try mux(devices: devices)
      let forward = try await mux.forward(
        .localhost(port: 0), to: port(number), options: ForwardOptions(wait: .milliseconds(50)))
      let number = try #require(forward.port)
      do {
        #expect(try TCPListener.connect(to: number).receiveToEnd().end == .reset)
      } catch let error as SystemError {
        // It was reset before this end had looked.
        #expect(error.code == ECONNRESET)
      }
    }
  }

  @Test("The longest wait and the longest times are only long")
  func longTimes() async throws {
    let mux = try mux()
    let longest = Duration.seconds(Int64.max)
    let options = ForwardOptions(wait: longest, connectTimeout: longest, halfCloseTimeout: longest)
    let forward = try await mux.forward(.localhost(port: 0), to: port(8765), options: options)
    let client = try TCPListener.connect(to: try #require(forward.port))
    try client.send(Array("GET /small HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8))
    client.endSending()
    #expect(try client.receiveToEnd().end == .clean)
  }

  @Test("At the limit of connections others wait, and all get their turn", arguments: [1, 3])
  func limit(_ limit: Int) async throws {
    let mux = try mux(maximumConnections: limit)
    let forward = try await mux.forward(.localhost(port: 0), to: port(7))
    let number = try #require(forward.port)
    let clients = try (0..<20).map { _ in try TCPListener.connect(to: number) }
    for client in clients {
      try echo(client, 1000)
      client.close()
    }
  }

  @Test("A thousand connections that fail at once, at the limit: none is forgotten, and no stack grows")
  func failingAtLimit() async throws {
    let mux = try mux(devices: 2, maximumConnections: 1)
    let forward = try await mux.forward(.localhost(port: 0), to: port(7))
    let number = try #require(forward.port)
    // Some are reset before this end has seen that they were accepted.
    let clients = (0..<1000).compactMap { _ in try? TCPListener.connect(to: number) }
    for client in clients { #expect(try client.receiveToEnd().end == .reset) }
    #expect(clients.count > 100)
  }

  @Test("Draining: connections may end by themselves, for a bounded time")
  func drain() async throws {
    let mux = try mux()
    let forward = try await mux.forward(.localhost(port: 0), to: port(7))
    let number = try #require(forward.port)
    let client = try TCPListener.connect(to: number)
    try echo(client)
    let ending = Task { await mux.shutdown(drain: .seconds(60)) }
    try await offPool {
      try eventually("it listens no more") { (try? TCPListener.connect(to: number)) == nil }
    }
    try echo(client)
    client.close()
    await ending.value
  }

  @Test("A bulk connection is reset by the time that a shutdown returns")
  func shutdownUnderLoad() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(1)])
    daemon.onConnect { _, _ in .accept([]) { peer in while (try? peer.send(pattern(1 << 20))) != nil {} } }
    let mux = try Mux(.init(transport: .usbmuxd(daemon.address)))
    let forward = try await mux.forward(.localhost(port: 0), to: port(7))
    let client = try TCPListener.connect(to: try #require(forward.port))
    // Bulk by now, and on the other thread.
    _ = try client.receive(exactly: 20_000_000)
    await mux.shutdown()
    // The relay has let go of it already: nothing more comes but what was under way.
    var state = tcp_info()
    var length = socklen_t(MemoryLayout<tcp_info>.size)
    #expect(getsockopt(client.number, CInt(IPPROTO_TCP), TCP_INFO, &state, &length) == 0)
    #expect(state.tcpi_state == 7, "TCP_CLOSE: it was reset")
    #expect(try client.receiveToEnd().end == .reset)
  }

  @Test("Forwards go with their Mux")
  func lastReference() async throws {
    var mux: Mux? = try mux()
    let forward = try await mux?.forward(.localhost(port: 0), to: port(7))
    let number = try #require(forward?.port)
    let client = try TCPListener.connect(to: number)
    try echo(client)
    mux = nil
    #expect(try client.receiveToEnd().end == .reset)
    try eventually("it listens no more") { (try? TCPListener.connect(to: number)) == nil }
  }
}
