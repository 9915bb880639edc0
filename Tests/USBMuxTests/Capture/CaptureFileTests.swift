import CSystem
import CaptureReader
import Foundation
import PacketCapture
import Testing

@testable import USBMux

/// Where a capture may go, and what becomes of it when it cannot be written.
@Suite("Capture: files")
struct CaptureFileTests {
  private func refusal(_ bench: CaptureBench, _ path: String) -> String {
    do {
      _ = try bench.capture(to: path)
      return "it is taken"
    } catch {
      return "\(error)"
    }
  }

  @Test("A new file has mode 0600 and begins like one")
  func newFile() throws {
    let bench = try CaptureBench()
    let capture = try bench.capture()
    #expect(try bench.mode() == 0o600)
    try CaptureBench.close(capture)
    let file = try bench.read()
    #expect(file.application == "test" && file.packets.isEmpty)
    #expect(file.statistics == [CaptureReader.Statistics(received: 0, dropped: 0)])
    #expect(capture.status.problem == nil && bench.failures.value.isEmpty)
  }

  @Test("An existing file is emptied and gets mode 0600")
  func existingFile() throws {
    let bench = try CaptureBench()
    #expect(FileManager.default.createFile(atPath: bench.path, contents: Data(count: 100_000)))
    chmod(bench.path, 0o666)
    try CaptureBench.close(bench.capture())
    #expect(try bench.mode() == 0o600)
    #expect(try bench.read().packets.isEmpty)
  }

  @Test("What is neither a file nor a FIFO is refused, with what to do")
  func others() throws {
    let bench = try CaptureBench()
    let secret = bench.directory + "/secret"
    #expect(FileManager.default.createFile(atPath: secret, contents: Data("secret".utf8)))
    symlink(secret, bench.directory + "/link")
    for (path, cause) in [
      (bench.directory + "/link", "symbolic link"), (bench.directory, "directory"),
      ("/dev/null", "neither a file nor a FIFO"), (bench.directory + "/none/a", "make its directory first"),
    ] {
      let text = refusal(bench, path)
      #expect(text.contains(cause) && text.contains(path) && !text.contains("\n"), "\(text)")
    }
    #expect(FileManager.default.contents(atPath: secret) == Data("secret".utf8))
    let socket = bench.directory + "/socket"
    let listener = try #require(SocketAddress(path: socket)).makeSocket()
    try #require(SocketAddress(path: socket)).bind(listener.number)
    #expect(refusal(bench, socket).contains("neither a file nor a FIFO"))
  }

  @Test("A file that another capture writes to is left as it is")
  func twice() throws {
    let bench = try CaptureBench()
    let first = try bench.capture()
    try eventually("it begins") { try bench.read().application == "test" }
    #expect(refusal(bench, bench.path).contains("another process writes to it"))
    #expect(try bench.read().application == "test")
    try CaptureBench.close(first)
    try CaptureBench.close(bench.capture())
  }

  @Test("Another user's file is refused", .enabled(if: geteuid() == 0))
  func foreignFile() throws {
    let bench = try CaptureBench()
    #expect(FileManager.default.createFile(atPath: bench.path, contents: Data("theirs".utf8)))
    chown(bench.path, 1, 1)
    #expect(refusal(bench, bench.path).contains("another user"))
    #expect(FileManager.default.contents(atPath: bench.path) == Data("theirs".utf8))
  }

  @Test("What happens on an idle daemon can be read soon, without an end")
  func flush() throws {
    let bench = try CaptureBench()
    let capture = try bench.capture()
    let tap = StreamTap(capture, CaptureBench.stream())
    tap.asked()
    try eventually("the SYN is in the file", within: 5) { try bench.read().packets.count == 1 }
    tap.accepted()
    tap.delivered(from: .client, [1, 2, 3])
    try eventually("the bytes are in the file", within: 5) { try bench.read().packets.count == 5 }
    #expect(
      capture.status
        == Capture.Status(
          path: bench.path, packets: 5, bytes: 3, droppedPackets: 0, droppedBytes: 0, problem: nil))
    try CaptureBench.close(capture)
    #expect(try bench.read().statistics == [CaptureReader.Statistics(received: 5, dropped: 0)])
  }

  @Test("A full disk ends it, once, and all that comes is counted")
  func fullDisk() throws {
    let bench = try CaptureBench()
    let capture = try bench.capture(into: open("/dev/full", O_WRONLY))
    try eventually("it has failed") { !bench.failures.value.isEmpty }
    let tap = StreamTap(capture, CaptureBench.stream())
    tap.asked()
    for _ in 0..<1000 { tap.delivered(from: .device, [UInt8](repeating: 1, count: 1000)) }
    let status = capture.status
    #expect(status.droppedPackets == 2001 && status.droppedBytes == 1_000_000 && status.packets == 0)
    #expect(status.problem == "the capture to somewhere has ended: No space left on device")
    #expect(bench.failures.value == [status.problem])
    try CaptureBench.close(capture)
  }

  @Test("A reader that leaves ends it")
  func readerLeaves() throws {
    let bench = try CaptureBench()
    var ends: [CInt] = [0, 0]
    #expect(pipe(&ends) == 0)
    let capture = try bench.capture(into: ends[1])
    let tap = StreamTap(capture, CaptureBench.stream())
    tap.asked()
    close(ends[0])
    let more = [UInt8](repeating: 1, count: 100)
    try eventually("it has failed") {
      tap.delivered(from: .client, more)
      return !bench.failures.value.isEmpty
    }
    #expect(capture.status.problem?.contains("Broken pipe") == true)
    try CaptureBench.close(capture)
  }

  @Test("Nobody waits for a pipe that is not read; what is dropped is counted, and leaves a gap")
  func stalledPipe() throws {
    let bench = try CaptureBench()
    var ends: [CInt] = [0, 0]
    #expect(pipe(&ends) == 0)
    let reader = FileHandle(fileDescriptor: ends[0], closeOnDealloc: true)
    let capture = try bench.capture(into: ends[1])
    let tap = StreamTap(capture, CaptureBench.stream())
    tap.asked()
    tap.accepted()
    let piece = [UInt8](repeating: 0x55, count: 60_000)
    let pieces = 400
    // 24 MB go in, three times what the queue holds. Would one of these calls wait, it would do so for ever.
    for _ in 0..<pieces { tap.delivered(from: .device, piece) }
    let dropped = capture.status.droppedBytes / 60_000
    #expect(dropped > 100 && dropped < 300)
    #expect(capture.status.droppedPackets == 2 * dropped)
    let content = Box<Data>(Data())
    nonisolated(unsafe) let shared = tap
    try together(
      { content.value = reader.readDataToEndOfFile() },
      {
        try eventually("the queue is empty") { capture.status.bytes == (400 - dropped) * 60_000 }
        shared.delivered(from: .device, [1])
        try CaptureBench.close(capture)
      })
    let file = try CaptureReader([UInt8](content.value))
    #expect(
      file.statistics.last == CaptureReader.Statistics(received: 3 + 2 * 401, dropped: 2 * dropped))
    let segments = file.packets.filter { !$0.payload.isEmpty }
    #expect(segments.count == pieces - Int(dropped) + 1)
    let start = try #require(file.packets.first { $0.flags == "S." }).sequence
    #expect(segments.last?.payload == [1])
    #expect(
      segments.last.map { $0.sequence &- start } == UInt32(1 + 400 * 60_000),
      "its place is after all that was dropped")
  }

  @Test("A FIFO may wait for its reader")
  func fifo() throws {
    let bench = try CaptureBench()
    #expect(mkfifo(bench.path, 0o600) == 0)
    let capture = try bench.capture()
    let tap = StreamTap(capture, CaptureBench.stream())
    tap.asked()
    tap.refusedByDevice()
    let reader = try #require(FileHandle(forReadingAtPath: bench.path))
    let content = Box<Data>(Data())
    try together({ content.value = reader.readDataToEndOfFile() }, { try CaptureBench.close(capture) })
    #expect(try CaptureReader([UInt8](content.value)).packets.map(\.flags) == ["S", "R."])
  }
}

extension StreamTap {
  fileprivate func refusedByDevice() { if let port = DevicePort(8765) { failed(.failed(.refused(port))) } }
}
