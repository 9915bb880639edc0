import JSON
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// What is told when the listeners are there.
enum ReadyText {
  /// `ready: 127.0.0.1:8765 -> device port 8765`, one for each address.
  static func lines(_ entries: [ForwardEntry]) -> [String] {
    entries.flatMap { entry in
      (entry.forward?.endpoints ?? []).map { "ready: \($0) -> device port \(entry.options.devicePort)" }
    }
  }

  static func line(_ server: UsbmuxdServer) -> [String] {
    server.endpoints.map { "ready: usbmuxd socket at \($0.port == nil ? $0.host : "\($0)")" }
  }

  /// One object; forwards that could not be are among them with their failure.
  static func json(
    _ entries: [ForwardEntry], _ options: RunOptions, server: UsbmuxdServer?, control: String?
  ) -> String {
    JSONValue.object(of: [
      "event": "ready", "pid": .integer(Int64(getpid())),
      "forwards": .array(entries.map { object($0, options) }),
      "usbmuxd_socket": server.map { .array($0.endpoints.map { .string("\($0)") }) },
      "control_socket": control.map(JSONValue.string),
    ]).text
  }

  /// One object with forwards that listen later than the others.
  static func json(later entries: [ForwardEntry], _ options: RunOptions) -> String {
    JSONValue.object(of: ["event": "listening", "forwards": .array(entries.map { object($0, options) })]).text
  }

  static func object(_ entry: ForwardEntry, _ options: RunOptions) -> JSONValue {
    .object(of: [
      "id": .count(entry.number), "name": entry.options.name.map(JSONValue.string),
      "local": .string(entry.options.local.spelling),
      "listen": .array((entry.forward?.endpoints ?? []).map(endpoint)),
      "device_port": .integer(Int64(entry.options.devicePort)),
      "udid": options.udid(for: entry.options).map(JSONValue.string) ?? .null,
      "state": entry.forward == nil ? "failed" : "listening",
      "error": entry.failure.map { .string("\($0)") },
      "origin": .string(entry.origin.name),
    ])
  }

  private static func endpoint(_ endpoint: Forward.Endpoint) -> JSONValue {
    guard let port = endpoint.port else { return .object(of: ["path": .string(endpoint.host)]) }
    return .object(of: ["address": .string(endpoint.host), "port": .integer(Int64(port))])
  }
}

extension RunOptions {
  /// The UDID, or its beginning, to which a forward leads; nil when any phone or the only one is meant.
  func udid(for forward: ForwardOptions) -> String? {
    guard case .udid(let udid) = forward.settings.device ?? device else { return nil }
    return udid.description
  }
}
