internal import MuxProtocol
internal import USBMux

/// The command line of tunneld itself.
struct TunneldCommand {
  /// What the first arguments that are no options may name; forwarding has no name.
  enum Name: CaseIterable {
    case run
    case devices
    case status
    case reload
    case checkConfiguration
    case add
    case remove
    case list

    /// As it is written; nil for forwarding.
    var words: String? {
      switch self {
      case .run: nil
      case .devices: "devices"
      case .status: "status"
      case .reload: "reload"
      case .checkConfiguration: "check-config"
      case .add: "forward add"
      case .remove: "forward remove"
      case .list: "forward list"
      }
    }

    var help: String {
      switch self {
      case .run: HelpText.tunneld
      case .devices: HelpText.devices
      case .status: HelpText.status
      case .reload: HelpText.reload
      case .checkConfiguration: HelpText.checkConfiguration
      case .add, .remove, .list: HelpText.forward
      }
    }
  }

  var command: Name?
  /// `forward` was read, and what is to be done with forwards was not.
  private(set) var awaitsVerb = false
  var used: [TunneldOption] = []
  var locals: [(local: LocalArgument, text: String)] = []
  var devicePorts: [UInt16] = []
  var pairs: [(local: LocalArgument, devicePort: UInt16)] = []
  /// What is to be removed.
  private(set) var targets: [String] = []
  /// Values as they were given, for a tunneld that is asked to add a forward.
  private(set) var given: [ForwardAddition.Setting] = []
  var bindAddress = BindAddress.localhost
  /// Defaults of all forwards; the limit is that of all of them together.
  var settings = ForwardSettings()
  var transportName: TransportName?
  var usbmuxd: DaemonAddress?
  var simulation = SimulationOptions()
  var server = ServerArguments()
  var control = ControlArguments()
  var log = LogOptions()
  var drain = RunOptions.Timeouts().drain
  var verbosity = 0
  var configurationPath: String?
  var capturePath: String?
  private(set) var readyDescriptor: Int32?

  enum TransportName: String, CaseIterable {
    case auto
    case usbmuxd
    case usb
    case simulated
  }

  static func parse(
    _ arguments: ArraySlice<String>,
    environment: CommandEnvironment,
    files: ConfigurationReader
  ) throws(UsageError) -> Invocation {
    var scanner = ArgumentScanner<TunneldOption>(arguments, program: "tunneld", allowsAbbreviations: false)
    var line = TunneldCommand()
    while let argument = try scanner.next() {
      switch argument {
      case .option(.help, _): return .help(line.awaitsVerb ? HelpText.forward : (line.command ?? .run).help)
      case .option(.version, _): return .version("tunneld \(ProgramVersion.number)")
      case .option(let option, let value):
        if option.valueName != nil, !option.isRepeatable, line.used.contains(option) {
          throw UsageError("\(option.spelling) is given twice", fix: "leave one out")
        }
        try line.take(option, value, as: option.spelling)
      case .positional(let text): try line.take(positional: text)
      }
    }
    return try line.invocation(environment: environment, files: files)
  }

  // MARK: One argument

  /// Takes an option, which messages call `name`.
  mutating func take(_ option: TunneldOption, _ value: String, as name: String) throws(UsageError) {
    used.append(option)
    if try settings.take(option, value, as: name) {
      given.append(ForwardAddition.Setting(option: option, value: value))
      return
    }
    switch option {
    case .local: locals.append((try LocalArgument(parsing: value, in: name), value))
    case .devicePort: devicePorts.append(try Port.device(value, in: name))
    case .bind:
      bindAddress = try BindAddress(parsing: value, in: name)
      given.append(ForwardAddition.Setting(option: option, value: value))
    case .transport: transportName = try Self.transport(named: value)
    case .usbmuxd: usbmuxd = try DaemonAddress(argument: value, of: name)
    case .drain: drain = try Duration(parsingSeconds: value, option: name)
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
    case .configuration: configurationPath = try Self.path(value, option: name)
    case .capture: capturePath = try Self.path(value, option: name)
    case .controlSocket: try control.setPath(value, option: name)
    case .controlSocketMode: try control.setMode(value, option: name)
    case .controlSocketGroup: try control.setGroup(value, option: name)
    case .logLevel: log.level = try LogLevel(parsing: value, option: name)
    case .logFormat: log.format = try LogOptions.Format(parsing: value, option: name)
    case .redactUDIDs: log.redactsUDIDs = try Bool(parsing: value, option: name)
    case .readyDescriptor:
      readyDescriptor = Int32(try Int(parsingCount: value, in: 1...1_000_000, option: name))
    case .verbose: verbosity += 1
    case .quiet: verbosity = -1
    // Seen in `used`, or handled by the caller, or among the settings.
    case .readyJSON, .exitWithParent, .lease, .json, .prometheus, .watch, .help, .version, .udid, .any,
      .usbOnly, .network, .networkOnly, .wait, .halfCloseTimeout, .connectTimeout, .maximumConnections:
      break
    }
  }

  private static let firstWords = ["devices", "status", "reload", "check-config", "forward"]
  private static let verbs: [(word: String, command: Name)] = [
    ("add", .add), ("remove", .remove), ("list", .list),
  ]

  private mutating func take(positional text: String) throws(UsageError) {
    if awaitsVerb { return try take(verb: text) }
    if command == nil, pairs.isEmpty, !text.contains(":") {
      if text == "forward" {
        awaitsVerb = true
        return
      }
      if let name = Name.allCases.first(where: { $0.words == text }) {
        command = name
        return
      }
      if Port.parse(text) == nil, let near = nearestName(to: text, among: Self.firstWords) {
        throw UsageError("unknown command \(text.quoted)", fix: "did you mean \(near)?")
      }
    }
    switch command {
    case nil, .run, .add: pairs.append(try ForwardOptions.pair(text))
    case .remove: targets.append(text)
    case .devices, .status, .reload, .checkConfiguration, .list:
      throw UsageError(
        "unexpected argument \(text.quoted)", fix: "see tunneld \(command?.words ?? "") --help")
    }
  }

  private mutating func take(verb text: String) throws(UsageError) {
    guard let verb = Self.verbs.first(where: { $0.word == text }) else {
      let near = nearestName(to: text, among: Self.verbs.map(\.word))
      throw UsageError(
        "\(text.quoted) is nothing that can be done with forwards",
        fix: near.map { "did you mean \($0)?" } ?? "write add, remove or list")
    }
    awaitsVerb = false
    command = verb.command
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

  private static func path(_ text: String, option: String) throws(UsageError) -> String {
    guard !text.isEmpty, !text.utf8.contains(0) else {
      throw UsageError("\(option) is empty", fix: "write the path of a file")
    }
    return text
  }
}
