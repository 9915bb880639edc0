internal import MuxProtocol

/// The command line of tunneld itself.
struct TunneldCommand {
  /// What the first argument that is no option may name; forwarding has no name.
  enum Name: String, CaseIterable {
    case run
    case devices
  }

  private var command: Name?
  private var used: [TunneldOption] = []
  private var locals: [LocalArgument] = []
  private var devicePorts: [UInt16] = []
  private var pairs: [(local: LocalArgument, devicePort: UInt16)] = []
  private var bindAddress = BindAddress.localhost
  private var udid: UDIDPrefix?
  private var transportName: TransportName?
  private var usbmuxd: DaemonAddress?
  private var simulation = SimulationOptions()
  private var server = ServerArguments()
  private var timeouts = RunOptions.Timeouts()
  private var maximumConnections: Int?
  private var verbosity = 0

  private enum TransportName: String, CaseIterable {
    case auto
    case usbmuxd
    case usb
    case simulated
  }

  static func parse(
    _ arguments: ArraySlice<String>,
    environment: CommandEnvironment
  ) throws(UsageError) -> Invocation {
    var scanner = ArgumentScanner<TunneldOption>(arguments, program: "tunneld", allowsAbbreviations: false)
    var line = TunneldCommand()
    while let argument = try scanner.next() {
      switch argument {
      case .option(.help, _): return .help(line.command == .devices ? HelpText.devices : HelpText.tunneld)
      case .option(.version, _): return .version("tunneld \(ProgramVersion.number)")
      case .option(let option, let value): try line.take(option, value)
      case .positional(let text): try line.take(positional: text)
      }
    }
    return try line.invocation(environment: environment)
  }

  // MARK: One argument

  private mutating func take(_ option: TunneldOption, _ value: String) throws(UsageError) {
    if option.valueName != nil, !option.isRepeatable, used.contains(option) {
      throw UsageError("\(option.spelling) is given twice", fix: "leave one out")
    }
    used.append(option)
    let name = option.spelling
    switch option {
    case .local: locals.append(try LocalArgument(parsing: value, in: name))
    case .devicePort: devicePorts.append(try Port.device(value, in: name))
    case .bind: bindAddress = try BindAddress(parsing: value, in: name)
    case .udid: udid = try UDIDPrefix(argument: value, of: name)
    case .transport: transportName = try Self.transport(named: value)
    case .usbmuxd: usbmuxd = try DaemonAddress(argument: value, of: name)
    case .wait: timeouts.wait = try Duration(parsingSeconds: value, option: name)
    case .halfCloseTimeout: timeouts.halfClose = try Duration(parsingSeconds: value, option: name)
    case .connectTimeout: timeouts.connect = try Self.positive(value, option: name)
    case .drain: timeouts.drain = try Duration(parsingSeconds: value, option: name)
    case .maximumConnections:
      maximumConnections = try Int(parsingCount: value, in: 1...1_000_000, option: name)
    case .simulate:
      let (port, service) = try SimulatedServiceChoice.assignment(value)
      guard simulation.services.updateValue(service, forKey: port) == nil else {
        throw UsageError("--simulate names port \(port) twice", fix: "leave one out")
      }
    case .simulatedDevices: simulation.devices = try Int(parsingCount: value, in: 0...256, option: name)
    case .usbmuxdSocket: server.location = try ServerOptions.Location(parsing: value, option: name)
    case .usbmuxdSocketMode: try server.setMode(value, option: name)
    case .usbmuxdSocketGroup: try server.setGroup(value, option: name)
    case .lockdownDirectory: try server.setLockdownDirectory(value, option: name)
    case .verbose: verbosity += 1
    case .quiet: verbosity = -1
    // Seen in `used`, or handled by the caller.
    case .any, .usbOnly, .network, .networkOnly, .json, .watch, .help, .version: break
    }
  }

  private mutating func take(positional text: String) throws(UsageError) {
    if command == nil, pairs.isEmpty, !text.contains(":") {
      if text == Name.devices.rawValue {
        command = .devices
        return
      }
      if Port.parse(text) == nil, nearestName(to: text, among: [Name.devices.rawValue]) != nil {
        throw UsageError("unknown command \(text.quoted)", fix: "did you mean devices?")
      }
    }
    guard command == nil else {
      throw UsageError("unexpected argument \(text.quoted)", fix: "see tunneld devices --help")
    }
    pairs.append(try ForwardOptions.pair(text))
  }

  private static func transport(named text: String) throws(UsageError) -> TransportName {
    if let name = TransportName(rawValue: text) { return name }
    let names = TransportName.allCases.map(\.rawValue)
    throw UsageError(
      "unknown transport \(text.quoted)",
      fix: nearestName(to: text, among: names).map { "did you mean \($0)?" }
        ?? "write one of \(names.joined(separator: ", "))"
    )
  }

  private static func positive(_ text: String, option: String) throws(UsageError) -> Duration {
    let time = try Duration(parsingSeconds: text, option: option)
    guard time > .zero else {
      throw UsageError("\(option) \(text.quoted) leaves no time to connect", fix: "write seconds above 0")
    }
    return time
  }

  // MARK: All of them together

  private func invocation(environment: CommandEnvironment) throws(UsageError) -> Invocation {
    let command = command ?? .run
    if let stray = used.first(where: { !$0.commands.contains(command) }) {
      switch command {
      case .run:
        throw UsageError(
          "\(stray.spelling) belongs to a command", fix: "write tunneld devices \(stray.spelling)")
      case .devices:
        throw UsageError("\(stray.spelling) has no meaning for devices", fix: "leave it out")
      }
    }
    if used.contains(.quiet), used.contains(.verbose) {
      throw UsageError("--quiet and --verbose exclude each other", fix: "leave one out")
    }
    let transport = try transport(environment: environment)
    switch command {
    case .devices:
      return .devices(
        DevicesOptions(
          json: used.contains(.json),
          watch: used.contains(.watch),
          connections: try connections() ?? .usbPreferred,
          transport: transport,
          verbosity: verbosity
        )
      )
    case .run:
      var server = server
      if environment.hasServerSocket, server.location == nil { server.location = .activated }
      let served = try server.options()
      return .run(
        RunOptions(
          forwards: try forwards(besides: served),
          device: try device(),
          connections: try connections() ?? .usbOnly,
          transport: try served?.transport(transport) ?? transport,
          timeouts: timeouts,
          maximumConnections: maximumConnections,
          verbosity: verbosity,
          server: served
        )
      )
    }
  }

  private func forwards(besides server: ServerOptions?) throws(UsageError) -> [ForwardOptions] {
    guard locals.count == devicePorts.count else {
      let missing = locals.count < devicePorts.count ? TunneldOption.local : .devicePort
      throw UsageError(
        "there are \(locals.count) --local and \(devicePorts.count) --device-port",
        fix: "give each forward both; a \(missing.spelling) is missing"
      )
    }
    var list = ForwardList()
    for (local, devicePort) in zip(locals, devicePorts) {
      try list.add(local: local, devicePort: devicePort, address: bindAddress)
    }
    for pair in pairs {
      try list.add(local: pair.local, devicePort: pair.devicePort, address: bindAddress)
    }
    if case .endpoint(let local) = server?.location,
      list.all.contains(where: { $0.local.clashes(with: local) })
    {
      throw UsageError(
        "\(local.spelling.quoted) is a forward's local end already", fix: "serve another socket")
    }
    guard !list.all.isEmpty || server != nil else {
      throw UsageError(
        "nothing to forward",
        fix: "write tunneld --local 8765 --device-port 8765, or see tunneld --help"
      )
    }
    return list.all
  }

  private func device() throws(UsageError) -> DeviceChoice {
    guard used.contains(.any) else { return udid.map(DeviceChoice.udid) ?? .onlyOne }
    guard udid == nil else {
      throw UsageError("--any and --udid exclude each other", fix: "leave one out")
    }
    return .any
  }

  private func connections() throws(UsageError) -> ConnectionChoice? {
    let choices: [TunneldOption: ConnectionChoice] = [
      .usbOnly: .usbOnly, .network: .usbPreferred, .networkOnly: .networkOnly,
    ]
    let given = used.filter { choices[$0] != nil }
    guard let first = given.first else { return nil }
    if let other = given.first(where: { $0 != first }) {
      throw UsageError("\(first.spelling) and \(other.spelling) exclude each other", fix: "leave one out")
    }
    return choices[first]
  }

  private func transport(environment: CommandEnvironment) throws(UsageError) -> TransportChoice {
    let name = transportName ?? .auto
    let simulationOptions: [TunneldOption] = [.simulate, .simulatedDevices]
    if name != .simulated, let stray = used.first(where: simulationOptions.contains) {
      throw UsageError("\(stray.spelling) needs simulated phones", fix: "add --transport simulated")
    }
    switch name {
    case .auto: return .auto(usbmuxd: try daemonAddress(environment))
    case .usbmuxd: return .usbmuxd(try daemonAddress(environment))
    case .usb, .simulated:
      guard usbmuxd == nil else {
        throw UsageError("--transport \(name.rawValue) uses no usbmuxd", fix: "leave out --usbmuxd")
      }
      return name == .usb ? .usb : .simulated(simulation)
    }
  }

  private func daemonAddress(_ environment: CommandEnvironment) throws(UsageError) -> DaemonAddress? {
    if let usbmuxd { return usbmuxd }
    return try environment.usbmuxdAddress()
  }
}
