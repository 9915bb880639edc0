import Foundation
import Testing

extension EndToEnd {
  /// Nobody who does not read may hurt anybody else, or the memory.
  @Suite(.serialized) struct Backpressure {
    /// The client uploads without reading while the phone's answers fill every buffer.
    @Test func uploadsGoOnWhileDownloadsAreBlocked() throws {
      let size = 32 * mebibyte
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.exchange(sends: size, receives: size)))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      #expect(settles(for: 0.5, within: 10) { mux.stream(0)?.sent ?? 0 })
      #expect(try client.sendPattern(size, within: 15) == size, "\(tunnel.log)")
      #expect(client.receivePattern(limit: size) == .part(size))
      #expect(client.ending() == .end)
      #expect(mux.stream(0)?.mismatch == nil)
      #expect(mux.stream(0)?.received == size)
    }

    /// The phone does not read, the client's bytes fill every buffer, and downloads still flow.
    @Test func downloadsGoOnWhileUploadsAreBlocked() throws {
      let size = 32 * mebibyte
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(Service(reads: false, sends: size, pace: nil)))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      let taken = try client.sendPattern(64 * mebibyte, within: 1)
      #expect(taken < 64 * mebibyte)
      let reception = client.receivePattern(limit: size)
      #expect(reception == .part(size))
    }

    /// A hundred mebibytes for somebody who never reads: the phone is held back, memory is bounded.
    @Test func memoryIsBoundedWhenNobodyReads() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.send(100 * mebibyte, finish: .never)))
      let tunnel = try Tunnel(mux, [7, 20])
      #expect(tunnel.works())
      let before = tunnel.residentBytes
      let stalled = try (0..<4).map { _ in try tunnel.client(20, receiveBuffer: 64 * 1024) }
      #expect(mux.wait { $0.openStreams == 4 })
      #expect(settles(for: 1, within: 15) { mux.read { $0.streams.reduce(0) { $0 + $1.report.sent } } })
      #expect(mux.read { $0.streams.allSatisfy { $0.report.sent < 32 * mebibyte } })
      #expect(tunnel.residentBytes - before < 4 * 8 * mebibyte)
      #expect(tunnel.works(), "others are served")
      for client in stalled { client.close() }
      #expect(mux.wait { $0.openStreams == 0 })
    }

    @Test func memoryIsBoundedWhenThePhoneDoesNotRead() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.stuck))
      let tunnel = try Tunnel(mux, [7, 20])
      #expect(tunnel.works())
      let before = tunnel.residentBytes
      let client = try tunnel.client(20)
      let taken = try client.sendPattern(100 * mebibyte, within: 2)
      #expect(taken < 32 * mebibyte)
      #expect(tunnel.residentBytes - before < 8 * mebibyte)
      #expect(tunnel.works())
    }

    /// Deep buffers make live video old. Both sockets are Unix sockets here, whose buffers have known sizes:
    /// 256 KiB towards the fake, 208 KiB towards the client. The rest is the relay's own.
    @Test func buffersAreShallow() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let directory = try temporaryDirectory()
      defer { try? FileManager.default.removeItem(atPath: directory) }
      let tunnel = try Tunnel(
        arguments: ["--transport", "usbmuxd", "--local", "unix:\(directory)/local", "--device-port", "19"],
        environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      try tunnel.waitUntilReady([19])
      let client = try Client(.unix("\(directory)/local"))
      #expect(mux.wait { $0.openStreams == 1 })
      #expect(settles(for: 0.5, within: 10) { mux.stream(0)?.sent ?? 0 })
      let sent = try #require(mux.stream(0)?.sent)
      #expect(sent < 1_000_000)
      #expect(client.receivePattern(limit: sent).mismatch == nil)
    }

    /// No spinning with a full buffer on one side and data ready on the other.
    @Test func aStalledConnectionCostsNoProcessorTime() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.endless))
      mux.setPort(21, .open(.stuck))
      let tunnel = try Tunnel(mux, [20, 21])
      let reader = try tunnel.client(20)
      let writer = try tunnel.client(21)
      try writer.sendPattern(64 * mebibyte, within: 1)
      #expect(settles(for: 0.5, within: 10) { mux.stream(0)?.sent ?? 0 })
      let before = tunnel.processorTime
      #expect(reader.fd >= 0 && !tunnel.waitForLog(within: 2) { _ in false })
      #expect(tunnel.processorTime - before < 0.1)
    }

    @Test func oneStalledClientStallsNobodyElse() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [7, 19])
      let stalled = try (0..<20).map { _ in try tunnel.client(19) }
      #expect(mux.wait { $0.openStreams == 20 })
      let size = 16 * mebibyte
      let client = try tunnel.client()
      let (_, reception) = try client.exchange(send: size, receive: size, within: 15)
      #expect(reception == .part(size))
      for _ in 0..<50 { #expect(tunnel.works(7, within: 1)) }
      #expect(stalled.count == 20)
    }

    /// A reader that pauses now and then is not cut off.
    @Test func pausesOfAReaderDoNoHarm() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.endless))
      let tunnel = try Tunnel(mux, [20])
      let client = try tunnel.client(20)
      for _ in 0..<3 {
        let reception = client.receivePattern(limit: 16 * mebibyte)
        #expect(reception == .part(16 * mebibyte))
        #expect(settles(for: 0.7, within: 10) { mux.stream(0)?.sent ?? 0 })
      }
    }

    @Test func parallelStreamsShareFairly() throws {
      let mux = try FakeMux()
      mux.attach(phone)
      let tunnel = try Tunnel(mux, [19])
      let port = try tunnel.port(19)
      let counts = Tally()
      inParallel(16) { index in
        guard let client = try? Client(port: port) else { return }
        counts.set(index, client.receivePattern(limit: .max, within: 2).count)
      }
      let values = counts.values.sorted()
      #expect(values.count == 16)
      #expect(Double(values.first ?? 0) > Double(values.last ?? 0) / 4, "\(values)")
    }
  }
}

/// Numbers from several threads.
final class Tally: @unchecked Sendable {
  private let lock = NSLock()
  private var numbers: [Int: Int] = [:]
  func set(_ index: Int, _ value: Int) { lock.withLock { numbers[index] = value } }
  func add(_ index: Int, _ value: Int = 1) { lock.withLock { numbers[index, default: 0] += value } }
  var values: [Int] { lock.withLock { Array(numbers.values) } }
  var sum: Int { values.reduce(0, +) }
}
