import JSON

/// A status in the text format of Prometheus (version 0.0.4).
enum PrometheusText {
  static func metrics(_ status: JSONValue) -> String {
    var text = ""
    let counters = status["counters"] ?? .null
    family("tunneld_uptime_seconds", "gauge", "Time since the start.", &text) {
      [([], status["uptime"]?.double)]
    }
    family("tunneld_device_info", "gauge", "Devices that can be reached; always 1.", &text) {
      (status["devices"]?.array ?? []).map { device in
        (
          [
            ("udid", device["udid"]?.string), ("connection", device["connection"]?.string),
            ("transport", device["transport"]?.string),
            ("link_version", device["link_version"]?.integer.map(String.init)),
          ], 1
        )
      }
    }
    family("tunneld_device_speed_bits", "gauge", "Speed of a device's bus, bits per second.", &text) {
      (status["devices"]?.array ?? []).map { ([("udid", $0["udid"]?.string)], $0["speed"]?.double) }
    }
    forwards(status, &text)
    family("tunneld_open_connections", "gauge", "Connections that are open.", &text) {
      [([], Double(status["connections"]?.array?.count ?? 0))]
    }
    for (name, key, help) in [
      ("accepted_connections", "accepted", "Connections that were accepted."),
      ("opened_streams", "opened", "Connections that got a stream to a device."),
      ("refusals", "refusals", "Connections that a device refused."),
      ("resets", "resets", "Clients that were shown a reset."),
      ("sent_bytes", "sent", "Bytes carried to devices."),
      ("received_bytes", "received", "Bytes carried from devices."),
      ("dropped_log_lines", "log_lines_dropped", "Lines of the log that nobody took."),
    ] {
      family("tunneld_\(name)_total", "counter", help, &text) { [([], counters[key]?.double)] }
    }
    family("tunneld_errors_total", "counter", "Why connections got no stream.", &text) {
      (counters["errors"]?.members ?? []).map { ([("kind", $0.name)], $0.value.double) }
    }
    family("tunneld_stream_ends_total", "counter", "How streams ended.", &text) {
      (counters["ends"]?.members ?? []).map { ([("kind", $0.name)], $0.value.double) }
    }
    capture(status, &text)
    loops(status, &text)
    return text
  }

  private static func forwards(_ status: JSONValue, _ text: inout String) {
    let all = status["forwards"]?.array ?? []
    func labels(_ forward: JSONValue) -> [(String, String?)] {
      [
        ("forward", forward["id"]?.integer.map(String.init)), ("name", forward["name"]?.string),
        ("local", forward["local"]?.string),
        ("device_port", forward["device_port"]?.integer.map(String.init)),
      ]
    }
    family("tunneld_forward_up", "gauge", "Whether a forward listens.", &text) {
      all.map { (labels($0), $0["state"]?.string == "listening" ? 1 : 0) }
    }
    family("tunneld_forward_connections", "gauge", "Open connections of a forward.", &text) {
      all.map { (labels($0), $0["connections"]?.double) }
    }
    family("tunneld_forward_accepted_total", "counter", "Accepted connections of a forward.", &text) {
      all.map { (labels($0), $0["accepted"]?.double) }
    }
  }

  private static func capture(_ status: JSONValue, _ text: inout String) {
    guard let capture = status["capture"] else { return }
    family("tunneld_capture_up", "gauge", "Whether streams are written to the capture file.", &text) {
      [([("path", capture["path"]?.string)], capture["problem"] == nil ? 1 : 0)]
    }
    for (name, key, help) in [
      ("packets", "packets", "Packets in the capture file."),
      ("bytes", "bytes", "Bytes of payload in the capture file."),
      ("dropped_packets", "dropped_packets", "Packets that found no room in the capture's queue."),
      ("dropped_bytes", "dropped_bytes", "Bytes of payload that found no room in the capture's queue."),
    ] {
      family("tunneld_capture_\(name)_total", "counter", help, &text) { [([], capture[key]?.double)] }
    }
  }

  /// How long the loop's turns took, which is how long others may have waited.
  private static func loops(_ status: JSONValue, _ text: inout String) {
    let name = "tunneld_loop_turn_seconds"
    let loops = status["loops"]?.array ?? []
    guard !loops.isEmpty else { return }
    text += "# HELP \(name) How long turns of an event loop took.\n# TYPE \(name) histogram\n"
    for loop in loops {
      let label = ("loop", loop["name"]?.string)
      var sum = 0.0
      for bucket in loop["buckets"]?.array ?? [] {
        guard let pair = bucket.array, pair.count == 2 else { continue }
        sum += pair[1].double ?? 0
        let bound = pair[0].double.map { "\($0)" } ?? "+Inf"
        sample("\(name)_bucket", [label, ("le", bound)], sum, &text)
      }
      sample("\(name)_sum", [label], loop["busy"]?.double ?? 0, &text)
      sample("\(name)_count", [label], sum, &text)
    }
  }

  private static func family(
    _ name: String, _ type: String, _ help: String, _ text: inout String,
    _ samples: () -> [(labels: [(String, String?)], value: Double?)]
  ) {
    let samples = samples().compactMap { sample in sample.value.map { (sample.labels, $0) } }
    guard !samples.isEmpty else { return }
    text += "# HELP \(name) \(help)\n# TYPE \(name) \(type)\n"
    for (labels, value) in samples { sample(name, labels, value, &text) }
  }

  private static func sample(
    _ name: String, _ labels: [(String, String?)], _ value: Double, _ text: inout String
  ) {
    let pairs = labels.compactMap { name, value in value.map { "\(name)=\"\(escaped($0))\"" } }
    let number = value == value.rounded() && abs(value) < 1e15 ? "\(Int64(value))" : "\(value)"
    text += name + (pairs.isEmpty ? "" : "{\(pairs.joined(separator: ","))}") + " \(number)\n"
  }

  /// In a label's value, backslash, quote and line feed are escaped.
  private static func escaped(_ text: String) -> String {
    var result = ""
    for character in text {
      switch character {
      case "\\": result += "\\\\"
      case "\"": result += "\\\""
      case "\n": result += "\\n"
      default: result.append(character)
      }
    }
    return result
  }
}
