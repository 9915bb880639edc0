/// A running forward of ``Mux/forward(_:to:options:)``.
public final class Forward: Sendable {
  /// Where it listens.
  public struct Endpoint: Hashable, Sendable, CustomStringConvertible {
    /// A numeric address, or the path of a Unix socket.
    public let host: String
    /// The port; nil for a Unix socket.
    public let port: UInt16?

    /// `127.0.0.1:8765`, `[::1]:8765` or `unix:/path`.
    public var description: String {
      guard let port else { return "unix:\(host)" }
      return host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
  }

  /// Its number in ``MuxStatus``.
  package let identifier: UInt64
  private let engine: Engine
  /// The port on the device.
  public let devicePort: DevicePort
  /// Where it listens: for `localhost` on IPv4 and, where this machine has it, on IPv6.
  public let endpoints: [Endpoint]

  /// The local port, also where the system picked it; nil for a Unix socket.
  public var port: UInt16? { endpoints.first?.port }

  init(identifier: UInt64, devicePort: DevicePort, endpoints: [Endpoint], engine: Engine) {
    self.identifier = identifier
    self.devicePort = devicePort
    self.endpoints = endpoints
    self.engine = engine
  }

  /// Stops to listen and ends its connections. The address is free when this returns.
  public func stop() async {
    await engine.remove(identifier)
  }
}
