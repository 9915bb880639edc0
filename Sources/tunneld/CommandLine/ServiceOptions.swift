internal import MuxProtocol
internal import USBMux

/// The control socket of a run.
struct ControlOptions: Hashable, Sendable {
  /// Where it is when nothing else is said.
  static let standardPath = "/run/tunneld/control.sock"

  var path: String
  /// Nobody asked for it: a run goes on without it where it cannot be.
  var isStandard = false
  var mode: UInt16 = 0o660
  var group: String?
}

/// How the log is written.
struct LogOptions: Hashable, Sendable {
  enum Format: String, CaseIterable, Sendable {
    case text
    case json
  }

  /// Nil: as `-v` and `-q` say.
  var level: LogLevel?
  var format = Format.text
  /// UDIDs are written without their distinctive part.
  var redactsUDIDs = false
}

/// How whoever spawned tunneld learns that it is ready.
struct ReadyOptions: Hashable, Sendable {
  /// Written to and closed; nil: standard output.
  var descriptor: Int32?
  /// One JSON object instead of lines.
  var json = false
}

/// What `tunneld check-config` found.
struct CheckOptions: Equatable, Sendable {
  var path: String
  var problems: [UsageError] = []
  var forwards = 0
}

/// A command that a running tunneld is asked for over its control socket.
struct ControlCommand: Equatable, Sendable {
  enum Format: Equatable, Sendable {
    case text
    case json
    case prometheus
    /// A table that is drawn again and again.
    case watch
  }

  enum Action: Equatable, Sendable {
    case status(Format)
    case reload
    case list(json: Bool)
    /// With a lease they go when this command ends.
    case add([ForwardAddition], lease: Bool, json: Bool)
    /// Numbers, names or local ends.
    case remove([String])
    /// All of a phone.
    case removeAll(UDIDPrefix)
  }

  var socket: String
  var action: Action
}

/// A forward that is asked for over the control socket: its local end, the port, and other settings by the names
/// of their keys.
struct ForwardAddition: Equatable, Sendable {
  var settings: [Setting]

  struct Setting: Equatable, Sendable {
    var option: TunneldOption
    var value: String
  }
}

extension LogLevel {
  /// The levels by name.
  static let names: [(name: String, level: LogLevel)] = [
    ("error", .error), ("warning", .warning), ("notice", .notice), ("info", .info), ("debug", .debug),
  ]

  var name: String { Self.names.first { $0.level == self }?.name ?? "" }

  init(parsing text: String, option: String) throws(UsageError) {
    guard let level = Self.names.first(where: { $0.name == text })?.level else {
      throw UsageError(
        "\(option) \(text.quoted) is no level", fix: "write \(Self.names.map(\.name).joined(separator: ", "))"
      )
    }
    self = level
  }
}

extension LogOptions.Format {
  init(parsing text: String, option: String) throws(UsageError) {
    guard let format = Self(rawValue: text) else {
      throw UsageError("\(option) \(text.quoted) is no format", fix: "write text or json")
    }
    self = format
  }
}

/// What of the control socket has been named so far.
struct ControlArguments {
  private var path: String?
  private var isOff = false
  private var mode: UInt16?
  private var group: String?

  /// Accepts the path of a Unix socket, with or without `unix:`, and `none`.
  mutating func setPath(_ text: String, option: String) throws(UsageError) {
    if text == "none" {
      isOff = true
      return
    }
    let scheme = "unix:"
    let path = text.hasPrefix(scheme) ? String(text.dropFirst(scheme.count)) : text
    guard UnixPath.isUsable(path) else {
      throw UsageError(
        "\(option) \(text.quoted) has no usable path",
        fix: "write a path of at most \(DaemonAddress.maximumPathLength) bytes, or none")
    }
    self.path = path
  }

  mutating func setMode(_ text: String, option: String) throws(UsageError) {
    mode = try UnixPath.mode(text, option: option)
  }

  mutating func setGroup(_ text: String, option: String) throws(UsageError) {
    group = try UnixPath.group(text, option: option)
  }

  /// Where a client finds it.
  func clientPath() throws(UsageError) -> String {
    guard !isOff else {
      throw UsageError("there is no control socket", fix: "name the one of the running tunneld")
    }
    return path ?? ControlOptions.standardPath
  }

  var isNamed: Bool { path != nil }

  /// The socket of a run; nil when there is none. `isService`: it is to be found at its standard place.
  func options(isService: Bool) throws(UsageError) -> ControlOptions? {
    guard !isOff, let path = path ?? (isService ? ControlOptions.standardPath : nil) else {
      if mode != nil || group != nil {
        throw UsageError(
          "there is no control socket to have a mode or group", fix: "add --control-socket PATH")
      }
      return nil
    }
    var options = ControlOptions(path: path, isStandard: self.path == nil, group: group)
    if let mode { options.mode = mode }
    return options
  }
}

extension UnixPath {
  /// Permission bits in octal.
  static func mode(_ text: String, option: String) throws(UsageError) -> UInt16 {
    let isOctal = (3...4).contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x37).contains($0) }
    guard isOctal, let mode = UInt16(text, radix: 8), mode <= 0o777 else {
      throw UsageError(
        "\(option) \(text.quoted) is no mode", fix: "write three octal digits, such as 660 or 666")
    }
    return mode
  }

  /// A group's name or number, which is looked up later.
  static func group(_ text: String, option: String) throws(UsageError) -> String {
    guard !text.isEmpty, !text.contains(where: { $0 == ":" || $0.isWhitespace }) else {
      throw UsageError("\(option) \(text.quoted) is no group", fix: "write a group's name or number")
    }
    return text
  }
}
