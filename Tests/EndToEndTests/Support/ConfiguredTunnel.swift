import Foundation

/// A tunneld with a control socket and, where wanted, a configuration file.
final class ConfiguredTunnel {
  let directory: String
  let tunnel: Tunnel
  var socket: String { directory + "/control" }
  var file: String { directory + "/tunneld.conf" }

  init(
    _ mux: FakeMux, _ configuration: String, _ options: [String] = [], ready devicePorts: [UInt16] = []
  ) throws {
    directory = try temporaryDirectory()
    try ConfiguredTunnel.write(configuration, to: directory + "/tunneld.conf")
    tunnel = try Tunnel(
      arguments: [
        "-c", directory + "/tunneld.conf", "--control-socket", directory + "/control", "--transport",
        "usbmuxd",
      ] + options, environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
    if !devicePorts.isEmpty { try tunnel.waitUntilReady(devicePorts) }
    guard eventually(within: 5, { FileManager.default.fileExists(atPath: socket) }) else {
      throw Unmet("no control socket: \(tunnel.log)")
    }
  }

  deinit { try? FileManager.default.removeItem(atPath: directory) }

  static func write(_ text: String, to path: String) throws {
    try text.write(toFile: path, atomically: true, encoding: .utf8)
  }

  /// Runs a command that asks this one.
  func ask(_ words: String...) throws -> Tunnel {
    try Tunnel.run(words + ["--control-socket", socket])
  }

  func status() throws -> [String: Any] {
    let asked = try ask("status", "--json")
    guard asked.exitStatus == .exited(0),
      let object = try JSONSerialization.jsonObject(with: Data(asked.outputBytes)) as? [String: Any]
    else { throw Unmet("no status: \(asked.output)\(asked.log)") }
    return object
  }

  func list(_ key: String) throws -> [[String: Any]] { try status()[key] as? [[String: Any]] ?? [] }
  func counters() throws -> [String: Any] { try status()["counters"] as? [String: Any] ?? [:] }
}

func section(_ name: String, _ local: String, _ devicePort: UInt16, _ more: String = "") -> String {
  "[forward \(name)]\nlocal = \(local)\ndevice-port = \(devicePort)\n\(more)\n"
}
