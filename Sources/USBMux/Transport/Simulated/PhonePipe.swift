internal import EventLoop
internal import SimulatedPhone

/// The bulk endpoints of a simulated phone: what is submitted reaches it at once, what it says is delivered a
/// little later, as by a device.
@safe
final class PhonePipe: BulkPipe, Resumable {
  private static let transfers = 8
  private static let transferSize = 65536
  /// Reads that are delivered before others get their turn.
  private static let slice = 16

  weak var receiver: (any BulkReceiver)?
  private let loop: EventLoop
  private let phone: PhoneBox
  private var buffers: [TransferBuffer] = []
  private let readBuffer: UnsafeMutableRawBufferPointer
  private var isScheduled = false
  private var isClosed = false

  init(_ phone: PhoneBox, on loop: EventLoop) {
    self.loop = loop
    self.phone = phone
    unsafe readBuffer = .allocate(byteCount: Self.transferSize, alignment: 4096)
    for index in 0..<Self.transfers {
      let bytes = UnsafeMutableRawPointer.allocate(byteCount: Self.transferSize, alignment: 4096)
      buffers.append(unsafe TransferBuffer(bytes: bytes, capacity: Self.transferSize, index: index))
    }
    phone.changed = { [weak self] in self?.schedule() }
  }

  deinit {
    unsafe readBuffer.deallocate()
    for buffer in buffers { unsafe buffer.bytes.deallocate() }
  }

  func start() { schedule() }

  /// Nothing stays under way.
  func takeBuffer(behind limit: Int) -> TransferBuffer? { isClosed ? nil : buffers.popLast() }

  func submit(_ buffer: TransferBuffer, count: Int) {
    let bytes = unsafe UnsafeRawBufferPointer(start: buffer.bytes, count: count)
    phone.receive(unsafe Span<UInt8>(_unsafeBytes: bytes))
    // What usbfs does for an endpoint whose packet the length fills.
    if count % phone.endpointPacketSize == 0 { phone.receive(Span()) }
    buffers.append(buffer)
    schedule()
  }

  func giveBack(_ buffer: TransferBuffer) { buffers.append(buffer) }

  func close() { isClosed = true }

  private func schedule() {
    guard !isScheduled, !isClosed else { return }
    isScheduled = true
    loop.resume(self)
  }

  func resume() {
    isScheduled = false
    for _ in 0..<Self.slice {
      guard !isClosed else { return }
      let count = unsafe phone.nextTransfer(into: readBuffer)
      guard count > 0 else { return }
      unsafe receiver?.pipeReceived(UnsafeRawBufferPointer(rebasing: readBuffer[..<count]))
    }
    schedule()
  }
}
