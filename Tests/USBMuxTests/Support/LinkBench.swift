import EventLoop
import Foundation
import SimulatedPhone

@testable import MuxProtocol
@testable import USBMux

/// A pipe to a simulated phone whose transfers end when the test says so.
final class ScriptedPipe: BulkPipe {
  weak var receiver: (any BulkReceiver)?
  private let phone: PhoneBox
  private let capacity = 65536
  private var free: [TransferBuffer] = []
  /// Packets that were submitted and are under way, in order.
  private(set) var underWay: [(buffer: TransferBuffer, bytes: [UInt8])] = []
  /// While true, transfers end at once.
  var isFlowing = true
  private(set) var isClosed = false
  /// Host ports of the payload packets, in the order in which they were submitted.
  private(set) var payloadPorts: [UInt16] = []

  init(_ phone: PhoneBox, transfers: Int) {
    self.phone = phone
    for index in 0..<transfers {
      let bytes = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
      free.append(TransferBuffer(bytes: bytes, capacity: capacity, index: index))
    }
  }

  deinit { for buffer in free + underWay.map(\.buffer) { buffer.bytes.deallocate() } }

  func start() {}

  func takeBuffer(behind limit: Int) -> TransferBuffer? {
    underWay.reduce(0) { $0 + $1.bytes.count } < limit ? free.popLast() : nil
  }

  func submit(_ buffer: TransferBuffer, count: Int) {
    let bytes = Array(UnsafeRawBufferPointer(start: buffer.bytes, count: count))
    // Version 2: 16 bytes of mux header, then source port and destination port.
    if count > 36, bytes[3] == 6 { payloadPorts.append(UInt16(bytes[16]) << 8 | UInt16(bytes[17])) }
    underWay.append((buffer, bytes))
    if isFlowing { complete() }
  }

  func giveBack(_ buffer: TransferBuffer) { free.append(buffer) }

  func close() { isClosed = true }

  /// Ends the oldest transfers, as a device does.
  func complete(_ count: Int = .max) {
    for _ in 0..<min(count, underWay.count) {
      let (buffer, bytes) = underWay.removeFirst()
      phone.receive(bytes.span)
      if bytes.count % phone.endpointPacketSize == 0 { phone.receive(Span()) }
      free.append(buffer)
    }
  }

  /// Delivers what the phone has to say; true when that was something.
  func deliver() -> Bool {
    let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: capacity, alignment: 16)
    defer { buffer.deallocate() }
    var some = false
    while !isClosed {
      let count = phone.nextTransfer(into: buffer)
      guard count > 0 else { break }
      some = true
      receiver?.pipeReceived(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }
    return some
  }
}

/// Uses a session as the test says.
final class TestSession: SessionUser {
  /// What it sends, from the front.
  var outgoing: [UInt8] = []
  var sent = 0
  var received: [UInt8] = []
  /// Takes nothing at once while true.
  var isStalled = false
  var held = 0
  var isOpen = false
  var refusal: String?
  /// Set when it is over; nil inside: the link is lost.
  var end: SessionEnd??

  func sessionOpened() { isOpen = true }
  func sessionRefused(_ reason: String) { refusal = reason }
  func sessionEnded(_ end: SessionEnd?) { self.end = .some(end) }

  func sessionReceived(_ bytes: UnsafeRawBufferPointer) -> Int {
    received += bytes
    guard isStalled else { return bytes.count }
    held += bytes.count
    return 0
  }

  func sessionFill(_ buffer: UnsafeMutableRawPointer, atMost limit: Int) -> Int {
    let count = min(limit, outgoing.count - sent)
    guard count > 0 else { return 0 }
    outgoing.withUnsafeBytes {
      if let start = $0.baseAddress { buffer.copyMemory(from: start + sent, byteCount: count) }
    }
    sent += count
    return count
  }
}

/// A link to a simulated phone. The loop does not run: the test turns everything itself, on its own thread.
final class LinkBench: LinkOwner {
  let loop: EventLoop
  let pipe: ScriptedPipe
  let link: LinkDriver
  private(set) var version: MuxVersion?
  private(set) var failure: String?

  init(
    behaviour: PhoneBehaviour = PhoneBehaviour(), transfers: Int = 3,
    ports: [UInt16: PhonePort] = SimulatedPhone.usualPorts,
    configuration: LinkConfiguration = LinkConfiguration(), endpointPacketSize: Int = 1024
  ) throws {
    loop = try EventLoop()
    let box = PhoneBox(behaviour: behaviour, ports: ports, servers: [:], on: loop)
    pipe = ScriptedPipe(box, transfers: transfers)
    let log = Log(level: .debug, on: loop, handler: nil)
    let owner = Owner()
    link = LinkDriver(
      pipe: pipe, on: loop, log: log, name: "test", configuration: configuration,
      pacing: SendPacing(endpointPacketSize: endpointPacketSize), owner: owner)
    self.owner = owner
    owner.bench = self
    link.start()
    settle()
  }

  private let owner: Owner
  private final class Owner: LinkOwner {
    unowned var bench: LinkBench?
    func linkIsUp(_ link: LinkDriver, _ version: MuxVersion) { bench?.linkIsUp(link, version) }
    func linkFailed(_ link: LinkDriver, _ reason: String) { bench?.linkFailed(link, reason) }
  }

  func linkIsUp(_ link: LinkDriver, _ version: MuxVersion) { self.version = version }
  func linkFailed(_ link: LinkDriver, _ reason: String) { failure = reason }

  /// Moves everything until nothing moves any more.
  func settle() {
    repeat {
      let wasBusy = !pipe.underWay.isEmpty
      if pipe.isFlowing {
        pipe.complete()
        pipe.receiver?.pipeCanSend()
      }
      if !pipe.deliver() && !(wasBusy && pipe.isFlowing) { break }
    } while true
  }

  func open(_ port: UInt16, _ user: TestSession) throws -> SessionID {
    let session = try link.open(USBMuxTests.port(port), for: user)
    settle()
    return session
  }
}
