import JSON

/// A status as text for people, in its parts and as a whole.
enum StatusText {
  /// Connections that are shown; thousands help nobody.
  private static let shownConnections = 40

  /// All of it, with rates where an earlier status of the same run is given.
  static func table(_ status: JSONValue, before: JSONValue?) -> String {
    let forwards = StatusTables.forwards(status["forwards"]?.array ?? [])
    let connections = StatusTables.Connections(status, before: before)
    let hidden = connections.count - shownConnections
    let parts = [
      heading(status), StatusTables.devices(status["devices"]?.array ?? [])?.lines() ?? [noDevices],
      forwards?.lines() ?? [noForwards],
      (connections.table(atMost: shownConnections)?.lines() ?? [noConnections])
        + (hidden > 0 ? ["and \(hidden) more"] : []),
      counters(status),
    ]
    return parts.map { $0.joined(separator: "\n") }.joined(separator: "\n\n")
  }

  static let noDevices = "no device is attached"
  static let noForwards = "no forwards"
  static let noConnections = "no connections"

  /// Who this is, and what keeps it from its work.
  static func heading(_ status: JSONValue) -> [String] {
    let configuration = status["configuration"]?["path"]?.string.map { ", \($0)" } ?? ""
    var lines = [
      "tunneld \(status["version"]?.string ?? ""), process \(number(status["pid"])), "
        + "up \(time(status["uptime"]?.double ?? 0))\(configuration)"
    ]
    if let problem = status["configuration"]?["problem"]?.string {
      lines.append("the configuration was not reloaded: \(problem)")
    }
    if let problem = status["transport_problem"]?["message"]?.string { lines.append(problem) }
    return lines
  }

  static func forwards(_ forwards: [JSONValue]) -> String {
    (StatusTables.forwards(forwards)?.lines() ?? [noForwards]).joined(separator: "\n")
  }

  static func added(_ forward: JSONValue) -> String {
    "forward \(number(forward["id"])): \(StatusTables.listening(forward)) -> "
      + "device port \(number(forward["device_port"]))"
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

  static func counters(_ status: JSONValue) -> [String] {
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
    if let capture = status["capture"] {
      lines.append(
        "capture: \(number(capture["packets"])) packets, \(bytes(capture["bytes"]?.double ?? 0)) of payload in "
          + "\(capture["path"]?.string ?? "")")
      if let dropped = capture["dropped_packets"]?.integer, dropped > 0 {
        lines.append(
          "dropped by the capture: \(dropped) packets, \(bytes(capture["dropped_bytes"]?.double ?? 0))")
      }
      if let problem = capture["problem"]?.string { lines.append(problem) }
    }
    for loop in status["loops"]?.array ?? [] {
      lines.append(
        "\(loop["name"]?.string ?? "") loop: median turn \(short(loop["median"])), "
          + "99th percentile \(short(loop["p99"])), longest \(short(loop["longest"]))")
    }
    return lines
  }

  // MARK: Words

  static func number(_ value: JSONValue?) -> String { value?.integer.map(String.init) ?? "-" }

  private static func short(_ value: JSONValue?) -> String {
    let microseconds = (value?.double ?? 0) * 1e6
    return microseconds < 1000 ? "\(rounded(microseconds)) us" : "\(rounded(microseconds / 1000)) ms"
  }

  /// `1.2 MiB`.
  static func bytes(_ count: Double) -> String {
    let (number, unit) = scaled(count)
    return unit == "" ? "\(Int64(number)) B" : "\(rounded(number)) \(unit)iB"
  }

  /// `1.2M` or `123M`: at most five characters.
  static func shortBytes(_ count: Double) -> String {
    let (number, unit) = scaled(count)
    return (unit == "" || number >= 99.95 ? "\(Int64(number.rounded()))" : rounded(number)) + unit
  }

  private static func scaled(_ count: Double) -> (number: Double, unit: String) {
    var rest = max(0, min(count, 1e15))
    for unit in ["", "K", "M", "G"] {
      if rest < 1024 { return (rest, unit) }
      rest /= 1024
    }
    return (rest, "T")
  }

  /// One decimal place.
  private static func rounded(_ number: Double) -> String {
    let tenths = (min(number, 1e15) * 10).rounded()
    return "\(Int64(tenths) / 10).\(Int64(tenths) % 10)"
  }

  /// `1d 02:03:04` or `02:03:04`.
  static func time(_ seconds: Double) -> String {
    let whole = Int64(max(0, min(seconds, 1e12)))
    let clock = "\(two(whole / 3600 % 24)):\(two(whole / 60 % 60)):\(two(whole % 60))"
    return whole >= 86_400 ? "\(whole / 86_400)d \(clock)" : clock
  }

  /// `1d 02h` or `02:03:04`.
  static func shortTime(_ seconds: Double) -> String {
    let whole = Int64(max(0, min(seconds, 1e12)))
    return whole >= 86_400 ? "\(whole / 86_400)d \(two(whole / 3600 % 24))h" : time(seconds)
  }

  private static func two(_ number: Int64) -> String { number < 10 ? "0\(number)" : "\(number)" }
}
