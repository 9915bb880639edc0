#if os(Linux)
  internal import CLibUSB

  /// Who is told that a transfer is over, in whatever way.
  protocol USBTransferOwner: AnyObject {
    func completed(_ transfer: USBTransfer)
  }

  /// One of libusb's transfers with its memory.
  ///
  /// **Thread.** The loop's while the device is in use; the helper's once the device was handed over to it to
  /// be closed, which happens through the helper's queue and once. That rule makes the `@unchecked Sendable`
  /// true.
  @safe
  final class USBTransfer: @unchecked Sendable {
    let index: Int
    /// From the device.
    let isInput: Bool
    let bytes: UnsafeMutableRawPointer
    let capacity: Int
    private let raw: UnsafeMutablePointer<libusb_transfer>
    private let connection: USBConnection
    private let isDeviceMemory: Bool
    private var isFreed = false
    /// Submitted and not completed: libusb and the kernel have it.
    fileprivate(set) var isInFlight = false
    weak var owner: (any USBTransferOwner)?

    /// Makes one with `capacity` bytes of memory; nil when there is none left. With `deviceMemory` it tries memory
    /// that the kernel shares with the host controller, which saves a copy where it is to be had.
    init?(
      index: Int, isInput: Bool, capacity: Int, deviceMemory: Bool = false, of connection: USBConnection
    ) {
      guard let raw = unsafe libusb_alloc_transfer(0) else { return nil }
      var memory: UnsafeMutableRawPointer?
      if deviceMemory, let mapped = unsafe libusb_dev_mem_alloc(connection.handle, capacity) {
        unsafe memory = UnsafeMutableRawPointer(mapped)
        isDeviceMemory = true
      } else {
        isDeviceMemory = false
      }
      self.index = index
      self.isInput = isInput
      self.capacity = capacity
      self.connection = connection
      unsafe self.raw = raw
      unsafe bytes = memory ?? .allocate(byteCount: max(capacity, 1), alignment: 64)
    }

    deinit { free() }

    /// Frees the memory, while the device is still open. What is in flight belongs to libusb and the kernel, for
    /// ever if need be.
    func free() {
      guard !isFreed, !isInFlight else { return }
      isFreed = true
      unsafe libusb_free_transfer(raw)
      if isDeviceMemory {
        guard !connection.isClosed else { return }
        unsafe libusb_dev_mem_free(
          connection.handle, bytes.assumingMemoryBound(to: UInt8.self), capacity)
      } else {
        unsafe bytes.deallocate()
      }
    }

    /// Why the transfer cannot be relied upon, in words; nil when it was completed.
    var failure: String? {
      switch unsafe raw.pointee.status {
      case LIBUSB_TRANSFER_COMPLETED: nil
      case LIBUSB_TRANSFER_NO_DEVICE: "the device is gone"
      case LIBUSB_TRANSFER_STALL: "an endpoint halted"
      case LIBUSB_TRANSFER_OVERFLOW: "the device sent more than it was asked for"
      case LIBUSB_TRANSFER_TIMED_OUT: "a transfer timed out"
      case LIBUSB_TRANSFER_CANCELLED: "a transfer was cancelled"
      default: "a transfer failed"
      }
    }

    var actualLength: Int { min(max(Int(unsafe raw.pointee.actual_length), 0), capacity) }

    /// Submits it for a bulk endpoint. Returns libusb's status; 0: it is under way, and its owner is told.
    func submitBulk(_ endpoint: UInt8, count: Int) -> USBStatus {
      unsafe cusb_fill_bulk(
        raw, connection.handle, endpoint, bytes.assumingMemoryBound(to: UInt8.self), CInt(clamping: count),
        transferCompleted, Unmanaged.passUnretained(self).toOpaque())
      return submit()
    }

    /// Submits it for endpoint 0, with a time limit. The answer comes behind 8 bytes of the request's own.
    func submit(_ control: USBControlRequest, milliseconds: UInt32) -> USBStatus {
      guard Int(control.length) + Self.requestSize <= capacity else { return .invalid }
      unsafe cusb_fill_control(
        raw, connection.handle, control.type, control.request, control.value, control.index, control.length,
        bytes.assumingMemoryBound(to: UInt8.self), transferCompleted,
        Unmanaged.passUnretained(self).toOpaque(), milliseconds)
      return submit()
    }

    /// The answer to a control request.
    var answer: [UInt8] {
      let count = min(actualLength, capacity - Self.requestSize)
      return unsafe [UInt8](UnsafeRawBufferPointer(start: bytes + Self.requestSize, count: count))
    }

    /// Bytes in front of a control transfer's data.
    static let requestSize = 8

    private func submit() -> USBStatus {
      isInFlight = true
      let status = USBStatus(unsafe libusb_submit_transfer(raw))
      if !status.isOK { isInFlight = false }
      return status
    }

    /// Asks for its end; it completes soon after, normally.
    func cancel() {
      if isInFlight { unsafe libusb_cancel_transfer(raw) }
    }

    /// Frees it, or gives it up when the kernel still has it: its memory is never freed then.
    func freeOrAbandon() {
      if isInFlight { unsafe _ = Unmanaged.passRetained(self) } else { free() }
    }

    fileprivate func complete() {
      isInFlight = false
      owner?.completed(self)
    }
  }

  private func transferCompleted(_ raw: UnsafeMutablePointer<libusb_transfer>?) {
    guard let raw = unsafe raw, let context = unsafe raw.pointee.user_data else { return }
    unsafe Unmanaged<USBTransfer>.fromOpaque(context).takeUnretainedValue().complete()
  }

  /// What a call of libusb returned.
  struct USBStatus: Equatable, Sendable, CustomStringConvertible {
    let code: CInt

    init(_ code: CInt) { self.code = code }

    var isOK: Bool { code >= 0 }
    var isBusy: Bool { code == LIBUSB_ERROR_BUSY.rawValue }
    var isDenied: Bool { code == LIBUSB_ERROR_ACCESS.rawValue }
    /// The device is not there (any more).
    var isAbsence: Bool { code == LIBUSB_ERROR_NO_DEVICE.rawValue || code == LIBUSB_ERROR_NOT_FOUND.rawValue }
    /// The kernel's limit for memory of USB transfers is reached (`usbfs_memory_mb`), or memory is.
    var isOutOfMemory: Bool { code == LIBUSB_ERROR_NO_MEM.rawValue }

    static let invalid = USBStatus(LIBUSB_ERROR_INVALID_PARAM.rawValue)

    /// libusb's words.
    var description: String {
      guard let text = unsafe libusb_strerror(code) else { return "error \(code)" }
      return unsafe String(cString: text)
    }
  }
#endif
