/// What can be chosen about direct USB.
public struct USBOptions: Hashable, Sendable {
  /// The mode that phones are switched to; nil: theirs is left alone.
  public var mode: USBDeviceMode?
  /// Reads that are kept under way for each phone, 1...32.
  public var readCount: Int
  /// Bytes of one read: a multiple of 1024 up to 64 KiB.
  public var readSize: Int
  /// Packets for the phone that may be under way, 1...32.
  public var writeCount: Int
  /// Whether to use memory that the kernel shares with the host controller, which saves a copy of every byte.
  public var usesDeviceMemory: Bool

  /// Eight reads of 16 KiB hide the time from the end of one to the start of the next. Of a bulk stream at most four
  /// packets are under way; the other two are for messages and acknowledgements beside it (docs/PERFORMANCE.md has
  /// the sweep).
  ///
  /// Memory shared with the controller is uncached on many ARM machines, where reading from it costs more than
  /// the copy that it saves.
  public init(
    mode: USBDeviceMode? = nil, readCount: Int = 8, readSize: Int = 16 * 1024, writeCount: Int = 6,
    usesDeviceMemory: Bool? = nil
  ) {
    self.mode = mode
    self.readCount = min(max(readCount, 1), 32)
    self.readSize = min(max(readSize / 1024, 1), 64) * 1024
    self.writeCount = min(max(writeCount, 1), 32)
    #if arch(x86_64)
      self.usesDeviceMemory = usesDeviceMemory ?? true
    #else
      self.usesDeviceMemory = usesDeviceMemory ?? false
    #endif
  }

  /// Bytes of the memory for one outgoing packet. The link stays within 32 KiB.
  static let packetCapacity = 32 * 1024
}
