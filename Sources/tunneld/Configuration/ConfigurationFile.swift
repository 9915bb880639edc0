/// A configuration file: one section `[daemon]`, and one `[forward NAME]` for each forward. Its keys are the long
/// names of options.
struct ConfigurationFile {
  struct Setting {
    let option: TunneldOption
    let value: String
    let line: Int
  }

  struct ForwardSection {
    let name: String
    /// Of its heading, or the first of its keys.
    let line: Int
    var settings: [Setting] = []
  }

  let path: String
  private(set) var daemon: [Setting] = []
  private(set) var forwards: [ForwardSection] = []
  /// What is wrong with it, in the order of its lines.
  private(set) var problems: [UsageError] = []

  /// Where the file is looked for when no forward is given.
  static let standardPath = "/etc/tunneld/tunneld.conf"
  /// Of a forward, bytes.
  static let maximumName = 40

  init(path: String, bytes: [UInt8]) {
    self.path = path
    guard bytes.count <= INIFile.maximumSize else {
      problems = [
        UsageError("\(path) is larger than \(INIFile.maximumSize) bytes", fix: "is it a configuration file?")
      ]
      return
    }
    let file = INIFile(bytes)
    var found = file.problems.map { (line: $0.line, error: error($0.line, $0.cause, fix: $0.fix)) }
    var section = Section.unknown
    for entry in file.entries {
      // A heading with a mistake is none; what is below it is not to blame.
      if entry.section.isEmpty, file.problems.contains(where: { $0.line < entry.line }) { continue }
      do throws(UsageError) {
        if entry.beginsSection || entry.section.isEmpty {
          section = .unknown
          section = try begin(entry)
        }
        try take(entry, into: section)
      } catch {
        found.append((entry.line, error))
      }
    }
    problems = found.sorted { $0.line < $1.line }.map(\.error)
  }

  /// A message that names the place.
  func error(_ line: Int, _ cause: String, fix: String) -> UsageError {
    UsageError("\(path):\(line): \(cause)", fix: fix)
  }

  /// Messages in the order of their lines.
  func ordered(_ problems: [UsageError]) -> [UsageError] {
    func line(_ problem: UsageError) -> Int {
      Int(problem.cause.dropFirst(path.count + 1).prefix { $0.isWholeNumber }) ?? 0
    }
    return problems.enumerated().sorted {
      (line($0.element), $0.offset) < (line($1.element), $1.offset)
    }.map(\.element)
  }

  /// A message about a setting, with its place.
  func located(_ error: UsageError, at line: Int) -> UsageError {
    self.error(line, error.cause, fix: error.fix)
  }

  // MARK: Sections

  private enum Section {
    /// It has been complained of.
    case unknown
    case daemon
    /// Its place in the list.
    case forward(Int)
  }

  private static let daemonName = "daemon"
  private static let forwardPrefix = "forward"

  private mutating func begin(_ entry: INIFile.Entry) throws(UsageError) -> Section {
    let words = entry.section.split(separator: " ", maxSplits: 1).map(String.init)
    switch words.first {
    case nil:
      throw error(
        entry.line, "\(entry.name.quoted) stands before the first section", fix: "write [daemon] above it")
    case Self.daemonName where words.count == 1:
      return .daemon
    case Self.forwardPrefix:
      let name = words.count > 1 ? words[1] : ""
      guard Self.isName(name) else {
        throw error(
          entry.line, "\(entry.section.quoted) has no usable name",
          fix: "write [forward NAME] with letters, digits, '-', '_' and '.', at most \(Self.maximumName)")
      }
      guard !forwards.contains(where: { $0.name == name }) else {
        throw error(entry.line, "there are two sections [forward \(name)]", fix: "give one another name")
      }
      forwards.append(ForwardSection(name: name, line: entry.line))
      return .forward(forwards.count - 1)
    case let first?:
      let near = nearestName(to: first, among: [Self.daemonName, Self.forwardPrefix])
      throw error(
        entry.line, "there is no section \(entry.section.quoted)",
        fix: near == Self.daemonName
          ? "did you mean [daemon]?"
          : near == nil ? "write [daemon] or [forward NAME]" : "did you mean [forward NAME]?")
    }
  }

  static func isName(_ text: String) -> Bool {
    (1...maximumName).contains(text.utf8.count)
      && text.utf8.allSatisfy {
        switch $0 {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."):
          true
        default: false
        }
      }
  }

  // MARK: Keys

  private mutating func take(_ entry: INIFile.Entry, into section: Section) throws(UsageError) {
    switch section {
    case .unknown: return
    case .daemon:
      let setting = try setting(entry, among: TunneldOption.daemonKeys, in: "[daemon]")
      try checkNew(setting, among: daemon)
      daemon.append(setting)
    case .forward(let index):
      let setting = try setting(
        entry, among: TunneldOption.forwardKeys, in: "[forward \(forwards[index].name)]")
      try checkNew(setting, among: forwards[index].settings)
      forwards[index].settings.append(setting)
    }
  }

  private func checkNew(_ setting: Setting, among others: [Setting]) throws(UsageError) {
    if setting.option.isRepeatable && setting.option == .simulate { return }
    if let earlier = others.first(where: { $0.option == setting.option }) {
      throw error(
        setting.line, "\(setting.option.key) is given twice (first in line \(earlier.line))",
        fix: "leave one out")
    }
  }

  private func setting(
    _ entry: INIFile.Entry, among options: [TunneldOption], in section: String
  ) throws(UsageError) -> Setting {
    guard let option = options.first(where: { $0.longNames.contains(entry.name) }) else {
      let near = nearestName(to: entry.name, among: options.flatMap(\.longNames))
      let elsewhere =
        options == TunneldOption.daemonKeys ? TunneldOption.forwardKeys : TunneldOption.daemonKeys
      let fix =
        elsewhere.contains { $0.longNames.contains(entry.name) }
        ? "it belongs in \(options == TunneldOption.daemonKeys ? "[forward NAME]" : "[daemon]")"
        : near.map { "did you mean \($0)?" } ?? "see tunneld.conf(5)"
      throw error(entry.line, "unknown key \(entry.name.quoted) in \(section)", fix: fix)
    }
    return Setting(option: option, value: entry.value, line: entry.line)
  }
}

extension TunneldOption {
  /// The option as a key of the configuration file.
  var key: String { longNames.first ?? "" }

  /// What `[daemon]` may hold. Those that are forwards' too are the defaults for all of them.
  static let daemonKeys: [TunneldOption] = [
    .bind, .udid, .any, .usbOnly, .network, .networkOnly, .transport, .usbmuxd, .wait, .halfCloseTimeout,
    .connectTimeout, .drain, .maximumConnections, .simulate, .simulatedDevices, .usbmuxdSocket,
    .usbmuxdSocketMode, .usbmuxdSocketGroup, .lockdownDirectory, .controlSocket, .controlSocketMode,
    .controlSocketGroup, .capture, .logLevel, .logFormat, .redactUDIDs,
  ]

  /// What `[forward NAME]` may hold.
  static let forwardKeys: [TunneldOption] = [
    .local, .devicePort, .bind, .udid, .any, .usbOnly, .network, .networkOnly, .wait, .halfCloseTimeout,
    .connectTimeout, .maximumConnections,
  ]
}
