import EventLoop
import USBMux

/// One forward that is wanted, whether or not it can be.
final class ForwardEntry {
  enum Origin: Equatable {
    case commandLine
    case file
    /// Somebody asked for it over the control socket; with a lease it goes when that connection does.
    case control(lease: UInt64?)

    var name: String {
      switch self {
      case .commandLine: "command line"
      case .file: "file"
      case .control: "control"
      }
    }
  }

  enum State {
    case failed(MuxError)
    case listening(Forward)
  }

  /// What people call it, besides its name.
  let number: UInt64
  let origin: Origin
  var options: ForwardOptions
  var state: State
  /// Until it is tried again.
  var retry: LoopTimer?
  private var pause = ForwardEntry.firstPause

  private static let firstPause: Int64 = 1_000_000_000
  private static let longestPause: Int64 = 30_000_000_000

  init(_ number: UInt64, _ options: ForwardOptions, from origin: Origin) {
    self.number = number
    self.options = options
    self.origin = origin
    state = .failed(.closed)
  }

  var forward: Forward? { if case .listening(let forward) = state { forward } else { nil } }
  var failure: MuxError? { if case .failed(let error) = state { error } else { nil } }

  /// How long to wait before the next try: longer each time.
  func nextPause() -> Int64 {
    defer { pause = min(pause * 2, Self.longestPause) }
    return pause
  }

  /// `3 (web)` or `3`.
  var title: String { "\(number)" + (options.name.map { " (\($0))" } ?? "") }

  /// Whether `text` names it: its number, name, or local end as written or as bound.
  func isMeant(by text: String) -> Bool {
    if text == "\(number)" || text == options.name || text == options.local.spelling { return true }
    guard let forward else { return false }
    return forward.endpoints.contains { "\($0)" == text }
      || (options.local.isTCP && forward.port.map { "\($0)" == text.portOfLocalhost } == true)
  }
}

extension String {
  /// The port in `localhost:8765` or `:8765`.
  fileprivate var portOfLocalhost: String? {
    for prefix in ["localhost:", ":"] where hasPrefix(prefix) { return String(dropFirst(prefix.count)) }
    return nil
  }
}

extension LocalEndpoint {
  var isTCP: Bool { if case .tcp = self { true } else { false } }

  /// Whether the system picks the port, so that no two of them are the same.
  var isDynamic: Bool { if case .tcp(_, 0) = self { true } else { false } }
}

/// What a reload, or a list of wished forwards, comes to. No I/O: who has the board acts on it.
struct ForwardPlan {
  /// Those of the board that are to go.
  var remove: [ForwardEntry] = []
  /// Those that stay and are to lead elsewhere, or go by another name.
  var change: [(entry: ForwardEntry, options: ForwardOptions)] = []
  var add: [ForwardOptions] = []
  var unchanged = 0

  /// From what is there to what is wanted. Forwards are the same when they have the same local end, or, where
  /// the system picks that, the same name.
  init(from present: [ForwardEntry], to wanted: [ForwardOptions]) {
    var left = wanted
    for entry in present {
      guard let index = left.firstIndex(where: { $0.isSame(as: entry.options) }) else {
        remove.append(entry)
        continue
      }
      let options = left.remove(at: index)
      if options == entry.options { unchanged += 1 } else { change.append((entry, options)) }
    }
    add = left
  }
}

extension ForwardOptions {
  fileprivate func isSame(as other: ForwardOptions) -> Bool {
    local == other.local && (!local.isDynamic || name == other.name)
  }
}

/// What a reload did.
struct ReloadReport: Equatable {
  var added = 0
  var removed = 0
  var changed = 0
  var unchanged = 0
  /// Forwards that are wanted and cannot be now.
  var failed: [String] = []
  /// Settings that are read at the start only, and differ.
  var needRestart: [String] = []

  var description: String {
    var text = "\(added) added, \(removed) removed, \(changed) changed, \(unchanged) unchanged"
    if !failed.isEmpty { text += "; failed: \(failed.joined(separator: "; "))" }
    if !needRestart.isEmpty { text += "; after a restart only: \(needRestart.joined(separator: ", "))" }
    return text
  }
}
