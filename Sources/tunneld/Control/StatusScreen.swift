import JSON

/// A status that fits a terminal: what has no room is counted.
struct StatusScreen {
  /// Characters.
  var columns: Int
  /// Lines.
  var rows: Int

  /// Below this many rows no line is spent on a gap.
  private static let roomForGaps = 20

  /// At most as many lines as there are rows, none wider than the terminal.
  func frame(_ status: JSONValue, before: JSONValue?) -> [String] {
    let heading = StatusText.heading(status)
    let counters = StatusText.counters(status)
    let devices = status["devices"]?.array ?? []
    let forwards = status["forwards"]?.array ?? []
    var connections = StatusTables.Connections(status, before: before)
    connections.sortByRate()
    let gap = rows >= Self.roomForGaps ? [""] : []
    let shares = Self.shares(
      of: rows - heading.count - counters.count - 4 * gap.count,
      wanted: [devices.count, forwards.count, connections.count].map { $0 + 1 })
    let parts = [
      heading,
      part(devices.count, shares[0], "devices", StatusText.noDevices) { limit in
        StatusTables.devices(Array(devices.prefix(limit)))
      },
      part(forwards.count, shares[1], "forwards", StatusText.noForwards) { limit in
        StatusTables.forwards(Array(forwards.prefix(limit)))
      },
      part(connections.count, shares[2], "connections", StatusText.noConnections) { limit in
        connections.table(atMost: limit)
      },
      counters,
    ]
    let lines = Array(parts.joined(separator: gap)).map { $0.printable.cut(to: columns) }
    guard lines.count > rows else { return lines }
    let hidden = lines.count - max(0, rows - 1)
    return lines.prefix(max(0, rows - 1)) + ["and \(hidden) more lines".cut(to: columns)]
  }

  /// A table in so many lines, heading included; what is left out is counted in the last one.
  private func part(
    _ count: Int, _ lines: Int, _ things: String, _ none: String, _ table: (Int) -> TextTable?
  ) -> [String] {
    guard count > 0 else { return [none] }
    if lines > count { return table(count)?.lines(width: columns) ?? [] }
    let shown = lines - 2
    guard shown > 0 else { return ["\(count) \(things)"] }
    return (table(shown)?.lines(width: columns) ?? []) + ["and \(count - shown) more"]
  }

  /// How many of so many lines each table gets. One that could not show a single row, with its heading and the count
  /// of the rest, gets one line, for its number.
  static func shares(of room: Int, wanted: [Int]) -> [Int] {
    var wanted = wanted
    while true {
      let shares = inTurn(room, wanted)
      // The last table, of connections, is what people watch: the others make room for it.
      let tight = wanted.indices.filter { shares[$0] < min(3, wanted[$0]) }
      guard let index = tight.isEmpty ? nil : wanted.indices.first(where: { wanted[$0] > 1 }) else {
        return shares
      }
      wanted[index] = 1
    }
  }

  /// A line to each in turn, as long as there are lines and it wants more.
  private static func inTurn(_ room: Int, _ wanted: [Int]) -> [Int] {
    var shares = wanted.map { _ in 0 }
    var left = room
    while left > 0, shares != wanted {
      for index in wanted.indices where left > 0 && shares[index] < wanted[index] {
        shares[index] += 1
        left -= 1
      }
    }
    return shares
  }
}

extension String {
  /// Without what a terminal would obey: paths and messages may hold anything.
  fileprivate var printable: String {
    let isClean = unicodeScalars.allSatisfy { $0.value >= 0x20 && !(0x7f...0x9f).contains($0.value) }
    return isClean
      ? self
      : String(
        String.UnicodeScalarView(
          unicodeScalars.map { $0.value < 0x20 || (0x7f...0x9f).contains($0.value) ? "?" : $0 }))
  }
}
