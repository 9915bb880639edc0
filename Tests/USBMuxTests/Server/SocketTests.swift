import Foundation
import MuxProtocol
import Testing

@testable import USBMux

@Suite("The server's socket")
struct ServerSocketTests {
  private func status(_ path: String) throws -> stat {
    var status = stat()
    guard lstat(path, &status) == 0 else { throw StreamEnded() }
    return status
  }

  @Test(
    "Mode 0660 unless another one is asked for, whatever the umask", arguments: [nil, 0o666, 0o600, 0o777])
  func modes(mode: UInt16?) throws {
    let harness = try ServerHarness { if let mode { $0.socketMode = mode } }
    let status = try status(harness.path)
    #expect(status.st_mode & S_IFMT == S_IFSOCK)
    #expect(status.st_mode & 0o7777 == mt(mode ?? 0o660))
  }

  private func mt(_ mode: UInt16) -> mode_t { mode_t(mode) }

  @Test("The group, by number or name; one that does not exist is said so")
  func groups() throws {
    let own = getgid()
    let harness = try ServerHarness { $0.socketGroup = "\(own)" }
    #expect(try status(harness.path).st_gid == own)
    #expect(UnixSocketAccess.group(named: "root") == 0)
    #expect(UnixSocketAccess.group(named: "") == nil)
    #expect(UnixSocketAccess.group(named: "99999999999") == nil)
    #expect {
      try ServerHarness { $0.socketGroup = "no-such-group-here" }
    } throws: {
      "\($0)".contains("there is no group no-such-group-here")
    }
  }

  @Test("A socket that is served already is left alone, a left-over one is replaced")
  func occupied() throws {
    let first = try ServerHarness(devices: [.usb(1)])
    #expect {
      try ServerHarness(local: .unix(path: first.path))
    } throws: {
      "\($0)".contains("another daemon, perhaps usbmuxd, serves it")
    }
    #expect(try first.client().devices().count == 1)
    // The file of a process that was killed: nobody listens.
    let stale = first.directory + "/stale"
    let descriptor = foreignSocket(stale, listens: true)
    close(descriptor)
    let second = try ServerHarness(local: .unix(path: stale))
    #expect(try MuxClient(path: stale).devices().isEmpty)
    second.stop()
    #expect(throws: StreamEnded.self) { try status(stale) }
  }

  @Test("A file that took the socket's place is not removed at the end")
  func replaced() throws {
    let harness = try ServerHarness()
    try FileManager.default.removeItem(atPath: harness.path)
    try Data([1]).write(to: URL(fileURLWithPath: harness.path))
    harness.stop()
    #expect(try status(harness.path).st_size == 1)
  }

  @Test("TCP on loopback addresses only")
  func tcp() throws {
    let harness = try ServerHarness(devices: [.usb(1)], local: .address("127.0.0.1", port: 0))
    let client = try MuxClient(port: harness.port)
    let id = try #require(try client.devices().first).id
    try client.send(MuxClient.connectRequest(id, port: 8100) + [1])
    #expect(try client.message().number == 0)
    let device = try harness.transport.farEnd()
    #expect(try device.receive(exactly: 1) == [1])
    for host in ["0.0.0.0", "::", "192.0.2.1", "example.org", "127.1.example"] {
      #expect {
        try ServerHarness(local: .address(host, port: 0))
      } throws: {
        "\($0)".contains("loopback addresses only")
      }
    }
  }

  /// A Unix socket as another process would pass it: blocking, without close-on-exec.
  private func foreignSocket(_ path: String, listens: Bool) -> CInt {
    let descriptor = socket(AF_UNIX, Stream.streamSocket, 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    let bound = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
      }
    }
    #expect(bound == 0)
    if listens { #expect(listen(descriptor, 16) == 0) }
    return descriptor
  }

  @Test("A socket that was passed is served, and its file stays")
  func inherited() throws {
    let path = FileManager.default.temporaryDirectory.path + "/mux-\(UUID().uuidString.prefix(8))"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let descriptor = foreignSocket(path, listens: true)
    // A program that came before the server did is not turned away.
    let early = try MuxClient(path: path)
    let harness = try ServerHarness(devices: [.usb(1)], local: .inherited(descriptors: [descriptor]))
    #expect(try early.devices().count == 1)
    #expect(try MuxClient(path: path).devices().count == 1)
    harness.stop()
    #expect(try early.receive() == nil)
    #expect(try status(path).st_mode & S_IFMT == S_IFSOCK)
  }

  @Test("What does not listen is not served")
  func notListening() throws {
    let path = FileManager.default.temporaryDirectory.path + "/mux-\(UUID().uuidString.prefix(8))"
    defer { try? FileManager.default.removeItem(atPath: path) }
    let descriptor = foreignSocket(path, listens: false)
    for number in [descriptor, 99_999] {
      #expect {
        try ServerHarness(local: .inherited(descriptors: [number]))
      } throws: {
        "\($0)".contains("no stream socket that listens")
      }
    }
    #expect(close(descriptor) == 0, "it is still its owner's")
  }

  @Test("A program that leaves during Connect is noticed over TCP, too")
  func tcpCancel() throws {
    let harness = try ServerHarness(devices: [.usb(1)], local: .localhost(port: 0))
    harness.answer(.never)
    let client = try MuxClient(port: harness.port)
    try client.send(MuxClient.connectRequest(try #require(try client.devices().first).id, port: 8100))
    #expect(harness.transport.asked.happens())
    client.close()
    #expect(harness.transport.cancelled.happens())
  }

  @Test("One program too many waits until another one leaves")
  func clientLimit() throws {
    let harness = try ServerHarness { $0.limits.clients = 2 }
    let first = try harness.client()
    let second = try harness.client()
    #expect(try first.devices().isEmpty && second.devices().isEmpty)
    let third = try harness.client()
    try third.request("ListDevices")
    // Those who are in are served; the third one is not even accepted.
    #expect(try first.devices().isEmpty && second.devices().isEmpty)
    #expect(harness.onLoop { harness.clientCount } == 2)
    first.close()
    #expect(try third.message().dictionary["DeviceList"] != nil)
    #expect(harness.log.filter { $0.contains("which is the limit") }.count == 1)
  }

  @Test("Many programs come and go, and nothing stays open")
  func churn() throws {
    let harness = try ServerHarness(devices: [.usb(1)])
    let id = try #require(try harness.client().devices().first).id
    for round in 0..<300 {
      let (client, device) = try harness.stream(to: id)
      if round % 2 == 0 { client.close() } else { device.close() }
      #expect(try (round % 2 == 0 ? device : client).receive() == nil)
    }
    // A listener sees each turn of the loop, so the last ones have ended after a few.
    while harness.onLoop({ harness.clientCount }) > 0 { _ = try harness.client().devices() }
  }
}
