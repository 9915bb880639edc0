import CaptureReader
import EventLoop
import Foundation
import PacketCapture

@testable import USBMux

/// A capture into a place of the test's own.
final class CaptureBench {
  let directory: String
  var path: String { directory + "/test.pcapng" }
  let failures = Box<[String]>([])

  init() throws {
    directory = NSTemporaryDirectory() + "capture-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: false)
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  func capture(to path: String? = nil) throws -> Capture {
    let failures = failures
    return try Capture(to: path ?? self.path, application: "test") { text in
      failures.change { $0.append(text) }
    }
  }

  /// Into a descriptor that the test has opened.
  func capture(into number: CInt) throws -> Capture {
    let failures = failures
    return try Capture(
      to: CaptureDestination(Descriptor(owning: number), path: "somewhere", isFile: false),
      application: "test"
    ) { text in failures.change { $0.append(text) } }
  }

  /// A stream of a client at 127.0.0.1.
  static func stream(_ number: UInt64 = 1) -> CapturedStream {
    CapturedStream(
      client: StreamAddress(.v4(0x7f00_0001), port: 40_000),
      device: StreamAddress(.v4(0xc000_0201), port: 8765), number: number, comment: "stream \(number)")
  }

  /// Ends it, and waits for that.
  static func close(_ capture: Capture) throws {
    let isClosed = Box(false)
    capture.close { isClosed.value = true }
    try eventually("the capture is written to its end") { isClosed.value }
  }

  func read() throws -> CaptureReader {
    try CaptureReader([UInt8](Data(contentsOf: URL(fileURLWithPath: path))))
  }

  func mode(of path: String? = nil) throws -> UInt32 {
    var status = stat()
    guard lstat(path ?? self.path, &status) == 0 else { throw SystemError.last("lstat") }
    return status.st_mode & 0o7777
  }
}

extension StreamTap {
  func delivered(from side: StreamSide, _ bytes: [UInt8]) {
    bytes.withUnsafeBytes { buffer in
      if let start = buffer.baseAddress { delivered(from: side, start, buffer.count) }
    }
  }
}
