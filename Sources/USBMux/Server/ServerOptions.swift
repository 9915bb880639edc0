/// How a ``UsbmuxdServer`` serves.
public struct ServerOptions: Sendable {
  /// The permission bits of a Unix socket, 0...0o777. Whoever may write to it reaches every phone.
  public var socketMode: UInt16
  /// The group of a Unix socket, by name or number; nil: the group of this process.
  public var socketGroup: String?
  /// The directory of the pair records and of this host's identity. Made with mode 0700 when it is first
  /// written to; its parent must exist.
  public var lockdownDirectory: String
  /// How long a device may take to accept a connection.
  public var connectTimeout: Duration
  /// How long nothing may move after a program has ended its sending side.
  public var halfCloseTimeout: Duration
  /// What one program, and all of them, may cost.
  public var limits: Limits

  /// What programs may cost.
  public struct Limits: Hashable, Sendable {
    /// Programs that are connected at a time, those with a stream to a device included; others wait.
    public var clients: Int
    /// The longest request, bytes, at least 16: a longer one ends the connection.
    public var requestBytes: Int
    /// What is kept for a program that listens but does not read, bytes: with more the connection is ended.
    public var queuedBytes: Int

    /// - Parameters:
    ///   - clients: Programs that are connected at a time.
    ///   - requestBytes: The longest request, bytes.
    ///   - queuedBytes: What is kept for a program that does not read, bytes.
    public init(clients: Int = 8192, requestBytes: Int = 1 << 20, queuedBytes: Int = 1 << 20) {
      self.clients = clients
      self.requestBytes = requestBytes
      self.queuedBytes = queuedBytes
    }
  }

  /// Where Apple's daemon and usbmuxd keep pair records.
  public static var standardLockdownDirectory: String {
    #if canImport(Darwin)
      "/var/db/lockdown"
    #else
      "/var/lib/lockdown"
    #endif
  }

  /// - Parameters:
  ///   - socketMode: The permission bits of a Unix socket.
  ///   - socketGroup: The group of a Unix socket, by name or number.
  ///   - lockdownDirectory: The directory of the pair records.
  ///   - connectTimeout: How long a device may take to accept a connection.
  ///   - halfCloseTimeout: How long nothing may move after a program has ended its sending side.
  ///   - limits: What programs may cost.
  public init(
    socketMode: UInt16 = 0o660, socketGroup: String? = nil,
    lockdownDirectory: String = ServerOptions.standardLockdownDirectory,
    connectTimeout: Duration = .seconds(10), halfCloseTimeout: Duration = .seconds(30),
    limits: Limits = Limits()
  ) {
    self.socketMode = socketMode
    self.socketGroup = socketGroup
    self.lockdownDirectory = lockdownDirectory
    self.connectTimeout = connectTimeout
    self.halfCloseTimeout = halfCloseTimeout
    self.limits = limits
  }
}
