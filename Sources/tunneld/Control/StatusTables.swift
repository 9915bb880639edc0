import JSON

/// The tables of a status.
enum StatusTables {
  /// Characters of a UDID, and of a forward's name, where there is little room.
  private static let shortUDID = 10
  private static let shortName = 12

  /// Nil when there is none.
  static func devices(_ devices: [JSONValue]) -> TextTable? {
    guard !devices.isEmpty else { return nil }
    let speeds = devices.map { $0["speed"]?.integer.map { "\($0 / 1_000_000) Mbit/s" } ?? "-" }
    return TextTable([
      udids(devices.map { $0["udid"]?.string ?? "" }),
      TextTable.Column(
        "CONNECTION", devices.map { $0["connection"]?.string ?? "" }, dispensability: 1),
      TextTable.Column("SPEED", speeds, dispensability: 3),
      TextTable.Column(
        "TRANSPORT", devices.map { $0["transport"]?.string ?? "" }, dispensability: 2),
      TextTable.Column(
        "LINK", devices.map { $0["link_version"]?.integer.map { "v\($0)" } ?? "-" }, dispensability: 4),
      TextTable.Column("CONNECTIONS", devices.map { StatusText.number($0["connections"]) }),
    ])
  }

  /// Nil when there is none.
  static func forwards(_ forwards: [JSONValue]) -> TextTable? {
    guard !forwards.isEmpty else { return nil }
    let names = forwards.map { $0["name"]?.string ?? "-" }
    let numbers = forwards.map { StatusText.number($0["id"]) }
    return TextTable([
      TextTable.Column("FORWARD", numbers, short: ("FWD", numbers)),
      TextTable.Column(
        "NAME", names,
        short: ("NAME", names.map { $0.count > shortName ? $0.prefix(shortName - 2) + ".." : $0 }),
        dispensability: 2),
      TextTable.Column(
        "LISTENS ON", forwards.map(listening),
        short: ("LISTENS ON", forwards.map { shortListening($0) })),
      TextTable.Column("PORT", forwards.map { StatusText.number($0["device_port"]) }),
      udids(forwards.map { $0["udid"]?.string ?? "any" }, dispensability: 3),
      TextTable.Column("OPEN", forwards.map { StatusText.number($0["connections"]) }),
      TextTable.Column("ACCEPTED", forwards.map { StatusText.number($0["accepted"]) }, dispensability: 4),
      TextTable.Column(
        "STATE", forwards.map { $0["error"]?.string.map { "failed: \($0)" } ?? "listening" },
        short: ("STATE", forwards.map { $0["error"] == nil ? "listening" : "failed" }), dispensability: 1),
    ])
  }

  static func listening(_ forward: JSONValue) -> String {
    let listen = (forward["listen"]?.array ?? []).map(endpoint)
    return listen.isEmpty ? forward["local"]?.string ?? "" : listen.joined(separator: " ")
  }

  private static func endpoint(_ endpoint: JSONValue) -> String {
    if let path = endpoint["path"]?.string { return "unix:\(path)" }
    let address = endpoint["address"]?.string ?? ""
    return (address.contains(":") ? "[\(address)]" : address) + ":" + StatusText.number(endpoint["port"])
  }

  /// Both loopback addresses are one name, and a path is its end.
  private static func shortListening(_ forward: JSONValue) -> String {
    let listen = forward["listen"]?.array ?? []
    if listen.count == 2, listen.map({ $0["address"]?.string }) == ["127.0.0.1", "::1"],
      listen[0]["port"]?.integer == listen[1]["port"]?.integer
    {
      return "localhost:\(StatusText.number(listen[0]["port"]))"
    }
    return listening(forward).ending(atMost: 24)
  }

  private static func udids(_ udids: [String], dispensability: Int = 0) -> TextTable.Column {
    TextTable.Column(
      "UDID", udids, short: ("UDID", udids.map { $0.ending(atMost: shortUDID) }),
      dispensability: dispensability)
  }

  /// Connections, with what each has moved since an earlier status where there is one.
  struct Connections {
    private struct Row {
      var connection: JSONValue
      /// Bytes a second.
      var sent = 0.0
      var received = 0.0
    }

    private var rows: [Row]
    private let hasRates: Bool

    init(_ status: JSONValue, before: JSONValue?) {
      let seconds = (status["uptime"]?.double ?? 0) - (before?["uptime"]?.double ?? 0)
      var earlier: [Int64: JSONValue] = [:]
      for connection in before?["connections"]?.array ?? [] {
        if let id = connection["id"]?.integer { earlier[id] = connection }
      }
      hasRates = before != nil
      rows = (status["connections"]?.array ?? []).map { connection in
        let old = connection["id"]?.integer.flatMap { earlier[$0] }
        func rate(_ key: String) -> Double {
          let more = (connection[key]?.double ?? 0) - (old?[key]?.double ?? 0)
          return seconds > 0 ? max(0, more) / seconds : 0
        }
        return Row(connection: connection, sent: rate("sent"), received: rate("received"))
      }
    }

    var count: Int { rows.count }

    /// Those that move most come first, the others stay in their order.
    mutating func sortByRate() {
      let order = rows.enumerated().sorted {
        let (left, right) = ($0.element.sent + $0.element.received, $1.element.sent + $1.element.received)
        return left == right ? $0.offset < $1.offset : left > right
      }
      rows = order.map(\.element)
    }

    /// Nil when there is none.
    func table(atMost limit: Int) -> TextTable? {
      guard !rows.isEmpty else { return nil }
      let shown = rows.prefix(limit)
      let connections = shown.map(\.connection)
      let ids = connections.map { StatusText.number($0["id"]) }
      let forwards = connections.map { $0["forward"].map { StatusText.number($0) } ?? "usbmuxd" }
      let ages = connections.map { $0["age"]?.double ?? 0 }
      var columns = [
        TextTable.Column("CONNECTION", ids, short: ("ID", ids)),
        TextTable.Column(
          "FORWARD", forwards, short: ("FWD", forwards.map { $0 == "usbmuxd" ? "mux" : $0 }),
          dispensability: 2
        ),
        StatusTables.udids(connections.map { $0["udid"]?.string ?? "-" }, dispensability: 4),
        TextTable.Column("PORT", connections.map { StatusText.number($0["port"]) }, dispensability: 1),
        TextTable.Column("STATE", connections.map { $0["state"]?.string ?? "" }, dispensability: 3),
        TextTable.Column(
          "AGE", ages.map(StatusText.time), short: ("AGE", ages.map(StatusText.shortTime)), dispensability: 5),
        amounts("SENT", "SENT", connections.map { $0["sent"]?.double ?? 0 }),
        amounts("RECEIVED", "RECV", connections.map { $0["received"]?.double ?? 0 }),
      ]
      if hasRates {
        columns.append(amounts("SENT/S", "SENT/S", shown.map(\.sent)))
        columns.append(amounts("RECEIVED/S", "RECV/S", shown.map(\.received)))
      }
      return TextTable(columns)
    }

    private func amounts(_ title: String, _ short: String, _ bytes: [Double]) -> TextTable.Column {
      TextTable.Column(
        title, bytes.map(StatusText.bytes), short: (short, bytes.map(StatusText.shortBytes)))
    }
  }
}
