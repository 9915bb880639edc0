import Foundation
import MuxProtocol
import Testing

@testable import USBMux

@Suite("The server opens streams")
struct ConnectTests {
  private func id(_ harness: ServerHarness) throws -> Int {
    try #require(try harness.client().devices().first).id
  }

  @Test(
    "Port numbers are in network order", arguments: [(5632, 22), (42015, 8100), (32498, 62078), (257, 257)])
  func portOrder(number: Int, port: Int) throws {
    let harness = try ServerHarness(devices: [.usb(41)])
    let id = try id(harness)
    #expect(try harness.client().result("Connect", ["DeviceID": id, "PortNumber": number]) == 0)
    #expect(
      harness.onLoop { harness.transport.opened.map { [Int($0.device.rawValue), Int($0.port)] } } == [
        [41, port]
      ])
  }

  @Test("Bytes behind the Connect reach the device, and the stream begins right behind the Result")
  func pipelined() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let id = try id(harness)
    for count in [1, 100, 16383, 100_000] {
      let payload = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 7) }
      let client = try harness.client()
      try client.send(MuxClient.connectRequest(id, port: 8100, tag: 3) + payload)
      let device = try harness.transport.farEnd()
      try device.send(payload.reversed())
      let result = try client.message()
      #expect(result.number == 0 && result.tag == 3)
      #expect(try device.receive(exactly: count) == payload)
      #expect(try client.receive(exactly: count) == payload.reversed())
    }
  }

  @Test("A program that reads no answers until it has a stream loses nothing")
  func unreadAnswers() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let connect = MuxClient.connectRequest(try id(harness), port: 8100)
    let request = MuxClient.request("ListListeners")
    // One answer more each time, until they fill the kernel's buffer right before the Result: with the next one
    // the Connect is not even read.
    for count in 50..<1000 {
      let client = try harness.client()
      try client.send((0..<count).flatMap { _ in request } + connect + [1, 2, 3])
      guard harness.transport.asked.wait(timeout: .now() + .milliseconds(300)) == .success else { return }
      let device = try harness.transport.farEnd()
      for _ in 0..<count { #expect(try client.message().dictionary["ListenerList"] != nil) }
      #expect(try client.message().number == 0)
      #expect(try device.receive(exactly: 3) == [1, 2, 3])
      try device.send([4])
      #expect(try client.receive(exactly: 1) == [4])
      try client.send([5])
      #expect(try device.receive(exactly: 1) == [5])
    }
  }

  @Test("Several requests on one connection; a failed Connect leaves it usable")
  func sequence() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let client = try harness.client()
    let id = try #require(try client.devices().first).id
    #expect(try client.ask("ReadBUID").dictionary["BUID"] as? String != nil)
    harness.answer(.fail(.failed(.refused(DevicePort.lockdown))))
    #expect(try client.result("Connect", ["DeviceID": id, "PortNumber": 42015]) == 3)
    #expect(try client.result("Connect", ["DeviceID": id + 1, "PortNumber": 42015]) == 2)
    #expect(try client.result("Connect", ["DeviceID": id, "PortNumber": 0]) == 3)
    #expect(try client.result("Connect", ["DeviceID": id]) == 1)
    #expect(try client.devices().count == 1)
    harness.answer(.accept)
    #expect(try client.result("Connect", ["DeviceID": id, "PortNumber": 42015]) == 0)
    let device = try harness.transport.farEnd()
    try client.send([1, 2, 3])
    #expect(try device.receive(exactly: 3) == [1, 2, 3])
  }

  @Test(
    "What a program is told of a failure",
    arguments: [
      (OpenError.unknownDevice, 2), (.failed(.deviceGone), 2),
      (.failed(.noDaemon(address: "", reason: "")), 2),
      (.failed(.timeout(what: "", seconds: 1)), 3), (.failed(.protocolViolation("")), 3),
      (.failed(.system("")), 3),
    ])
  func failures(error: OpenError, number: Int) throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let id = try id(harness)
    for answer in [FakeTransport.Answer.fail(error), .failAtOnce(error)] {
      harness.answer(answer)
      let client = try harness.client()
      #expect(try client.result("Connect", ["DeviceID": id, "PortNumber": 42015]) == number)
      #expect(try client.devices().count == 1)
    }
    #expect(harness.onLoop { harness.transport.refreshes } == (error == .unknownDevice ? 2 : 0))
  }

  @Test("A request that is glued to a Connect that fails is answered")
  func gluedToFailure() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let id = try id(harness)
    for answer in [FakeTransport.Answer.fail(.unknownDevice), .failAtOnce(.unknownDevice)] {
      harness.answer(answer)
      let client = try harness.client()
      try client.send(MuxClient.connectRequest(id, port: 1, tag: 8) + MuxClient.request("ReadBUID", tag: 9))
      #expect(try client.message().number == 2)
      #expect(try client.message().tag == 9)
    }
  }

  @Test("A program that leaves takes its Connect back")
  func cancelled() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let id = try id(harness)
    harness.answer(.never)
    let client = try harness.client()
    try client.send(MuxClient.connectRequest(id, port: 8100))
    #expect(harness.transport.asked.happens())
    client.close()
    #expect(harness.transport.cancelled.happens())
    // So does one that was gone before the request was read.
    let quick = try harness.client()
    try quick.send(MuxClient.connectRequest(id, port: 8100))
    quick.close()
    #expect(harness.transport.cancelled.happens())
  }

  @Test("A program that has ended its sending side still gets its stream")
  func halfClosedDuringConnect() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let client = try harness.client()
    try client.send(MuxClient.connectRequest(try id(harness), port: 8100) + [1, 2, 3])
    client.endSending()
    let device = try harness.transport.farEnd()
    #expect(try device.receive(exactly: 3) == [1, 2, 3])
    try device.send([4, 5])
    device.close()
    #expect(try client.message().number == 0)
    #expect(try client.receiveAll() == [4, 5])
  }

  @Test("A phone that is unplugged while it is connected to: Result 2, and the connection is usable")
  func unpluggedDuringConnect() throws {
    let harness = try ServerHarness(devices: [.usb(1), .usb(2, "b")])
    harness.answer(.never)
    let client = try harness.client()
    let ids = try client.devices().map(\.id)
    try client.send(MuxClient.connectRequest(ids[0], port: 8100))
    #expect(harness.transport.asked.happens())
    harness.detach(2)
    harness.detach(1)
    #expect(try client.message().number == 2)
    #expect(try client.devices().isEmpty)
  }

  @Test("An unplugged phone's streams end, another one's go on")
  func unpluggedDuringStream() throws {
    let harness = try ServerHarness(devices: [.usb(1), .usb(2, "b")])
    let ids = try harness.client().devices().map(\.id)
    let lost = try harness.stream(to: ids[0])
    let kept = try harness.stream(to: ids[1])
    harness.detach(1)
    #expect(try lost.client.receive() == nil)
    #expect(try lost.device.receive() == nil)
    try kept.client.send([9])
    #expect(try kept.device.receive(exactly: 1) == [9])
  }

  @Test("What the app sent before it closed comes first, then the end")
  func appCloses() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let (client, device) = try harness.stream(to: try id(harness))
    let payload = [UInt8](repeating: 0x5A, count: 150_000)
    try device.send(payload)
    device.close()
    #expect(try client.receiveAll() == payload)
  }

  @Test("What a program sent before it left comes first, then the end")
  func programCloses() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let (client, device) = try harness.stream(to: try id(harness))
    let payload = [UInt8](repeating: 0xA5, count: 150_000)
    try client.send(payload)
    client.close()
    #expect(try device.receiveAll() == payload)
  }

  @Test("Bulk both ways at once, over the thread for it, and every end of it", arguments: 0..<4)
  func bulk(ending: Int) throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let (client, device) = try harness.stream(to: try id(harness))
    let count = 3 << 20
    let there = (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 13 &+ $0 >> 9) }
    let back = [UInt8](there.reversed())
    let threads = DispatchGroup()
    for (stream, bytes) in [(client as Stream, there), (device, back)] {
      nonisolated(unsafe) let stream = stream
      Thread.detachNewThread(in: threads) { try? stream.send(bytes) }
    }
    nonisolated(unsafe) let far = device
    Thread.detachNewThread(in: threads) { #expect((try? far.receive(exactly: count)) == there) }
    #expect(try client.receive(exactly: count) == back)
    threads.wait()
    switch ending {
    case 0:
      client.close()
      #expect(try device.receive() == nil)
    case 1:
      device.close()
      #expect(try client.receive() == nil)
    case 2:
      harness.detach(1)
      #expect(try client.receive() == nil)
    default:
      harness.removeServer()
      #expect(try client.receive() == nil)
    }
    if ending == 1 { client.close() }
    while harness.onLoop({ harness.clientCount }) > 0 { _ = harness.log }
  }

  @Test("Ended servers: programs and streams are closed, the socket's file goes")
  func stopping() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let idle = try harness.client()
    let (client, device) = try harness.stream(to: try id(harness))
    _ = try idle.devices()
    harness.stop(drain: 60_000_000_000)
    // Streams may end by themselves, for a while.
    #expect(try idle.receive() == nil)
    try device.send([1])
    #expect(try client.receive(exactly: 1) == [1])
    harness.stop()
    #expect(try client.receive() == nil)
    #expect(throws: StreamEnded.self) { try harness.client() }
  }
}
