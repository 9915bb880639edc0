/// What a forward does with each connection.
public struct ForwardOptions: Sendable {
  /// Which device is meant; decided for each connection anew.
  public var device: DeviceSelector
  /// How long a connection waits for its device (or for a daemon) to be there before it is reset.
  public var wait: Duration
  /// How long the device may take to accept a connection.
  public var connectTimeout: Duration
  /// How long nothing may move after a client has ended its sending side.
  public var halfCloseTimeout: Duration

  /// - Parameters:
  ///   - device: Which device is meant.
  ///   - wait: How long a connection waits for its device.
  ///   - connectTimeout: How long the device may take to accept a connection.
  ///   - halfCloseTimeout: How long nothing may move after a client has ended its sending side.
  public init(
    device: DeviceSelector = DeviceSelector(), wait: Duration = .seconds(5),
    connectTimeout: Duration = .seconds(10), halfCloseTimeout: Duration = .seconds(30)
  ) {
    self.device = device
    self.wait = wait
    self.connectTimeout = connectTimeout
    self.halfCloseTimeout = halfCloseTimeout
  }
}
