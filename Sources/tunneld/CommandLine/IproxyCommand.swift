internal import MuxProtocol

/// The options of iproxy.
enum IproxyOption: CommandOption {
  case udid
  case network
  case local
  case source
  case debug
  case help
  case version

  var longNames: [String] {
    switch self {
    case .udid: ["udid"]
    case .network: ["network"]
    case .local: ["local"]
    case .source: ["source"]
    case .debug: ["debug"]
    case .help: ["help"]
    case .version: ["version"]
    }
  }

  var shortName: Character? {
    switch self {
    case .udid: "u"
    case .network: "n"
    case .local: "l"
    case .source: "s"
    case .debug: "d"
    case .help: "h"
    case .version: "v"
    }
  }

  var valueName: String? {
    switch self {
    case .udid: "UDID"
    case .source: "ADDR"
    case .network, .local, .debug, .help, .version: nil
    }
  }
}

/// The command line of iproxy, of version 2.0.2 and of the older form `LOCAL DEVICE [UDID]` that scripts still use.
///
/// It differs from iproxy where iproxy does harm: ports above 65535 are an error rather than cut to 16 bits, 0 asks
/// for a free local port, and without `--source` both loopback addresses are listened on.
enum IproxyCommand {
  static func parse(
    _ arguments: ArraySlice<String>,
    environment: CommandEnvironment
  ) throws(UsageError) -> Invocation {
    var scanner = ArgumentScanner<IproxyOption>(arguments, program: "iproxy", allowsAbbreviations: true)
    var positionals: [String] = []
    var options = RunOptions(forwards: [], device: .any, announcement: .iproxy)
    var address = BindAddress.localhost
    var usesNetwork = false
    var usesUSB = false

    while let argument = try scanner.next() {
      switch argument {
      case .positional(let text): positionals.append(text)
      case .option(.network, _): usesNetwork = true
      case .option(.local, _): usesUSB = true
      case .option(.debug, _): options.verbosity += 1
      case .option(.help, _): return .help(HelpText.iproxy)
      case .option(.version, _): return .version("iproxy \(ProgramVersion.number) (tunneld)")
      // Of several the last one counts, as with getopt_long.
      case .option(.udid, let text): options.device = .udid(try UDIDPrefix(argument: text, of: "--udid"))
      case .option(.source, let text): address = try BindAddress(parsing: text, in: "--source")
      }
    }

    switch (usesUSB, usesNetwork) {
    case (_, false): options.connections = .usbOnly
    case (false, true): options.connections = .networkOnly
    case (true, true): options.connections = .usbPreferred
    }
    options.transport = .auto(usbmuxd: try environment.usbmuxdAddress())

    var forwards = ForwardList()
    if let old = try oldForm(positionals) {
      if let udid = old.udid {
        guard options.device == .any || options.device == .udid(udid) else {
          throw UsageError("two different UDIDs are given", fix: "leave out --udid or the last argument")
        }
        options.device = .udid(udid)
      }
      try forwards.add(local: .port(old.local), devicePort: old.devicePort, address: address)
    } else {
      for text in positionals {
        let pair = try ForwardOptions.pair(text)
        try forwards.add(local: pair.local, devicePort: pair.devicePort, address: address)
      }
    }
    guard !forwards.all.isEmpty else {
      throw UsageError("no ports are given", fix: "write LOCAL_PORT:DEVICE_PORT, for example 2222:22")
    }
    options.forwards = forwards.all
    return .run(options)
  }

  /// `LOCAL DEVICE [UDID]`, or nil for pairs: neither of the first two arguments has a colon.
  private static func oldForm(
    _ positionals: [String]
  ) throws(UsageError) -> (local: UInt16, devicePort: UInt16, udid: UDIDPrefix?)? {
    guard (2...3).contains(positionals.count), !positionals[0].contains(":"), !positionals[1].contains(":")
    else { return nil }
    let local = try Port.local(positionals[0], in: "LOCAL DEVICE")
    let devicePort = try Port.device(positionals[1], in: "LOCAL DEVICE")
    guard positionals.count == 3 else { return (local, devicePort, nil) }
    return (local, devicePort, try UDIDPrefix(argument: positionals[2], of: "the third argument"))
  }
}
