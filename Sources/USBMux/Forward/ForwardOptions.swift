/// What a forward does with each connection.
public struct ForwardOptions: Hashable, Sendable {
  /// Which device is meant; decided for each connection anew.
  public var device: DeviceSelector
  /// How long a connection waits for its device (or for a daemon) to be there before it is reset.
  public var wait: Duration
  /// How long the device may take to accept a connection.
  public var connectTimeout: Duration
  /// How long nothing may move after a client has ended its sending side.
  public var halfCloseTimeout: Duration
  /// Connections of this forward that may be open at a time; others wait. Nil: as many as all forwards may have.
  public var maximumConnections: Int?

  /// - Parameters:
  ///   - device: Which device is meant.
  ///   - wait: How long a connection waits for its device.
  ///   - connectTimeout: How long the device may take to accept a connection.
  ///   - halfCloseTimeout: How long nothing may move after a client has ended its sending side.
  ///   - maximumConnections: Connections that may be open at a time.
  public init(
    device: DeviceSelector = DeviceSelector(), wait: Duration = .seconds(5),
    connectTimeout: Duration = .seconds(10), halfCloseTimeout: Duration = .seconds(30),
    maximumConnections: Int? = nil
  ) {
    self.device = device
    self.wait = wait
    self.connectTimeout = connectTimeout
    self.halfCloseTimeout = halfCloseTimeout
    self.maximumConnections = maximumConnections
  }
}
