internal import MuxProtocol

extension TunneldCommand {
  func invocation(
    environment: CommandEnvironment, files: ConfigurationReader
  ) throws(UsageError) -> Invocation {
    guard !awaitsVerb else {
      throw UsageError("forward needs to know what to do", fix: "write tunneld forward add, remove or list")
    }
    let command = command ?? .run
    if let stray = used.first(where: { !$0.commands.contains(command) }) {
      throw misplaced(stray, command)
    }
    if used.contains(.quiet), used.contains(.verbose) {
      throw UsageError("--quiet and --verbose exclude each other", fix: "leave one out")
    }
    switch command {
    case .devices: return .devices(try devices(environment))
    case .run: return .run(try run(environment, files))
    case .checkConfiguration: return .checkConfiguration(try check(environment, files))
    case .status: return try asking(.status(statusFormat()))
    case .reload: return try asking(.reload)
    case .list: return try asking(.list(json: used.contains(.json)))
    case .add:
      return try asking(.add(try additions(), lease: used.contains(.lease), json: used.contains(.json)))
    case .remove: return try asking(try removal())
    }
  }

  private func misplaced(_ option: TunneldOption, _ command: Name) -> UsageError {
    guard command == .run else {
      return UsageError(
        "\(option.spelling) has no meaning for \(command.words ?? "")", fix: "leave it out")
    }
    let home = Name.allCases.first { option.commands.contains($0) }?.words ?? ""
    return UsageError(
      "\(option.spelling) belongs to a command", fix: "write tunneld \(home) \(option.spelling)")
  }

  private func devices(_ environment: CommandEnvironment) throws(UsageError) -> DevicesOptions {
    DevicesOptions(
      json: used.contains(.json), watch: used.contains(.watch),
      connections: try settings.checked().connections ?? .usbPreferred,
      transport: try transport(environment: environment), verbosity: verbosity)
  }

  // MARK: Running

  private func run(
    _ environment: CommandEnvironment, _ files: ConfigurationReader
  ) throws(UsageError) -> RunOptions {
    var line = self
    let file = try configurationFile(files)
    if let problem = file?.problems.first { throw problem }
    if let file, let problem = line.apply(file).first { throw problem }
    do throws(UsageError) {
      return try line.runOptions(environment, file)
    } catch {
      throw located(error, in: file)
    }
  }

  private func check(
    _ environment: CommandEnvironment, _ files: ConfigurationReader
  ) throws(UsageError) -> CheckOptions {
    guard let file = try configurationFile(files) else { return CheckOptions(path: "") }
    var line = self
    var options = CheckOptions(path: file.path, problems: file.problems, forwards: file.forwards.count)
    options.problems += line.apply(file)
    options.problems += line.forwards(of: file, besides: [], server: nil).problems
    options.problems = file.ordered(options.problems)
    if options.problems.isEmpty {
      do throws(UsageError) {
        _ = try line.runOptions(environment, file)
      } catch {
        options.problems = [located(error, in: file)]
      }
    }
    return options
  }

  private func runOptions(
    _ environment: CommandEnvironment, _ file: ConfigurationFile?
  ) throws(UsageError) -> RunOptions {
    let transport = try transport(environment: environment)
    let server = try served(environment)
    let settings = try settings.checked()
    var forwards = try commandForwards(besides: server)
    if let file {
      let found = self.forwards(of: file, besides: forwards, server: server)
      if let problem = found.problems.first { throw problem }
      forwards += found.forwards
    }
    let control = try control.options(isService: file != nil)
    guard !forwards.isEmpty || server != nil || file != nil || control != nil else {
      throw UsageError(
        "nothing to forward",
        fix: "write tunneld --local 8765 --device-port 8765, or see tunneld --help")
    }
    var timeouts = RunOptions.Timeouts()
    if let wait = settings.wait { timeouts.wait = wait }
    if let halfClose = settings.halfClose { timeouts.halfClose = halfClose }
    if let connect = settings.connect { timeouts.connect = connect }
    timeouts.drain = drain
    var options = RunOptions(
      forwards: forwards, device: settings.device ?? .onlyOne, connections: settings.connections ?? .usbOnly,
      transport: try server?.transport(transport) ?? transport, timeouts: timeouts,
      maximumConnections: settings.maximumConnections, verbosity: verbosity, server: server)
    options.configuration = file?.path
    options.control = control
    options.log = log
    options.ready = ReadyOptions(descriptor: readyDescriptor, json: used.contains(.readyJSON))
    options.capture = capturePath
    options.exitsWithParent = used.contains(.exitWithParent)
    return options
  }

  private func served(_ environment: CommandEnvironment) throws(UsageError) -> ServerOptions? {
    var server = server
    if environment.hasServerSocket, server.location == nil { server.location = .activated }
    return try server.options()
  }

  private func commandForwards(besides server: ServerOptions?) throws(UsageError) -> [ForwardOptions] {
    var list = ForwardList()
    for (local, devicePort) in try allPairs() {
      try list.add(local: local, devicePort: devicePort, address: bindAddress)
    }
    if case .endpoint(let local) = server?.location,
      list.all.contains(where: { $0.local.clashes(with: local) })
    {
      throw UsageError(
        "\(local.spelling.quoted) is a forward's local end already", fix: "serve another socket")
    }
    return list.all
  }

  private func allPairs() throws(UsageError) -> [(local: LocalArgument, devicePort: UInt16)] {
    guard locals.count == devicePorts.count else {
      let missing = locals.count < devicePorts.count ? TunneldOption.local : .devicePort
      throw UsageError(
        "there are \(locals.count) --local and \(devicePorts.count) --device-port",
        fix: "give each forward both; a \(missing.spelling) is missing"
      )
    }
    return zip(locals, devicePorts).map { ($0.local, $1) } + pairs
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

  // MARK: Asking a running tunneld

  private func asking(_ action: ControlCommand.Action) throws(UsageError) -> Invocation {
    .control(ControlCommand(socket: try control.clientPath(), action: action))
  }

  private func statusFormat() throws(UsageError) -> ControlCommand.Format {
    let formats: [(TunneldOption, ControlCommand.Format)] = [
      (.json, .json), (.prometheus, .prometheus), (.watch, .watch),
    ]
    let chosen = formats.filter { used.contains($0.0) }
    guard chosen.count < 2 else {
      throw UsageError(
        "\(chosen[0].0.spelling) and \(chosen[1].0.spelling) exclude each other", fix: "leave one out")
    }
    return chosen.first?.1 ?? .text
  }

  private func additions() throws(UsageError) -> [ForwardAddition] {
    _ = try settings.checked()
    let all = try allPairs()
    guard !all.isEmpty else {
      throw UsageError("nothing to forward", fix: "write tunneld forward add LOCAL:DEVICE")
    }
    let common = given.filter { $0.option != .bind }
    return all.map { local, devicePort in
      ForwardAddition(
        settings: [
          ForwardAddition.Setting(option: .local, value: local.bound(to: bindAddress).spelling),
          ForwardAddition.Setting(option: .devicePort, value: "\(devicePort)"),
        ] + common)
    }
  }

  private func removal() throws(UsageError) -> ControlCommand.Action {
    switch (settings.udid, targets.isEmpty) {
    case (let udid?, true): return .removeAll(udid)
    case (nil, false): return .remove(targets)
    case (.some, false):
      throw UsageError("--udid means all forwards of a phone", fix: "leave out either it or the others")
    case (nil, true):
      throw UsageError(
        "nothing to remove", fix: "write a forward's number, name or local end, or --udid UDID")
    }
  }
}
