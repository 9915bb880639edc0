#if os(Linux)
  internal import EventLoop

  /// The two bulk endpoints of a claimed mux interface.
  ///
  /// Several reads are under way all the time. A transfer that ends in any state other than completed means that
  /// the device is gone, or must be treated so; so does one that cannot be submitted.
  final class USBPipe: BulkPipe, USBTransferOwner, Resumable {
    weak var receiver: (any BulkReceiver)?
    /// Gets all transfers once when the pipe is closed: libusb may still have some of them.
    var whenClosed: (([USBTransfer]) -> Void)?

    private let loop: EventLoop
    private let interface: MuxInterface
    private var reads: [USBTransfer] = []
    private var packets: [Packet] = []
    private var free: [Int] = []
    private var isShort = false
    private var bytesUnderWay = 0
    /// Packets that the kernel had no memory for, in order. They go first.
    private var blocked: [USBTransfer] = []
    /// Reads that the kernel had no memory for.
    private var starved: [USBTransfer] = []
    private var memoryTimer: LoopTimer?
    private var shortSince: Int64 = 0
    private var failure: String?
    private var isClosed = false

    private struct Packet {
      let data: USBTransfer
      /// The empty transfer that follows where the length is a multiple of the packet size.
      let end: USBTransfer
      let buffer: TransferBuffer
      var count = 0
    }

    /// How long the kernel's memory for transfers may stay used up, and when it is asked for again.
    private static let longestWait: Int64 = 2_000_000_000
    private static let memoryPause: Int64 = 10_000_000

    /// - Throws: ``USBProblem`` when there is no memory for the transfers.
    init(
      _ connection: USBConnection, _ interface: MuxInterface, on loop: EventLoop, options: USBOptions
    ) throws(USBProblem) {
      self.loop = loop
      self.interface = interface
      let noMemory = USBProblem.failed(
        connection.location, call: "libusb_alloc_transfer", reason: "out of memory")
      for index in 0..<options.readCount {
        guard
          let read = USBTransfer(
            index: index, isInput: true, capacity: options.readSize, deviceMemory: options.usesDeviceMemory,
            of: connection)
        else { throw noMemory }
        reads.append(read)
      }
      for index in 0..<options.writeCount {
        guard
          let data = USBTransfer(
            index: index, isInput: false, capacity: USBOptions.packetCapacity,
            deviceMemory: options.usesDeviceMemory, of: connection),
          let end = USBTransfer(index: index, isInput: false, capacity: 0, of: connection)
        else { throw noMemory }
        let buffer = unsafe TransferBuffer(bytes: data.bytes, capacity: data.capacity, index: index)
        packets.append(Packet(data: data, end: end, buffer: buffer))
        free.append(index)
      }
      for transfer in transfers { transfer.owner = self }
    }

    private var transfers: [USBTransfer] { reads + packets.flatMap { [$0.data, $0.end] } }

    func start() {
      for read in reads { startReading(read) }
    }

    private func startReading(_ read: USBTransfer) {
      let status = read.submitBulk(interface.input.address, count: read.capacity)
      guard !status.isOK else { return }
      guard status.isOutOfMemory else { return fail("a read cannot be started: \(status)") }
      starved.append(read)
      waitForMemory()
    }

    // MARK: Sending

    func takeBuffer(behind limit: Int) -> TransferBuffer? {
      guard !isClosed, failure == nil, bytesUnderWay < limit, let index = free.popLast() else {
        isShort = true
        return nil
      }
      return packets[index].buffer
    }

    func giveBack(_ buffer: TransferBuffer) { free.append(buffer.index) }

    func submit(_ buffer: TransferBuffer, count: Int) {
      guard !isClosed, failure == nil, packets.indices.contains(buffer.index) else { return }
      packets[buffer.index].count = count
      bytesUnderWay += count
      send(packets[buffer.index].data)
      // Protocol: when the length is a multiple of wMaxPacketSize, a zero-length packet must follow: devices
      // merge packets otherwise and then reject the sum. libusb's flag for it does the same where the host
      // controller is real; the virtual ones lose it.
      if count % interface.output.packetSize == 0 { send(packets[buffer.index].end) }
    }

    /// Submits a transfer behind all others.
    private func send(_ transfer: USBTransfer) {
      if blocked.isEmpty, trySend(transfer) { return }
      blocked.append(transfer)
      waitForMemory()
    }

    /// False when the kernel has no memory for it now.
    private func trySend(_ transfer: USBTransfer) -> Bool {
      let count = transfer.capacity == 0 ? 0 : packets[transfer.index].count
      let status = transfer.submitBulk(interface.output.address, count: count)
      if status.isOutOfMemory { return false }
      if !status.isOK { fail("a packet cannot be sent: \(status)") }
      return true
    }

    // MARK: Memory

    /// The kernel limits the memory of all USB transfers on the machine (`usbfs_memory_mb`). While it is used up
    /// there are fewer transfers; when there can be none for a while, the device cannot be used.
    private func waitForMemory() {
      guard memoryTimer == nil else { return }
      shortSince = loop.now
      memoryTimer = LoopTimer(on: loop) { [unowned self] in retry() }
      memoryTimer?.set(after: Self.memoryPause)
    }

    private func retry() {
      guard !isClosed, failure == nil else { return }
      sendBlocked()
      let waiting = starved
      starved = []
      for read in waiting { startReading(read) }
      if blocked.isEmpty, starved.isEmpty {
        memoryTimer = nil
      } else if !blocked.isEmpty || starved.count == reads.count, loop.now - shortSince >= Self.longestWait {
        fail(
          "the kernel has no memory for USB transfers; raise /sys/module/usbcore/parameters/usbfs_memory_mb")
      } else {
        memoryTimer?.set(after: Self.memoryPause)
      }
    }

    private func sendBlocked() {
      while !isClosed, failure == nil, let next = blocked.first, trySend(next) {
        blocked.removeFirst()
        shortSince = loop.now
      }
    }

    // MARK: Completion

    func completed(_ transfer: USBTransfer) {
      guard !isClosed, failure == nil else { return }
      if let reason = transfer.failure { return fail(reason) }
      if transfer.isInput { received(transfer) } else { sent(transfer) }
    }

    private func received(_ transfer: USBTransfer) {
      let count = transfer.actualLength
      if count > 0 {
        unsafe receiver?.pipeReceived(UnsafeRawBufferPointer(start: transfer.bytes, count: count))
      }
      guard !isClosed, failure == nil else { return }
      startReading(transfer)
    }

    private func sent(_ transfer: USBTransfer) {
      let packet = packets[transfer.index]
      guard transfer !== packet.data || transfer.actualLength == packet.count else {
        return fail("the device took \(transfer.actualLength) of \(packet.count) bytes")
      }
      if !blocked.isEmpty { sendBlocked() }
      let isBlocked = blocked.contains { $0.index == transfer.index }
      guard !isClosed, failure == nil, !packet.data.isInFlight, !packet.end.isInFlight, !isBlocked else {
        return
      }
      free.append(transfer.index)
      bytesUnderWay -= packet.count
      guard isShort else { return }
      isShort = false
      receiver?.pipeCanSend()
    }

    // MARK: End

    /// The receiver is told in the next turn: this may have come from within one of its calls.
    private func fail(_ reason: String) {
      guard failure == nil, !isClosed else { return }
      failure = reason
      loop.resume(self)
    }

    func resume() {
      guard !isClosed, let failure else { return }
      receiver?.pipeFailed(failure)
    }

    func close() {
      guard !isClosed else { return }
      isClosed = true
      memoryTimer = nil
      blocked = []
      starved = []
      let transfers = transfers
      for transfer in transfers { transfer.owner = nil }
      reads = []
      packets = []
      free = []
      whenClosed?(transfers)
      whenClosed = nil
    }
  }
#endif
