import USBMux

extension RunOptions {
  /// The library's options for a forward: what it has of its own, else what all have.
  func forwardOptions(for forward: ForwardOptions) -> USBMux.ForwardOptions {
    let own = forward.settings
    var options = USBMux.ForwardOptions()
    let ways = (own.connections ?? connections).ways
    options.device =
      switch own.device ?? device {
      case .onlyOne: DeviceSelector(ways: ways)
      case .any: DeviceSelector(ways: ways, takesFirst: true)
      case .udid(let udid): DeviceSelector(udid: udid, ways: ways)
      }
    options.wait = own.wait ?? timeouts.wait
    options.connectTimeout = own.connect ?? timeouts.connect
    options.halfCloseTimeout = own.halfClose ?? timeouts.halfClose
    options.maximumConnections = own.maximumConnections
    return options
  }

  func muxConfiguration(sink: LogSink, capture: Capture?) -> Mux.Configuration {
    var configuration = Mux.Configuration(
      transport: transport.mux, logLevel: logLevel, logHandler: { sink.write($0) },
      maximumConnections: maximumConnections)
    configuration.capture = capture
    return configuration
  }
}

extension RunOptions {
  /// With what only the process itself can tell: where the sockets are that systemd passes (tunneld must not take
  /// its own socket for a usbmuxd there either), and which directory it has made for the service's secrets.
  func resolved(_ sockets: PassedSockets = .current) throws(UsageError) -> RunOptions {
    guard var server else { return self }
    var options = self
    if server.lockdownDirectory == nil, let directory = Self.stateDirectory {
      server.lockdownDirectory = directory + "/lockdown"
      options.server = server
    }
    guard case .activated = server.location else { return options }
    guard !sockets.server.isEmpty else {
      throw UsageError(
        "systemd has passed no socket", fix: "start tunneld by its socket unit, or name a path")
    }
    for socket in sockets.server {
      server.location = .endpoint(socket.endpoint)
      options.transport = try server.transport(options.transport)
    }
    return options
  }

  /// The first of systemd's `StateDirectory=`.
  private static var stateDirectory: String? {
    Console.environment("STATE_DIRECTORY")?.split(separator: ":").first.map(String.init)
  }
}

extension ServerOptions.Location {
  var address: ListenAddress {
    switch self {
    case .endpoint(let endpoint): endpoint.address
    case .activated: PassedSockets.current.server.address ?? .inherited(descriptors: [])
    }
  }
}

extension ForwardOptions {
  /// The sockets that systemd passes for it, or else where it is to listen.
  var address: ListenAddress { PassedSockets.current.forward(local).address ?? local.address }
}

extension ServerOptions {
  /// The library's options; times are those of the forwards.
  func mux(_ timeouts: RunOptions.Timeouts) -> USBMux.ServerOptions {
    var options = USBMux.ServerOptions(
      socketMode: mode, socketGroup: group, connectTimeout: timeouts.connect,
      halfCloseTimeout: timeouts.halfClose)
    if let lockdownDirectory { options.lockdownDirectory = lockdownDirectory }
    return options
  }
}

extension LogLevel {
  /// `-q` is -1, nothing 0, each `-v` one more.
  init(verbosity: Int) {
    self =
      switch verbosity {
      case ..<0: .error
      case 0: .warning
      case 1: .info
      default: .debug
      }
  }
}

extension ConnectionChoice {
  var ways: DeviceSelector.Ways {
    switch self {
    case .usbOnly: .usb
    case .usbPreferred: .usbThenNetwork
    case .networkOnly: .network
    }
  }
}

extension LocalEndpoint {
  var address: ListenAddress {
    switch self {
    case .tcp(.localhost, let port): .localhost(port: port)
    case .tcp(.address(let host), let port): .address(host, port: port)
    case .unix(let path): .unix(path: path)
    }
  }
}

extension TransportChoice {
  /// The library's transport for this choice.
  var mux: USBMux.TransportChoice {
    switch self {
    case .auto(let address): .usbmuxdOrUSB(address ?? .standard, USBOptions())
    case .usbmuxd(let address): .usbmuxd(address ?? .standard)
    case .usb: .usb(USBOptions())
    case .simulated(let options): .simulated(options.configuration)
    }
  }
}

extension SimulationOptions {
  var configuration: SimulationConfiguration {
    SimulationConfiguration(
      devices: devices,
      services: services.mapValues { service in
        switch service {
        case .echo: .echo
        case .discard: .discard
        case .chargen: .characterGenerator
        case .http: .http
        case .loopback(let host, let port): .loopback(host: host, port: port)
        }
      })
  }
}
