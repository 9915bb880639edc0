/// The options of tunneld, of all its commands.
enum TunneldOption: CommandOption {
  case local
  case devicePort
  case bind
  case udid
  case any
  case usbOnly
  case network
  case networkOnly
  case transport
  case usbmuxd
  case wait
  case halfCloseTimeout
  case connectTimeout
  case drain
  case maximumConnections
  case simulate
  case simulatedDevices
  case usbmuxdSocket
  case usbmuxdSocketMode
  case usbmuxdSocketGroup
  case lockdownDirectory
  case configuration
  case controlSocket
  case controlSocketMode
  case controlSocketGroup
  case capture
  case logLevel
  case logFormat
  case redactUDIDs
  case readyDescriptor
  case readyJSON
  case exitWithParent
  case lease
  case json
  case prometheus
  case watch
  case verbose
  case quiet
  case help
  case version

  var longNames: [String] {
    switch self {
    case .local: ["local"]
    case .devicePort: ["device-port"]
    case .bind: ["bind"]
    case .udid: ["udid", "serial"]
    case .any: ["any"]
    case .usbOnly: ["usb-only"]
    case .network: ["network"]
    case .networkOnly: ["network-only"]
    case .transport: ["transport"]
    case .usbmuxd: ["usbmuxd"]
    case .wait: ["wait"]
    case .halfCloseTimeout: ["half-close-timeout"]
    case .connectTimeout: ["connect-timeout"]
    case .drain: ["drain"]
    case .maximumConnections: ["max-connections"]
    case .simulate: ["simulate"]
    case .simulatedDevices: ["simulated-devices"]
    case .usbmuxdSocket: ["usbmuxd-socket"]
    case .usbmuxdSocketMode: ["usbmuxd-socket-mode"]
    case .usbmuxdSocketGroup: ["usbmuxd-socket-group"]
    case .lockdownDirectory: ["lockdown-dir"]
    case .configuration: ["config"]
    case .controlSocket: ["control-socket"]
    case .controlSocketMode: ["control-socket-mode"]
    case .controlSocketGroup: ["control-socket-group"]
    case .capture: ["capture"]
    case .logLevel: ["log-level"]
    case .logFormat: ["log-format"]
    case .redactUDIDs: ["redact-udids"]
    case .readyDescriptor: ["ready-fd"]
    case .readyJSON: ["ready-json"]
    case .exitWithParent: ["exit-with-parent"]
    case .lease: ["lease"]
    case .json: ["json"]
    case .prometheus: ["prometheus"]
    case .watch: ["watch"]
    case .verbose: ["verbose"]
    case .quiet: ["quiet"]
    case .help: ["help"]
    case .version: ["version"]
    }
  }

  var shortName: Character? {
    switch self {
    case .udid: "u"
    case .configuration: "c"
    case .verbose: "v"
    case .quiet: "q"
    case .help: "h"
    case .local, .devicePort, .bind, .any, .usbOnly, .network, .networkOnly, .transport, .usbmuxd, .wait,
      .halfCloseTimeout, .connectTimeout, .drain, .maximumConnections, .simulate, .simulatedDevices,
      .usbmuxdSocket, .usbmuxdSocketMode, .usbmuxdSocketGroup, .lockdownDirectory, .json, .watch, .version,
      .controlSocket, .controlSocketMode, .controlSocketGroup, .logLevel, .logFormat, .redactUDIDs,
      .readyDescriptor, .readyJSON, .exitWithParent, .lease, .prometheus, .capture:
      nil
    }
  }

  var valueName: String? {
    switch self {
    case .local: "[ADDRESS:]PORT"
    case .devicePort: "PORT"
    case .bind: "ADDRESS"
    case .udid: "UDID"
    case .transport: "auto|usbmuxd|usb|simulated"
    case .usbmuxd: "ADDRESS"
    case .wait, .halfCloseTimeout, .connectTimeout, .drain: "SECONDS"
    case .maximumConnections, .simulatedDevices: "NUMBER"
    case .simulate: "PORT=SERVICE"
    case .usbmuxdSocket: "PATH|HOST:PORT|systemd"
    case .usbmuxdSocketMode: "MODE"
    case .usbmuxdSocketGroup: "GROUP"
    case .lockdownDirectory: "DIRECTORY"
    case .configuration, .capture: "FILE"
    case .controlSocket: "PATH"
    case .controlSocketMode: "MODE"
    case .controlSocketGroup: "GROUP"
    case .logLevel: "error|warning|notice|info|debug"
    case .logFormat: "text|json"
    case .readyDescriptor: "NUMBER"
    case .any, .usbOnly, .network, .networkOnly, .redactUDIDs, .readyJSON, .exitWithParent, .lease, .json,
      .prometheus, .watch, .verbose, .quiet, .help, .version:
      nil
    }
  }

  /// Whether each of several values counts. Of any other option a second value is an error: which phone or
  /// which address was meant must not depend on the order.
  var isRepeatable: Bool {
    switch self {
    case .local, .devicePort, .simulate: true
    case .bind, .udid, .any, .usbOnly, .network, .networkOnly, .transport, .usbmuxd, .wait, .halfCloseTimeout,
      .connectTimeout, .drain, .maximumConnections, .simulatedDevices, .usbmuxdSocket, .usbmuxdSocketMode,
      .usbmuxdSocketGroup, .lockdownDirectory, .configuration, .controlSocket, .controlSocketMode,
      .controlSocketGroup, .logLevel, .logFormat, .redactUDIDs, .readyDescriptor, .readyJSON, .exitWithParent,
      .lease, .prometheus, .capture, .json, .watch, .verbose, .quiet, .help, .version:
      false
    }
  }

  /// The commands that the option means something to.
  var commands: Set<TunneldCommand.Name> {
    switch self {
    case .local, .devicePort, .bind, .any, .wait, .halfCloseTimeout, .connectTimeout, .maximumConnections:
      [.run, .add]
    case .udid: [.run, .add, .remove]
    case .drain, .simulate, .usbmuxdSocket, .usbmuxdSocketMode, .usbmuxdSocketGroup, .lockdownDirectory,
      .controlSocketMode, .controlSocketGroup, .capture, .logLevel, .logFormat, .redactUDIDs,
      .readyDescriptor,
      .readyJSON, .exitWithParent:
      [.run]
    case .configuration: [.run, .checkConfiguration]
    case .controlSocket: [.run, .status, .reload, .add, .remove, .list]
    case .lease: [.add]
    case .json: [.devices, .status, .list, .add]
    case .prometheus: [.status]
    case .watch: [.devices, .status]
    case .usbOnly, .network, .networkOnly: [.run, .devices, .add]
    case .transport, .usbmuxd, .simulatedDevices, .verbose, .quiet: [.run, .devices]
    case .help, .version: Set(TunneldCommand.Name.allCases)
    }
  }
}
