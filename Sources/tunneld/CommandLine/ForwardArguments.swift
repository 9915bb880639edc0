internal import MuxProtocol

/// What has been said of one forward so far, in a section of the configuration file or over the control socket.
struct ForwardArguments {
  private var used: [TunneldOption] = []
  private var local: LocalArgument?
  private var devicePort: UInt16?
  private var address: BindAddress?
  private var settings = ForwardSettings()

  /// Takes the value of an option, which messages call `name`.
  mutating func take(_ option: TunneldOption, _ value: String, as name: String) throws(UsageError) {
    used.append(option)
    switch option {
    case .local: local = try LocalArgument(parsing: value, in: name)
    case .devicePort: devicePort = try Port.device(value, in: name)
    case .bind: address = try BindAddress(parsing: value, in: name)
    default:
      guard try settings.take(option, value, as: name) else {
        throw UsageError("\(name) has no meaning for a forward", fix: "leave it out")
      }
    }
  }

  /// All of it together; `bind` stands in for an address that was not named.
  func options(name: String?, bind: BindAddress) throws(UsageError) -> ForwardOptions {
    guard let local else { throw UsageError("it has no local end", fix: "add \(TunneldOption.local.key)") }
    guard let devicePort else {
      throw UsageError("it has no port on the phone", fix: "add \(TunneldOption.devicePort.key)")
    }
    var options = ForwardOptions(local: local.bound(to: address ?? bind), devicePort: devicePort)
    options.name = name
    options.settings = try settings.checked()
    return options
  }
}

/// What a forward may have of its own, and what may be said of all of them; nil: not said.
struct ForwardSettings: Hashable, Sendable {
  var udid: UDIDPrefix?
  var takesAny: Bool?
  var connections: ConnectionChoice?
  var wait: Duration?
  var halfClose: Duration?
  var connect: Duration?
  var maximumConnections: Int?
  /// As given, so that contradictions can be told.
  private var ways: Set<TunneldOption> = []

  init() {}

  /// Takes an option that is a forward's; false when it is none. `name` is what messages call it.
  mutating func take(_ option: TunneldOption, _ value: String, as name: String) throws(UsageError) -> Bool {
    switch option {
    case .udid: udid = try UDIDPrefix(argument: value, of: name)
    case .any: takesAny = try Bool(parsing: value, option: name)
    case .usbOnly: try choose(.usbOnly, option, value, name)
    case .network: try choose(.usbPreferred, option, value, name)
    case .networkOnly: try choose(.networkOnly, option, value, name)
    case .wait: wait = try Duration(parsingSeconds: value, option: name)
    case .halfCloseTimeout: halfClose = try Duration(parsingSeconds: value, option: name)
    case .connectTimeout: connect = try Duration(parsingPositive: value, option: name)
    case .maximumConnections:
      maximumConnections = try Int(parsingCount: value, in: 1...1_000_000, option: name)
    default: return false
    }
    return true
  }

  private mutating func choose(
    _ choice: ConnectionChoice, _ option: TunneldOption, _ value: String, _ name: String
  ) throws(UsageError) {
    guard try Bool(parsing: value, option: name) else { return }
    ways.insert(option)
    connections = choice
  }

  /// - Throws: when two of them exclude each other.
  func checked() throws(UsageError) -> ForwardSettings {
    if takesAny == true, udid != nil {
      throw UsageError("--any and --udid exclude each other", fix: "leave one out")
    }
    let given = [TunneldOption.usbOnly, .network, .networkOnly].filter(ways.contains)
    guard given.count < 2 else {
      throw UsageError(
        "\(given[0].spelling) and \(given[1].spelling) exclude each other", fix: "leave one out")
    }
    var checked = self
    checked.ways = []
    return checked
  }

  /// Which phone is meant; nil when nothing is said of it.
  var device: DeviceChoice? {
    if let udid { return .udid(udid) }
    return takesAny.map { $0 ? .any : .onlyOne }
  }
}

extension Bool {
  /// Accepts yes, true, on, 1, no, false, off and 0; an option without a value means yes.
  init(parsing text: String, option: String) throws(UsageError) {
    switch text.lowercased() {
    case "", "yes", "true", "on", "1": self = true
    case "no", "false", "off", "0": self = false
    default: throw UsageError("\(option) \(text.quoted) is neither yes nor no", fix: "write yes or no")
    }
  }
}

extension Duration {
  /// As ``init(parsingSeconds:option:)``, above 0.
  init(parsingPositive text: String, option: String) throws(UsageError) {
    self = try Duration(parsingSeconds: text, option: option)
    guard self > .zero else {
      throw UsageError("\(option) \(text.quoted) leaves no time to connect", fix: "write seconds above 0")
    }
  }
}
