import Foundation
import MuxProtocol
import Testing

@testable import USBMux

/// Programs as they are packaged, unmodified. Those that are not installed are left out.
@Suite("Real programs find a usbmuxd")
struct RealClientTests {
  static let udid = "00008110-000000C0FFEE0001"
  static let other = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

  private static func path(_ program: String) -> String? {
    let directories = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
    return directories.map { "\($0)/\(program)" }.first { FileManager.default.isExecutableFile(atPath: $0) }
  }

  private static func isInstalled(_ program: String) -> Bool { path(program) != nil }

  /// A program that runs against the harness's socket.
  private final class Running {
    let process = Foundation.Process()
    private let output = Pipe()
    private let input = Pipe()

    init(_ words: [String], _ harness: ServerHarness, address: String) throws {
      process.executableURL = URL(fileURLWithPath: RealClientTests.path(words[0]) ?? words[0])
      process.arguments = Array(words.dropFirst())
      var environment = ProcessInfo.processInfo.environment
      environment["USBMUXD_SOCKET_ADDRESS"] = address + harness.path
      process.environment = environment
      // Programs that other tests start at the same time must not hold these open.
      for handle in [output.fileHandleForReading, output.fileHandleForWriting, input.fileHandleForReading] {
        _ = fcntl(handle.fileDescriptor, F_SETFD, FD_CLOEXEC)
      }
      _ = fcntl(input.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
      process.standardOutput = output
      process.standardInput = input
      process.standardError = FileHandle.nullDevice
      try process.run()
    }

    deinit { end() }

    /// At once: some programs take a request to end as one for later.
    func end() {
      if process.isRunning { kill(process.processIdentifier, SIGKILL) }
    }

    func type(_ text: String) { input.fileHandleForWriting.write(Data(text.utf8)) }

    /// All of its output, when it has ended by itself.
    func lines() -> [String] {
      let data = output.fileHandleForReading.readDataToEndOfFile()
      process.waitUntilExit()
      return String(decoding: data, as: UTF8.self).split(separator: "\n").map(String.init)
    }

    /// Its next bytes of output.
    func read() -> String { String(decoding: output.fileHandleForReading.availableData, as: UTF8.self) }
  }

  /// `address` stands before the path: libusbmuxd wants a scheme, others want none.
  private func run(_ words: [String], _ harness: ServerHarness, address: String = "UNIX:") throws -> Running {
    try Running(words, harness, address: address)
  }

  @Test("idevice_id lists", .enabled(if: isInstalled("idevice_id")))
  func list() throws {
    let harness = try ServerHarness(devices: [.usb(1, Self.udid), .network(2, Self.other)])
    #expect(try run(["idevice_id", "-l"], harness).lines().contains(Self.udid))
    #expect(try run(["idevice_id", "-n"], harness).lines().contains(Self.other))
  }

  @Test("idevicepair reads the host's identity", .enabled(if: isInstalled("idevicepair")))
  func identity() throws {
    let harness = try ServerHarness(devices: [.usb(1, Self.udid)])
    let buid = try harness.client().ask("ReadBUID").dictionary["BUID"] as? String
    #expect(try run(["idevicepair", "systembuid"], harness).lines() == [buid])
  }

  @Test("inetcat carries bytes both ways", .enabled(if: isInstalled("inetcat")))
  func cat() throws {
    let harness = try ServerHarness(devices: [.usb(1, Self.udid)])
    let cat = try run(["inetcat", "8100"], harness)
    let device = try harness.transport.farEnd()
    #expect(harness.onLoop { harness.transport.opened.map(\.port) } == [8100])
    cat.type("question")
    #expect(try device.receive(exactly: 8) == Array("question".utf8))
    try device.send(Array("answer".utf8))
    #expect(cat.read() == "answer")
    device.close()
    #expect(cat.lines().isEmpty)
  }

  @Test("iproxy forwards", .enabled(if: isInstalled("iproxy")))
  func proxy() throws {
    let harness = try ServerHarness(devices: [.network(2, Self.udid), .usb(1, Self.udid)])
    let port = try freePort()
    let proxy = try run(["iproxy", "\(port):8100"], harness)
    defer { proxy.end() }
    let client = try connectWhenListening(port)
    try client.send(Array("question".utf8))
    let device = try harness.transport.farEnd()
    #expect(try device.receive(exactly: 8) == Array("question".utf8))
    let answer = [UInt8](repeating: 0x41, count: 300_000)
    try device.send(answer)
    #expect(try client.receive(exactly: answer.count) == answer)
    // USB is preferred, though the network was there first.
    #expect(harness.onLoop { harness.transport.opened.map(\.device.rawValue) } == [1])
    device.close()
    #expect(try client.receive() == nil)
  }

  @Test("pymobiledevice3 lists and forwards", .enabled(if: isInstalled("pymobiledevice3")))
  func python() throws {
    let harness = try ServerHarness(devices: [.usb(1, Self.udid)])
    let lines = try run(["pymobiledevice3", "usbmux", "list", "--simple"], harness, address: "").lines()
    #expect(lines.contains { $0.contains(Self.udid) })
    let port = try freePort()
    let proxy = try run(["pymobiledevice3", "usbmux", "forward", "\(port)", "8100"], harness, address: "")
    defer { proxy.end() }
    let client = try connectWhenListening(port)
    try client.send([1, 2, 3])
    let device = try harness.transport.farEnd()
    #expect(try device.receive(exactly: 3) == [1, 2, 3])
    try device.send([4])
    #expect(try client.receive(exactly: 1) == [4])
  }

  private func freePort() throws -> UInt16 {
    let harness = try ServerHarness(local: .address("127.0.0.1", port: 0))
    return harness.port
  }

  private func connectWhenListening(_ port: UInt16) throws -> MuxClient {
    let deadline = Date.now.addingTimeInterval(Stream.patience)
    while Date.now < deadline {
      if let client = try? MuxClient(port: port) { return client }
      Thread.sleep(forTimeInterval: 0.02)
    }
    throw TestTimeout()
  }
}
