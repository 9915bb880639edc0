import EventLoop
import Foundation
import Testing

@testable import USBMux

/// The public interface over simulated phones: all of both protocols is behind it.
@Suite("Library over simulated phones", .timeLimit(.minutes(3)))
struct SimulatedMuxTests {
  private func mux(
    devices: Int = 1, _ services: [UInt16: SimulationConfiguration.Service] = [:]
  ) throws -> Mux {
    try Mux(.init(transport: .simulated(SimulationConfiguration(devices: devices, services: services))))
  }

  private func failure(_ body: () async throws -> Void) async -> MuxError? {
    do {
      try await body()
      return nil
    } catch { return error as? MuxError }
  }

  @Test("Phones are listed in the order of their coming")
  func devices() async throws {
    let devices = try await mux(devices: 3).devices()
    #expect(
      devices.map(\.udid.description) == (1...3).map { "00008110-000000C0FFEE000\($0)" })
    #expect(devices.allSatisfy(\.isUSB) && Set(devices.map(\.id)).count == 3)
    #expect(try await mux(devices: 0).devices().isEmpty)
  }

  @Test("A stream reads while it writes")
  func echo() async throws {
    let stream = try await mux().connect(port: port(7))
    #expect(stream.port == port(7))
    let bytes = pattern(3_000_001)
    let writing = Task { try await stream.write(bytes) }
    var got: [UInt8] = []
    while got.count < bytes.count, let more = try await stream.read() { got += more }
    expectSame(got, bytes)
    try await writing.value
  }

  @Test("A read returns between one byte and the limit")
  func limits() async throws {
    let stream = try await mux().connect(port: port(7))
    try await stream.write([])
    try await stream.write([1, 2, 3])
    var got: [UInt8] = []
    for limit in [1, 0, -5] {
      let more = try #require(try await stream.read(upTo: limit))
      #expect(more.count == 1)
      got += more
    }
    #expect(got == [1, 2, 3])
  }

  @Test("An app that closes ends the stream with nil, after every byte, and again and again")
  func end() async throws {
    let stream = try await mux().connect(port: port(8765))
    try await stream.write(
      Array("GET /big?bytes=500000 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".utf8))
    var count = 0
    while let more = try await stream.read() { count += more.count }
    #expect(count > 500_000)
    #expect(try await stream.read() == nil)
    await stream.close()
    #expect(await failure { _ = try await stream.read() } == .closed)
  }

  @Test("A port at which nobody listens is refused")
  func refused() async throws {
    let mux = try mux()
    #expect(await failure { _ = try await mux.connect(port: port(4444)) } == .refused(port(4444)))
  }

  @Test("The device that is meant, or the error that says why there is none")
  func selection() async throws {
    let mux = try mux(devices: 2)
    let udids = try await mux.devices().map(\.udid)
    #expect(await failure { _ = try await mux.connect(port: port(7)) } == .ambiguousDevice(udids))
    for udid in udids {
      let stream = try await mux.connect(to: DeviceSelector(udid: UDIDPrefix(udid)), port: port(7))
      #expect(stream.device.udid == udid)
    }
    let first = try await mux.connect(to: DeviceSelector(takesFirst: true), port: port(7))
    #expect(first.device.udid == udids[0])
    let other = DeviceSelector(udid: try UDIDPrefix(parsing: "ffff"))
    #expect(
      await failure { _ = try await mux.connect(to: other, port: port(7)) } == .noSuchDevice(wanted: "ffff"))
    let none = try self.mux(devices: 0)
    #expect(await failure { _ = try await none.connect(port: port(7)) } == .noSuchDevice(wanted: nil))
  }

  @Test("close() ends a read and a write that wait")
  func closeWhileWaiting() async throws {
    let mux = try mux()
    let stream = try await mux.connect(port: port(7))
    let reading = Task { await failure { _ = try await stream.read() } }
    // An echo that nobody reads takes a bounded number of bytes.
    let other = try await mux.connect(port: port(7))
    let writing = Task { await failure { try await other.write(pattern(50_000_000)) } }
    try await stream.write([])
    await stream.close()
    #expect(await reading.value == .closed)
    await other.close()
    #expect(await writing.value == .closed)
    await stream.close()
    #expect(await failure { try await stream.write([1]) } == .closed)
    #expect(await failure { _ = try await stream.takeFileDescriptor() } == .closed)
  }

  @Test("A cancelled task gives its wait up, and the stream goes on")
  func cancellation() async throws {
    let mux = try mux()
    let stream = try await mux.connect(port: port(7))
    for _ in 0..<20 {
      let reading = Task { await failure { _ = try await stream.read() } }
      reading.cancel()
      #expect(await reading.value == .closed)
    }
    try await stream.write([9])
    #expect(try await stream.read() == [9])
    let connecting = Task {
      withUnsafeCurrentTask { $0?.cancel() }
      return await failure { _ = try await mux.connect(port: port(7)) }
    }
    #expect(await connecting.value == .closed)
  }

  @Test("A cancelled wait for a device ends at once, however long it was to be")
  func cancelledWait() async throws {
    let mux = try mux(devices: 0)
    for wait in [Duration.seconds(1000), .seconds(Int64.max), .nanoseconds(Int64.max)] {
      let connecting = Task { await failure { _ = try await mux.connect(port: port(7), wait: wait) } }
      _ = try await mux.devices()
      connecting.cancel()
      #expect(await connecting.value == .closed)
    }
    #expect(
      await failure { _ = try await mux.connect(port: port(7), wait: .seconds(Int64.min)) }
        == .noSuchDevice(wanted: nil))
  }

  @Test("A read that waits while another task cancels its own read is not disturbed")
  func twoReaders() async throws {
    let stream = try await mux().connect(port: port(7))
    let patient = Task { try await stream.read() }
    let other = Task { await failure { _ = try await stream.read() } }
    other.cancel()
    #expect(await other.value == .closed)
    try await stream.write([5])
    #expect(try await patient.value == [5])
  }

  @Test("The descriptor is the caller's once it is taken")
  func descriptor() async throws {
    let mux = try mux()
    let stream = try await mux.connect(port: port(7))
    let reading = Task { await failure { _ = try await stream.read() } }
    let peer = Peer(owning: try await stream.takeFileDescriptor())
    #expect(await reading.value == .closed)
    #expect(await failure { try await stream.write([1]) } == .closed)
    #expect(await failure { _ = try await stream.takeFileDescriptor() } == .closed)
    let flags = fcntl(peer.number, F_GETFD)
    #expect(flags & FD_CLOEXEC != 0)
    let bytes = pattern(200_000)
    try together({ try peer.send(bytes) }, { try expectSame(peer.receive(exactly: bytes.count), bytes) })
  }

  @Test("What was written before close() is delivered, and the app sees its connection end")
  func closeDelivers() async throws {
    let server = try TCPListener()
    let mux = try mux([5000: .loopback(host: "127.0.0.1", port: server.port)])
    for _ in 0..<3 {
      let stream = try await mux.connect(port: port(5000))
      let app = try server.accept()
      let bytes = pattern(60_000)
      try await stream.write(bytes)
      await stream.close()
      let got = try app.receiveToEnd()
      expectSame(got.bytes, bytes)
    }
  }

  @Test("A server on this machine behind a port of the phone, also by name")
  func loopback() async throws {
    let server = try TCPListener()
    let mux = try mux([
      5000: .loopback(host: "localhost", port: server.port), 5001: .loopback(host: "127.0.0.1", port: 1),
    ])
    let stream = try await mux.connect(port: port(5000))
    let app = try server.accept()
    try app.send([1, 2])
    #expect(try await stream.read() == [1, 2])
    app.close()
    #expect(try await stream.read() == nil)
    #expect(await failure { _ = try await mux.connect(port: port(5001)) } == .refused(port(5001)))
    #expect(throws: MuxError.self) { try self.mux([1: .loopback(host: "nowhere", port: 1)]) }
  }

  @Test("Events: first what is there, for each who asks")
  func events() async throws {
    let mux = try mux(devices: 2)
    for _ in 0..<3 {
      var attached: [UDID] = []
      for await event in mux.deviceEvents() {
        guard case .attached(let device) = event else { continue }
        attached.append(device.udid)
        if attached.count == 2 { break }
      }
      #expect(attached == (try await mux.devices().map(\.udid)))
    }
  }

  @Test("Events end when the Mux is shut down, and when it goes")
  func eventsEnd() async throws {
    let mux = try mux()
    let before = mux.deviceEvents()
    let waiting = Task { await before.reduce(0) { count, _ in count + 1 } }
    _ = try await mux.devices()
    await mux.shutdown()
    #expect(await waiting.value >= 1)
    #expect(await mux.deviceEvents().reduce(0) { count, _ in count + 1 } == 0)
    var other: Mux? = try self.mux()
    let orphan = try #require(other?.deviceEvents())
    _ = try await other?.devices()
    other = nil
    #expect(await orphan.reduce(0) { count, _ in count + 1 } >= 1)
  }

  @Test("Where no thread can be had nothing is left behind", arguments: [true, false])
  func noThread(simulated: Bool) {
    let transport: TransportChoice =
      simulated ? .simulated(SimulationConfiguration()) : .usbmuxd(.unix(path: "/nowhere/usbmuxd"))
    weak var loop: EventLoop?
    let error = #expect(throws: MuxError.self) {
      try Mux(.init(transport: transport)) { (made: EventLoop) throws(SystemError) in
        loop = made
        throw SystemError(code: EAGAIN, call: "pthread_create")
      }
    }
    if case .system = error {} else { Issue.record("\(String(describing: error))") }
    #expect(loop == nil)
  }

  @Test("After a shutdown everything is closed")
  func shutdown() async throws {
    let mux = try mux()
    let stream = try await mux.connect(port: port(7))
    let forward = try await mux.forward(.localhost(port: 0), to: port(7))
    let reading = Task { await failure { _ = try await stream.read() } }
    await mux.shutdown()
    #expect(await reading.value == .closed)
    #expect(await failure { _ = try await mux.connect(port: port(7)) } == .closed)
    #expect(await failure { _ = try await mux.connect(port: port(7), wait: .seconds(100)) } == .closed)
    #expect(await failure { _ = try await mux.devices() } == .closed)
    #expect(await failure { _ = try await mux.forward(.localhost(port: 0), to: port(7)) } == .closed)
    await forward.stop()
    await mux.shutdown()
  }

  @Test("A wait for a device ends when the Mux is shut down")
  func shutdownWhileWaiting() async throws {
    let mux = try mux(devices: 0)
    let connecting = Task {
      await failure { _ = try await mux.connect(port: port(7), wait: .seconds(1000)) }
    }
    _ = try await mux.devices()
    await mux.shutdown()
    #expect(await connecting.value == .closed)
  }

  @Test("Two shutdowns at once both return", arguments: [Duration.zero, .milliseconds(100)])
  func twoShutdowns(_ drain: Duration) async throws {
    let mux = try mux()
    let forward = try await mux.forward(.localhost(port: 0), to: port(7))
    let client = try TCPListener.connect(to: try #require(forward.port))
    try client.send([1])
    #expect(try client.receive(exactly: 1) == [1])
    let first = Task { await mux.shutdown(drain: .milliseconds(300)) }
    let second = Task { await mux.shutdown(drain: drain) }
    await first.value
    await second.value
    #expect(try client.receiveToEnd().end == .reset)
  }

  @Test("One Mux from many tasks")
  func manyTasks() async throws {
    let mux = try mux(devices: 2)
    let udids = try await mux.devices().map(\.udid)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for number in 0..<100 {
        group.addTask {
          let device = DeviceSelector(udid: UDIDPrefix(udids[number % 2]))
          let stream = try await mux.connect(to: device, port: port(7))
          let bytes = pattern(5000, seed: UInt8(number))
          try await stream.write(bytes)
          var got: [UInt8] = []
          while got.count < bytes.count, let more = try await stream.read() { got += more }
          expectSame(got, bytes)
          if number % 3 == 0 { await stream.close() }
        }
      }
      try await group.waitForAll()
    }
  }

  #if os(Linux)
    @Test("When the last reference goes, so do the thread and every descriptor")
    func nothingLeft() async {
      await #expect(processExitsWith: .success) {
        func use(_ round: Int) async throws {
          let services: [UInt16: SimulationConfiguration.Service] = [:]
          let mux = try Mux(.init(transport: .simulated(SimulationConfiguration(services: services))))
          let stream = try await mux.connect(port: port(7))
          try await stream.write([1])
          _ = try await stream.read()
          if round % 2 == 0 { await stream.close() }
          let events = mux.deviceEvents()
          if round % 3 == 0 { for await _ in events { break } }
          let forward = try await mux.forward(.localhost(port: 0), to: port(7))
          let client = try TCPListener.connect(to: try required(forward.port))
          // Past the threshold of the bulk thread.
          let bytes = pattern(1_000_000)
          for _ in 0..<(round % 4 == 0 ? 6 : 1) {
            try together({ try client.send(bytes) }, { _ = try client.receive(exactly: bytes.count) })
          }
          if round % 5 == 0 { await mux.shutdown() }
        }
        do {
          for round in 0..<4 { try await use(round) }
          let room = 3
          // What the first rounds left, threads of the runtime included, does not grow.
          let (descriptors, threads) = (Process.descriptors(), Process.threads())
          for round in 0..<30 { try await use(round) }
          try eventually("descriptors and threads are as before", within: 10) {
            Process.descriptors() <= descriptors + room && Process.threads() <= threads + room
          }
          exit(EXIT_SUCCESS)
        } catch { exit(EXIT_FAILURE) }
      }
    }
  #endif
}
