import CaptureReader
import EventLoop
import Foundation
import PacketCapture
import Testing

@testable import USBMux

/// What relays between sockets show of their streams.
@Suite("Capture: relays")
struct RelayCaptureTests {
  private let captured = CaptureBenchBox()

  /// A started relay whose stream is captured.
  private func start(
    _ client: RelayBench.Kind = .tcp, needsVerdict: Bool = false, times: RelayTimes = RelayTimes()
  ) throws -> (RelayBench, Capture) {
    let capture = try captured.bench().capture()
    let tap = StreamTap(capture, CaptureBench.stream())
    tap.asked()
    tap.accepted()
    let bench = try RelayBench(client: client, needsVerdict: needsVerdict, times: times, tap: tap)
    try bench.start()
    return (bench, capture)
  }

  /// The packets, when all has ended.
  private func packets(_ bench: RelayBench, _ capture: Capture) throws -> [Packet] {
    _ = try bench.summary()
    bench.tearDown()
    try CaptureBench.close(capture)
    return try captured.bench().read().packets
  }

  /// The trace after the handshake, without acknowledgements.
  private func essence(_ packets: [Packet]) -> [String] {
    zip(packets, packets.trace).dropFirst(3).filter { !$0.0.payload.isEmpty || $0.0.flags != "." }.map(\.1)
  }

  @Test("The app closes first, then the client", arguments: RelayBench.Kind.allCases)
  func appCloses(_ kind: RelayBench.Kind) throws {
    let (bench, capture) = try start(kind)
    try bench.client.send([1, 2, 3])
    #expect(try bench.device.receive(exactly: 3) == [1, 2, 3])
    try bench.device.send([4, 5])
    bench.device.close()
    #expect(try bench.client.receiveToEnd().bytes == [4, 5])
    bench.client.close()
    #expect(
      try essence(packets(bench, capture)) == [
        "C P. 1 ack 1 len 3", "D P. 1 ack 4 len 2", "D F. 3 ack 4", "C F. 4 ack 4",
      ])
  }

  @Test("The client ends its sending side, and still reads", arguments: RelayBench.Kind.allCases)
  func halfClose(_ kind: RelayBench.Kind) throws {
    let (bench, capture) = try start(kind)
    try bench.client.send([1])
    bench.client.endSending()
    #expect(try bench.device.receive(exactly: 1) == [1])
    // The end is noticed before the app answers.
    try eventually("the end is captured") { capture.status.packets == 7 }
    try bench.device.send([2, 3])
    bench.device.close()
    #expect(try bench.client.receiveToEnd().bytes == [2, 3])
    bench.client.close()
    #expect(
      try essence(packets(bench, capture)) == [
        "C P. 1 ack 1 len 1", "C F. 2 ack 1", "D P. 1 ack 3 len 2", "D F. 3 ack 3",
      ])
  }

  @Test("The client resets")
  func clientResets() throws {
    let (bench, capture) = try start()
    try bench.client.send([1])
    #expect(try bench.device.receive(exactly: 1) == [1])
    bench.client.abort()
    #expect(try essence(packets(bench, capture)) == ["C P. 1 ack 1 len 1", "C R. 2 ack 1"])
  }

  @Test("The device is lost")
  func deviceLost() throws {
    let (bench, capture) = try start()
    try bench.device.send([1])
    #expect(try bench.client.receive(exactly: 1) == [1])
    try bench.onLoop { $0.deviceLost() }
    #expect(try bench.client.receiveToEnd().end == .reset)
    #expect(try essence(packets(bench, capture)) == ["D P. 1 ack 1 len 1", "D R. 2 ack 1"])
  }

  @Test("The relay is stopped")
  func stopped() throws {
    let (bench, capture) = try start()
    try bench.onLoop { $0.stop() }
    #expect(try essence(packets(bench, capture)) == ["D R. 1 ack 1"])
  }

  @Test("Every byte of a long stream is in the file, both ways, also what a stalled reader held up")
  func longStreams() throws {
    let (bench, capture) = try start()
    // Less than the queue holds, so that nothing may be dropped.
    let bytes = pattern(3_000_001)
    let filled = try bench.device.fill(bytes, quietMilliseconds: 50)
    let got = Box<[[UInt8]]>([[], []])
    try together(
      { try bench.client.send(bytes) },
      {
        let up = try bench.device.receive(exactly: bytes.count)
        got.change { $0[0] = up }
      },
      { try bench.device.send(Array(bytes[filled...])) },
      {
        let down = try bench.client.receive(exactly: bytes.count)
        got.change { $0[1] = down }
      })
    #expect(got.value.allSatisfy { same($0, bytes) })
    bench.device.close()
    #expect(try bench.client.receiveToEnd().end == .clean)
    bench.client.close()
    let packets = try packets(bench, capture)
    #expect(capture.status.droppedPackets == 0)
    for port in [40_000, 8765] {
      let sent = packets.filter { $0.source.port == port && !$0.payload.isEmpty }
      #expect(same(sent.flatMap(\.payload), bytes))
      var next = try #require(sent.first).sequence
      for packet in sent {
        #expect(packet.sequence == next)
        next &+= UInt32(packet.payload.count)
      }
    }
  }
}

/// Makes the bench when it is first needed: a suite's initializer cannot fail.
private final class CaptureBenchBox {
  private var made: CaptureBench?

  func bench() throws -> CaptureBench {
    if let made { return made }
    let bench = try CaptureBench()
    made = bench
    return bench
  }
}
