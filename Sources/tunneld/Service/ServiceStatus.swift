/// What `systemctl status` shows in its line "Status".
struct ServiceStatus: Equatable {
  /// Each as `127.0.0.1:8765 -> 8765`.
  var forwards: [String] = []
  /// Each as `00008110-000A1B2C3D4E5F60 (USB)`, in the order in which they came.
  var phones: [String] = []
  /// The sockets on which other programs are served.
  var servers: [String] = []

  /// Of each list so many are named; the line stays short enough to be read.
  private static let named = 6

  /// `2 phones: A (USB), B (USB); 1 forward: 127.0.0.1:8765 -> 8765; usbmuxd socket at /run/usbmuxd`.
  var line: String {
    var parts = [
      Self.part(phones, "phone", none: "no phone"), Self.part(forwards, "forward", none: "no forward"),
    ]
    if !servers.isEmpty { parts.append("usbmuxd socket at " + Self.list(servers)) }
    // A line break would begin another assignment.
    return String(parts.joined(separator: "; ").unicodeScalars.map { $0.value < 0x20 ? " " : Character($0) })
  }

  private static func part(_ items: [String], _ noun: String, none: String) -> String {
    items.isEmpty ? none : "\(items.count) \(noun)\(items.count == 1 ? "" : "s"): " + list(items)
  }

  private static func list(_ items: [String]) -> String {
    let rest = items.count - named
    return items.prefix(named).joined(separator: ", ") + (rest > 0 ? " and \(rest) more" : "")
  }
}
