/// A running server of ``Mux/serve(_:options:)``: to other programs it is a usbmuxd.
public final class UsbmuxdServer: Sendable {
  private let identifier: UInt64
  private let engine: Engine
  /// Where it listens.
  public let endpoints: [Forward.Endpoint]

  init(identifier: UInt64, endpoints: [Forward.Endpoint], engine: Engine) {
    self.identifier = identifier
    self.endpoints = endpoints
    self.engine = engine
  }

  /// Stops to listen and ends its connections, streams to devices included.
  public func stop() async {
    await engine.removeServer(identifier)
  }
}
