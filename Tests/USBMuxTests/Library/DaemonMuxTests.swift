import Foundation
import Testing

@testable import MuxProtocol
@testable import USBMux

/// The public interface over a usbmuxd that the test plays.
@Suite("Library over a usbmuxd", .timeLimit(.minutes(3)))
struct DaemonMuxTests {
  static let alpha = "00008110000000000000000A"
  static let beta = "00008110000000000000000B"

  private func mux(_ daemon: ScriptedDaemon) throws -> Mux {
    try Mux(.init(transport: .usbmuxd(daemon.address)))
  }

  private func failure(_ body: () async throws -> Void) async -> MuxError? {
    do {
      try await body()
      return nil
    } catch { return error as? MuxError }
  }

  private func connectFailure(_ daemon: ScriptedDaemon, timeout: Duration = .seconds(10)) async throws
    -> MuxError?
  {
    let mux = try mux(daemon)
    return await failure { _ = try await mux.connect(port: port(8765), timeout: timeout) }
  }

  private func isViolation(_ error: MuxError?) -> Bool {
    if case .protocolViolation = error { true } else { false }
  }

  // MARK: Streams

  @Test("A stream, whose first bytes stand right behind the daemon's answer", arguments: [false, true])
  func stream(dribbles: Bool) async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    if dribbles { daemon.dribble() }
    let greeting = pattern(5000)
    daemon.onConnect { device, port in
      #expect(device.rawValue == 7 && port.number == 8765)
      return .accept(greeting) { peer in
        do {
          try peer.send(try peer.receive(exactly: 100_000))
          peer.close()
        } catch { Issue.record(error) }
      }
    }
    let stream = try await mux(daemon).connect(port: port(8765))
    var got: [UInt8] = []
    while got.count < greeting.count, let more = try await stream.read() { got += more }
    expectSame(got, greeting)
    let bytes = pattern(100_000, seed: 3)
    try await stream.write(bytes)
    got = []
    while let more = try await stream.read(upTo: 777) { got += more }
    expectSame(got, bytes)
  }

  @Test("A lost device is no clean end: unplugged, or its daemon dead; what came before is delivered first")
  func lost() async throws {
    for dies in [false, true] {
      let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
      let streams = Box<[Peer]>([])
      daemon.onConnect { _, _ in
        .accept([1, 2, 3]) { peer in
          streams.change { $0.append(peer) }
          _ = try? peer.receiveToEnd()
        }
      }
      let stream = try await mux(daemon).connect(port: port(8765))
      try eventually("the stream") { streams.value.count == 1 }
      if dies {
        daemon.kill()
      } else {
        // As usbmuxd does: the device goes from its list, and the stream is closed.
        try daemon.detach(7)
        Foundation.shutdown(streams.value[0].number, CInt(SHUT_RDWR))
      }
      #expect(try await stream.read() == [1, 2, 3])
      #expect(await failure { _ = try await stream.read() } == .deviceGone)
      #expect(await failure { _ = try await stream.read() } == .deviceGone)
    }
  }

  @Test("Bulk is carried on the second thread, and small messages again on the first")
  func placesOfBulk() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    let big = pattern(8_000_000)
    daemon.onConnect { _, _ in
      .accept { peer in
        do {
          while let order = try peer.receive(exactly: 1).first, order != 0 {
            try peer.send(order == 1 ? big : [order])
          }
          peer.close()
        } catch { Issue.record(error) }
      }
    }
    let mux = try mux(daemon)
    let forward = try await mux.forward(.localhost(port: 0), to: port(8765))
    let client = try TCPListener.connect(to: try #require(forward.port))
    @Sendable func messages(_ count: Int) throws {
      for _ in 0..<count {
        try client.send([2])
        #expect(try client.receive(exactly: 1) == [2])
      }
    }
    // The turns of the second thread that are not the question's own.
    func turns() async -> UInt64 { await mux.status().loops.first { $0.name == "bulk" }?.turns.count ?? 0 }
    try await offPool { try messages(5000) }
    #expect(await turns() == 0, "there is no second thread yet")
    for _ in 1...2 {
      try await offPool {
        try client.send([1])
        try expectSame(client.receive(exactly: big.count), big)
        try messages(2 * Pace.quietTurns)
      }
      let before = await turns()
      #expect(before > 0)
      try await offPool { try messages(1000) }
      let after = await turns()
      #expect(after < before + 100, "a thousand messages were not carried there")
    }
    try client.send([0])
    client.close()
  }

  @Test("The Listen connection alone may end: streams live on, and their ends are still told apart")
  func listenEnds() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { _, _ in
      .accept { peer in
        _ = try? peer.receive(exactly: 1)
        peer.close()
      }
    }
    let mux = try mux(daemon)
    let stream = try await mux.connect(port: port(8765))
    daemon.dropListeners()
    try eventually("it listens again") { daemon.requests.count { $0 == .listen } == 2 }
    #expect(try await mux.devices().count == 1)
    try await stream.write([1])
    #expect(try await stream.read() == nil)
  }

  @Test("A write to a stream that the app closed")
  func writeAfterEnd() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { _, _ in .accept { $0.close() } }
    let stream = try await mux(daemon).connect(port: port(8765))
    #expect(try await stream.read() == nil)
    #expect(await failure { try await stream.write([1]) } == .deviceGone)
  }

  @Test("A write that waits for a device that takes nothing can be cancelled")
  func cancelledWrite() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    let released = DispatchSemaphore(value: 0)
    daemon.onConnect { _, _ in .accept { _ in _ = released.wait(timeout: .now() + patience) } }
    defer { released.signal() }
    let stream = try await mux(daemon).connect(port: port(8765))
    let writing = Task { await failure { try await stream.write(pattern(10_000_000)) } }
    writing.cancel()
    #expect(await writing.value == .closed)
  }

  @Test("A stream outlives its Mux")
  func outlives() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { _, _ in
      .accept { peer in
        _ = try? peer.send(peer.receive(exactly: 3))
        peer.close()
      }
    }
    var mux: Mux? = try mux(daemon)
    let stream = try #require(try await mux?.connect(port: port(8765)))
    mux = nil
    try await stream.write([1, 2, 3])
    #expect(try await stream.read() == [1, 2, 3])
    #expect(try await stream.read() == nil)
  }

  // MARK: Errors

  @Test("No daemon: said so at once, and after a wait; one that comes in time serves")
  func noDaemon() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)], starts: false)
    daemon.onConnect { _, _ in .accept([1]) { $0.close() } }
    let mux = try mux(daemon)
    let expected = MuxError.noDaemon(address: "\(daemon.address)", reason: "No such file or directory")
    #expect(await failure { _ = try await mux.devices() } == expected)
    #expect(await failure { _ = try await mux.connect(port: port(8765)) } == expected)
    #expect(
      await failure { _ = try await mux.connect(port: port(8765), wait: .milliseconds(50)) } == expected)
    let connecting = Task { try await mux.connect(port: port(8765), wait: .seconds(60)) }
    try daemon.start()
    #expect(try await connecting.value.read() == [1])
    #expect(try await mux.devices().count == 1)
  }

  @Test("Results of Connect: refused, an unknown device, anything else")
  func results() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { _, _ in .result(.connectionRefused) }
    #expect(try await connectFailure(daemon) == .refused(port(8765)))
    daemon.onConnect { _, _ in .result(.badDevice) }
    #expect(try await connectFailure(daemon) == .deviceGone)
    // It was looked for once more, and then given up.
    #expect(
      daemon.requests.count {
        if case .connect = $0 { true } else { false }
      } == 3)
    for code in [ResultCode.badCommand, .badVersion, .other(77)] {
      daemon.onConnect { _, _ in .result(code) }
      #expect(isViolation(try await connectFailure(daemon)))
    }
  }

  @Test("A device that was renumbered in the meantime is found again")
  func renumbered() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { [weak daemon] device, _ in
      guard device.rawValue == 7 else { return .accept([8]) }
      try? daemon?.detach(7)
      try? daemon?.attach(ScriptedDaemon.device(8))
      return .result(.badDevice)
    }
    let stream = try await mux(daemon).connect(port: port(8765))
    #expect(stream.device.id.rawValue == 8)
    #expect(try await stream.read() == [8])
  }

  @Test("A daemon that never answers Connect")
  func timeout() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { _, _ in .silence }
    let error = try await connectFailure(daemon, timeout: .milliseconds(50))
    guard case .timeout(_, let seconds) = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(seconds == 0.05)
  }

  static let garbageAnswers: [(String, [UInt8])] = [
    ("length 0", [UInt8](repeating: 0, count: 16)),
    ("length 15", [15] + [UInt8](repeating: 0, count: 15)),
    ("length 4 GiB", [UInt8](repeating: 0xff, count: 16)),
    ("no property list", [20, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 1, 2, 3, 4]),
    ("an end in mid-frame", [200, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 60]),
    ("nothing", []),
  ]

  @Test("Answers that are none", arguments: DaemonMuxTests.garbageAnswers)
  func garbage(_ name: String, _ bytes: [UInt8]) async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { _, _ in .raw(bytes, ends: true) }
    #expect(isViolation(try await connectFailure(daemon)))
    // The others live on.
    daemon.onConnect { _, _ in .accept([1]) }
    #expect(try await mux(daemon).connect(port: port(8765)).read() == [1])
  }

  @Test("An answer to another request")
  func wrongTag() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    let bytes = EncodedFrame(try DaemonMessage.result(.ok).frame(tag: 4711)).bytes
    daemon.onConnect { _, _ in .raw(bytes, ends: false) }
    #expect(isViolation(try await connectFailure(daemon)))
    let list = EncodedFrame(try DaemonMessage.deviceList([]).frame(tag: 3)).bytes
    daemon.onConnect { _, _ in .raw(list, ends: false) }
    #expect(isViolation(try await connectFailure(daemon)))
  }

  @Test(
    "A Listen that is answered with garbage, or refused", arguments: DaemonMuxTests.garbageAnswers.prefix(4))
  func listenGarbage(_ name: String, _ bytes: [UInt8]) async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onListen(.raw(bytes, ends: true))
    let mux = try mux(daemon)
    #expect(isViolation(await failure { _ = try await mux.devices() }))
    daemon.onListen(.result(.badCommand))
    let other = try self.mux(daemon)
    #expect(isViolation(await failure { _ = try await other.devices() }))
    // It recovers when the daemon does.
    daemon.onListen(nil)
    let devices = mux.deviceEvents()
    for await event in devices {
      guard case .attached(let device) = event else { continue }
      #expect(device.id.rawValue == 7)
      break
    }
  }

  @Test("Permission denied")
  func permission() {
    let error = MuxError.noDaemon(at: .unix(path: "/x"), .init(code: EACCES, call: "connect"))
    guard case .permissionDenied(let what, _) = error else {
      Issue.record("\(error)")
      return
    }
    #expect(what.contains("/x"))
  }

  @Test("A malformed USBMUXD_SOCKET_ADDRESS is never replaced by the standard one")
  func environment() async {
    #if os(Linux)
      await #expect(processExitsWith: .success) {
        setenv("USBMUXD_SOCKET_ADDRESS", "localhost:notaport", 1)
        do throws(MuxError) {
          _ = try Mux()
          exit(EXIT_FAILURE)
        } catch {
          guard case .noDaemon(let address, _) = error, address == "localhost:notaport" else {
            exit(EXIT_FAILURE)
          }
          exit(EXIT_SUCCESS)
        }
      }
    #endif
  }

  // MARK: Devices

  @Test("Devices that come, go and come again under another number")
  func events() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(1, Self.alpha)])
    let mux = try mux(daemon)
    var events = mux.deviceEvents().makeAsyncIterator()
    func next() async -> String {
      switch await events.next() {
      case .attached(let device): "+\(device.id)"
      case .detached(let device): "-\(device.id)"
      case nil: "end"
      }
    }
    #expect(await next() == "+1")
    try daemon.attach(ScriptedDaemon.device(2, Self.beta))
    #expect(await next() == "+2")
    try daemon.detach(1)
    #expect(await next() == "-1")
    try daemon.attach(ScriptedDaemon.device(3, Self.alpha))
    #expect(await next() == "+3")
    #expect(try await mux.devices().map(\.id.rawValue) == [2, 3])
    // The daemon is replaced by one that counts from the start again.
    daemon.kill()
    var gone: Set<String> = []
    for _ in 0..<2 { gone.insert(await next()) }
    #expect(gone == ["-2", "-3"])
    try daemon.detach(2)
    try daemon.start()
    #expect(await next() == "+3")
  }

  @Test("On the network only, both ways, several")
  func networkTwins() async throws {
    let server = try TCPListener()
    let address = NetworkAddress(host: .ipv4(0x7f00_0001))
    let daemon = try ScriptedDaemon(devices: [
      ScriptedDaemon.networkDevice(1, Self.alpha, at: address),
      ScriptedDaemon.networkDevice(2, Self.beta, at: nil),
    ])
    daemon.onConnect { device, _ in .accept([UInt8(device.rawValue)]) }
    let mux = try mux(daemon)
    let alpha = try UDIDPrefix(parsing: Self.alpha)
    let udid = UDID(serialNumber: Self.alpha)
    #expect(
      await failure { _ = try await mux.connect(to: .init(udid: alpha), port: port(8765)) }
        == .onlyOverNetwork(udid))
    let overNetwork = DeviceSelector(udid: alpha, ways: .usbThenNetwork)
    // The device is at the same port of that address.
    let stream = try await mux.connect(to: overNetwork, port: port(server.port))
    let app = try server.accept()
    try app.send([5])
    #expect(try await stream.read() == [5])
    app.close()
    #expect(try await stream.read() == nil)
    #expect(
      await failure { _ = try await mux.connect(to: overNetwork, port: port(1)) } == .refused(port(1)))
    let beta = DeviceSelector(udid: try UDIDPrefix(parsing: Self.beta), ways: .network)
    #expect(await failure { _ = try await mux.connect(to: beta, port: port(8765)) } == .deviceGone)
    // A cable comes first, whatever was listed before.
    try daemon.attach(ScriptedDaemon.device(3, Self.alpha))
    for await event in mux.deviceEvents() {
      if case .attached(let device) = event, device.isUSB { break }
    }
    let wired = try await mux.connect(to: overNetwork, port: port(8765))
    #expect(wired.device.id.rawValue == 3)
    #expect(try await wired.read() == [3])
  }

  @Test("A daemon that announces devices without end costs bounded memory and does not take the thread")
  func flood() async throws {
    let daemon = try ScriptedDaemon()
    var bytes: [UInt8] = []
    for number in 1...3000 as ClosedRange<UInt32> {
      let serial = "00008110" + String(repeating: "0", count: 16 - "\(number)".count) + "\(number)"
      let device = ScriptedDaemon.device(number, serial)
      bytes += EncodedFrame(try DaemonMessage.attached(device).frame(tag: 0)).bytes
    }
    let result = EncodedFrame(try DaemonMessage.result(.ok).frame(tag: 1)).bytes
    daemon.onListen(.raw(result + bytes, ends: false))
    let mux = try mux(daemon)
    _ = try await mux.devices()
    // The end of the flood is taken in without a further event.
    for await event in mux.deviceEvents() {
      if case .attached(let device) = event, device.id.rawValue == UsbmuxdTransport.maximumDevices { break }
    }
    #expect(try await mux.devices().count == UsbmuxdTransport.maximumDevices)
  }

  // MARK: Ending

  @Test("devices() ends with a shutdown, while the daemon says nothing")
  func shutdownWhileListening() async throws {
    let daemon = try ScriptedDaemon()
    daemon.onListen(.silence)
    let mux = try mux(daemon)
    let listing = Task { await failure { _ = try await mux.devices() } }
    let connecting = Task { await failure { _ = try await mux.connect(port: port(1)) } }
    try await offPool { try eventually("Listen") { daemon.requests.contains(.listen) } }
    // Both wait by now, or find the Mux shut down.
    await mux.shutdown()
    #expect(await listing.value == .closed)
    #expect(await connecting.value == .closed)
  }

  @Test("A read whose end is being explained ends with a shutdown, and one that asks afterwards too")
  func shutdownWhileExplaining() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(7)])
    daemon.onConnect { _, _ in .accept { $0.close() } }
    let mux = try mux(daemon)
    let first = try await mux.connect(port: port(8765))
    let second = try await mux.connect(port: port(8765))
    daemon.onListDevices(.silence)
    let before = daemon.requests.count { $0 == .listDevices }
    let reading = Task { await failure { _ = try await first.read() } }
    try await offPool {
      try eventually("the question") { daemon.requests.count { $0 == .listDevices } > before }
    }
    await mux.shutdown()
    #expect(await reading.value == .closed)
    #expect(await failure { _ = try await second.read() } == .closed)
    #expect(await failure { try await second.write([1]) } == .closed)
  }

  @Test("One Mux, many tasks, a device that comes and goes: every task gets an answer")
  func churn() async throws {
    let daemon = try ScriptedDaemon(devices: [ScriptedDaemon.device(1)])
    daemon.onConnect { device, _ in .accept([UInt8(truncatingIfNeeded: device.rawValue)]) { $0.close() } }
    let mux = try mux(daemon)
    _ = try await mux.devices()
    let answers = try await withThrowingTaskGroup(of: Bool.self) { group in
      for number in 0..<60 as Range<UInt32> {
        group.addTask {
          do throws(MuxError) {
            let stream = try await mux.connect(port: port(8765), wait: .seconds(20))
            return try await stream.read() != nil
          } catch {
            // The daemon does not wait for anybody who still uses the earlier number.
            if case .deviceGone = error { return true }
            throw error
          }
        }
        if number % 20 == 10 {
          try daemon.detach(number / 20 + 1)
          try daemon.attach(ScriptedDaemon.device(number / 20 + 2))
        }
      }
      return try await group.reduce(into: 0) { count, isAnswered in if isAnswered { count += 1 } }
    }
    #expect(answers == 60)
  }
}
