import ControlProtocol

/// A status as tables for people.
enum StatusText {
  /// With rates where an earlier status of the same run is given.
  static func table(_ status: JSONValue, before: JSONValue?) -> String {
    var parts = [summary(status)]
    if let problem = status["configuration"]?["problem"]?.string {
      parts.append("the configuration was not reloaded: \(problem)")
    }
    if let problem = status["transport_problem"]?["message"]?.string { parts.append(problem) }
    parts.append(devices(status["devices"]?.array ?? []))
    parts.append(forwards(status["forwards"]?.array ?? []))
    parts.append(connections(status, before: before))
    parts.append(counters(status))
    return parts.filter { !$0.isEmpty }.joined(separator: "\n\n")
  }

  private static func summary(_ status: JSONValue) -> String {
    let configuration = status["configuration"]?["path"]?.string.map { ", \($0)" } ?? ""
    return "tunneld \(status["version"]?.string ?? ""), process \(number(status["pid"])), "
      + "up \(time(status["uptime"]?.double ?? 0))\(configuration)"
  }

  private static func devices(_ devices: [JSONValue]) -> String {
    guard !devices.isEmpty else { return "no device is attached" }
    return table(
      ["UDID", "CONNECTION", "SPEED", "TRANSPORT", "LINK", "CONNECTIONS"],
      devices.map { device in
        [
          device["udid"]?.string ?? "", device["connection"]?.string ?? "",
          device["speed"]?.integer.map { "\($0 / 1_000_000) Mbit/s" } ?? "-",
          device["transport"]?.string ?? "", device["link_version"]?.integer.map { "v\($0)" } ?? "-",
          number(device["connections"]),
        ]
      })
  }

  static func forwards(_ forwards: [JSONValue]) -> String {
    guard !forwards.isEmpty else { return "no forwards" }
    return table(
      ["FORWARD", "NAME", "LISTENS ON", "PORT", "UDID", "OPEN", "ACCEPTED", "STATE"],
      forwards.map { forward in
        [
          number(forward["id"]), forward["name"]?.string ?? "-", listening(forward),
          number(forward["device_port"]), forward["udid"]?.string ?? "any", number(forward["connections"]),
          number(forward["accepted"]), forward["error"]?.string.map { "failed: \($0)" } ?? "listening",
        ]
      })
  }

  private static func listening(_ forward: JSONValue) -> String {
    let listen = (forward["listen"]?.array ?? []).map { endpoint in
      if let path = endpoint["path"]?.string { return "unix:\(path)" }
      let address = endpoint["address"]?.string ?? ""
      return (address.contains(":") ? "[\(address)]" : address) + ":" + number(endpoint["port"])
    }
    return listen.isEmpty ? forward["local"]?.string ?? "" : listen.joined(separator: " ")
  }

  static func added(_ forward: JSONValue) -> String {
    "forward \(number(forward["id"])): \(listening(forward)) -> device port \(number(forward["device_port"]))"
  }

  static func reload(_ report: JSONValue) -> String {
    var lines = [
      "\(number(report["added"])) added, \(number(report["removed"])) removed, "
        + "\(number(report["changed"])) changed, \(number(report["unchanged"])) unchanged"
    ]
    lines += (report["failed"]?.array ?? []).compactMap(\.string)
    let restart = (report["need_restart"]?.array ?? []).compactMap(\.string)
    if !restart.isEmpty { lines.append("after a restart only: \(restart.joined(separator: ", "))") }
    return lines.joined(separator: "\n")
  }

  /// Connections that are shown; thousands help nobody.
  private static let shownConnections = 40

  private static func connections(_ status: JSONValue, before: JSONValue?) -> String {
    let connections = status["connections"]?.array ?? []
    guard !connections.isEmpty else { return "no connections" }
    let seconds = (status["uptime"]?.double ?? 0) - (before?["uptime"]?.double ?? 0)
    var earlier: [Int64: JSONValue] = [:]
    for connection in before?["connections"]?.array ?? [] {
      if let id = connection["id"]?.integer { earlier[id] = connection }
    }
    var header = ["CONNECTION", "FORWARD", "UDID", "PORT", "STATE", "AGE", "SENT", "RECEIVED"]
    if before != nil { header += ["SENT/S", "RECEIVED/S"] }
    let rows = connections.prefix(shownConnections).map { connection in
      var row = [
        number(connection["id"]), connection["forward"].map { number($0) } ?? "usbmuxd",
        connection["udid"]?.string ?? "-", number(connection["port"]), connection["state"]?.string ?? "",
        time(connection["age"]?.double ?? 0), bytes(connection["sent"]?.double ?? 0),
        bytes(connection["received"]?.double ?? 0),
      ]
      if before != nil {
        let old = connection["id"]?.integer.flatMap { earlier[$0] }
        for key in ["sent", "received"] {
          let more = (connection[key]?.double ?? 0) - (old?[key]?.double ?? 0)
          row.append(bytes(seconds > 0 ? max(0, more) / seconds : 0))
        }
      }
      return row
    }
    let hidden = connections.count - rows.count
    return table(header, Array(rows)) + (hidden > 0 ? "\nand \(hidden) more" : "")
  }

  private static func counters(_ status: JSONValue) -> String {
    let counters = status["counters"] ?? .null
    var lines = [
      "connections: \(number(counters["accepted"])) accepted, \(number(counters["opened"])) opened, "
        + "\(number(counters["refusals"])) refused, \(number(counters["resets"])) reset",
      "bytes: \(bytes(counters["sent"]?.double ?? 0)) sent, \(bytes(counters["received"]?.double ?? 0)) received",
    ]
    for (title, key) in [("errors", "errors"), ("ends", "ends")] {
      let members = counters[key]?.members ?? []
      if !members.isEmpty {
        lines.append("\(title): " + members.map { "\($0.name) \(number($0.value))" }.joined(separator: ", "))
      }
    }
    if let dropped = counters["log_lines_dropped"]?.integer, dropped > 0 {
      lines.append("lines of the log dropped: \(dropped)")
    }
    for loop in status["loops"]?.array ?? [] {
      lines.append(
        "\(loop["name"]?.string ?? "") loop: median turn \(short(loop["median"])), "
          + "99th percentile \(short(loop["p99"])), longest \(short(loop["longest"]))")
    }
    return lines.joined(separator: "\n")
  }

  // MARK: Words

  private static func table(_ header: [String], _ rows: [[String]]) -> String {
    let all = [header] + rows
    let widths = header.indices.map { column in all.map { $0[column].count }.max() ?? 0 }
    return all.map { row in
      zip(row, widths).enumerated().map { index, cell in
        index == header.count - 1
          ? cell.0 : cell.0 + String(repeating: " ", count: max(0, cell.1 - cell.0.count))
      }.joined(separator: "  ")
    }.joined(separator: "\n")
  }

  private static func number(_ value: JSONValue?) -> String { value?.integer.map(String.init) ?? "-" }

  private static func short(_ value: JSONValue?) -> String {
    let microseconds = (value?.double ?? 0) * 1e6
    return microseconds < 1000 ? "\(rounded(microseconds)) us" : "\(rounded(microseconds / 1000)) ms"
  }

  /// `1.2 MiB`.
  static func bytes(_ count: Double) -> String {
    var rest = count
    for unit in ["B", "KiB", "MiB", "GiB"] {
      if rest < 1024 { return unit == "B" ? "\(Int64(rest)) B" : "\(rounded(rest)) \(unit)" }
      rest /= 1024
    }
    return "\(rounded(rest)) TiB"
  }

  /// One decimal place.
  private static func rounded(_ number: Double) -> String {
    let tenths = (min(number, 1e15) * 10).rounded()
    return "\(Int64(tenths) / 10).\(Int64(tenths) % 10)"
  }

  /// `1d 02:03:04` or `02:03:04`.
  static func time(_ seconds: Double) -> String {
    let whole = Int64(max(0, min(seconds, 1e12)))
    func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
    let clock = "\(two(whole / 3600 % 24)):\(two(whole / 60 % 60)):\(two(whole % 60))"
    return whole >= 86_400 ? "\(whole / 86_400)d \(clock)" : clock
  }
}
