internal import EventLoop
internal import PacketCapture
internal import Synchronization

/// Writes the streams of forwards and of served programs to a pcapng file, as TCP.
///
/// Given to a ``Mux/Configuration``. The threads that move bytes only copy them into a bounded queue; what finds no
/// room there, or comes after a failure, is dropped and counted.
package final class Capture: Sendable {
  /// How far it is.
  package struct Status: Equatable, Sendable {
    package let path: String
    /// Packets, and bytes of payload, that are in the file.
    package let packets: UInt64
    package let bytes: UInt64
    package let droppedPackets: UInt64
    package let droppedBytes: UInt64
    /// Why nothing more is written; nil while it is.
    package let problem: String?
  }

  private let path: String
  private let queue: CaptureQueue
  private let writer: CaptureWriter
  private let problem: Problem
  private let names = Mutex(Names())

  private final class Problem: Sendable {
    let text = Mutex<String?>(nil)
  }

  private struct Names {
    var lastStream: UInt64 = 0
    /// By the order in which they came.
    var devices: [UDID: UInt32] = [:]

    /// Devices that are told apart. A daemon could name any number of them.
    static let rememberedDevices: UInt32 = 4096

    mutating func number(of device: UDID) -> UInt32 {
      if let known = devices[device] { return known }
      let number = UInt32(truncatingIfNeeded: devices.count)
      if number < Self.rememberedDevices { devices[device] = number }
      return number
    }
  }

  /// Opens the file, or FIFO, and starts the thread that writes to it.
  ///
  /// - Parameters:
  ///   - path: A new file, or one that is emptied, or a FIFO. It gets mode 0600 unless it is a FIFO.
  ///   - application: What the file names as its writer.
  ///   - failed: Told once, on the writer's thread, when nothing more can be written.
  /// - Throws: ``MuxError/permissionDenied(what:remedy:)`` or ``MuxError/system(_:)``.
  package convenience init(
    to path: String, application: String, failed: @escaping @Sendable (String) -> Void
  ) throws(MuxError) {
    try self.init(to: CaptureDestination(opening: path), application: application, failed: failed)
  }

  init(
    to destination: consuming CaptureDestination, application: String,
    failed: @escaping @Sendable (String) -> Void
  ) throws(MuxError) {
    let path = destination.path
    let queue = CaptureQueue()
    let problem = Problem()
    self.path = path
    self.queue = queue
    self.problem = problem
    do throws(SystemError) {
      writer = try CaptureWriter(queue, to: destination, application: application) { error in
        let text = "the capture to \(path) has ended: \(error.message)"
        problem.text.withLock { $0 = text }
        failed(text)
      }
    } catch {
      throw .system("\(error)")
    }
    writer.begin()
  }

  package var status: Status {
    let counters = queue.counters
    return Status(
      path: path, packets: counters.packets, bytes: counters.bytes,
      droppedPackets: counters.droppedPackets, droppedBytes: counters.droppedBytes,
      problem: problem.text.withLock { $0 })
  }

  /// Writes what is left and ends the file, then calls `done` on the writer's thread. While a FIFO's reader does not
  /// read, it does not.
  package func close(_ done: @escaping @Sendable () -> Void) { writer.close(done) }

  // MARK: Streams

  /// Follows a stream that a device is being asked for now.
  ///
  /// The client keeps its address where it has one; a device, and a program on a Unix socket, get addresses that are
  /// set aside for documentation (RFC 5737, RFC 3849).
  func tap(
    _ identifier: UInt64, client socket: CInt, isUnix: Bool, to device: Device, port: DevicePort
  ) -> StreamTap {
    let (stream, index) = names.withLock { names in
      names.lastStream &+= 1
      return (names.lastStream, names.number(of: device.udid))
    }
    let client =
      (isUnix ? nil : SocketAddress.peer(socket)?.streamAddress) ?? Self.unixAddress(stream)
    let address: HostAddress =
      switch client.address {
      case .v4: Self.deviceV4(index)
      // 2001:db8::/32
      case .v6: .v6(0x2001_0db8 << 32, UInt64(index) &+ 1)
      }
    let tap = StreamTap(
      self,
      CapturedStream(
        client: client, device: StreamAddress(address, port: port.number), number: stream,
        comment: "connection \(identifier), device \(device.udid), port \(port)"))
    tap.asked()
    return tap
  }

  /// 192.0.2.1 to .254, then 203.0.113.1 to .254, then again from the beginning.
  private static func deviceV4(_ index: UInt32) -> HostAddress {
    let place = index % 508
    return .v4(place < 254 ? 0xc000_0201 + place : 0xcb00_7101 + (place - 254))
  }

  /// 198.51.100.1 with a port of its own; after 64,512 streams the next address.
  private static func unixAddress(_ stream: UInt64) -> StreamAddress {
    StreamAddress(
      .v4(0xc633_6401 + UInt32(stream / 64_512 % 254)),
      port: UInt16(truncatingIfNeeded: 1024 + stream % 64_512))
  }

  func take(
    _ event: StreamEvent, of stream: CapturedStream, at position: StreamPosition,
    _ bytes: UnsafeRawBufferPointer
  ) {
    if let urgency = unsafe queue.add(event, of: stream, at: position, bytes) { writer.call(urgency) }
  }
}
