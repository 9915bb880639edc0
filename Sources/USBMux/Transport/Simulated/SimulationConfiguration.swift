internal import SimulatedPhone

/// The simulated phones of ``TransportChoice/simulated(_:)``.
public struct SimulationConfiguration: Hashable, Sendable {
  /// What answers on a port of a simulated phone.
  public enum Service: Hashable, Sendable {
    /// Sends back what it receives.
    case echo
    /// Reads and forgets.
    case discard
    /// Sends printable characters without end.
    case characterGenerator
    /// A small HTTP server.
    case http
    /// A TCP server of this machine, at a numeric loopback address or `localhost`.
    case loopback(host: String, port: UInt16)
  }

  /// How many phones are attached. Their UDIDs are 00008110-000000C0FFEE0001 and on.
  public var devices: Int
  /// What answers on the ports of each, over the usual services: echo on 7, discard on 9, a character generator
  /// on 19, HTTP on 8765, a minimal lockdownd on 62078. All other ports refuse.
  public var services: [UInt16: Service]

  /// One phone with the usual services.
  public init(devices: Int = 1, services: [UInt16: Service] = [:]) {
    self.devices = devices
    self.services = services
  }

  var ports: [UInt16: PhonePort] {
    var ports = SimulatedPhone.usualPorts
    for (port, service) in services {
      ports[port] =
        switch service {
        case .echo: .echo
        case .discard: .discard
        case .characterGenerator: .characterGenerator
        case .http: .http
        case .loopback: .external
        }
    }
    return ports
  }
}
