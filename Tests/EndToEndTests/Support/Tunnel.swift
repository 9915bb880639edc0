import Foundation
import Testing

/// One address that a ready line names.
struct ReadyLine: Equatable {
  var endpoint: Endpoint
  var devicePort: UInt16
}

/// A running tunneld.
final class Tunnel: ChildProcess, @unchecked Sendable {
  /// The binary under test: `TUNNELD`, or the debug build of the package that this file is part of.
  static let binary: String = {
    if let path = ProcessInfo.processInfo.environment["TUNNELD"] { return path }
    let package = URL(fileURLWithPath: #filePath).pathComponents.dropFirst().dropLast(4).joined(
      separator: "/")
    return "/\(package)/.build/debug/tunneld"
  }()

  /// What is run when the test wants the `iproxy` form; by `IPROXY` the real one, to check the tests.
  static let iproxy: String? = ProcessInfo.processInfo.environment["IPROXY"]

  /// Runs with bare arguments.
  init(
    arguments: [String], name: String = "tunneld", environment: [String: String] = [:],
    terminal: String? = nil
  ) throws {
    var variables = environment
    if terminal != nil { variables["TERM"] = "xterm" }
    try super.init(
      executable: Tunnel.binary, arguments: [name] + arguments, environment: variables, terminal: terminal)
  }

  /// Runs another program that ends up executing tunneld: `sh`, `setpriv`.
  init(wrapper: [String], arguments: [String], environment: [String: String] = [:]) throws {
    try super.init(
      executable: wrapper[0], arguments: wrapper + [Tunnel.binary] + arguments, environment: environment)
  }

  /// Runs as systemd would run it, with sockets that listen already. Whoever execs keeps the process number.
  init(
    activatedWith sockets: [(name: String, socket: Int32)], arguments: [String],
    environment: [String: String] = [:]
  ) throws {
    var variables = [
      "LISTEN_FDS": "\(sockets.count)", "LISTEN_FDNAMES": sockets.map(\.name).joined(separator: ":"),
    ]
    variables.merge(environment) { $1 }
    try super.init(
      executable: "/bin/sh",
      arguments: ["sh", "-c", "export LISTEN_PID=$$; exec \"$0\" \"$@\"", Tunnel.binary] + arguments,
      environment: variables, passing: sockets.map(\.socket))
  }

  /// Forwards free local ports to the given ports of the fake's phones, and waits until ready.
  convenience init(
    _ mux: FakeMux,
    _ devicePorts: [UInt16] = [7],
    _ options: [String] = [],
    environment: [String: String] = [:]
  ) throws {
    var arguments = ["--transport", "usbmuxd"] + options
    for port in devicePorts { arguments += ["--local", "0", "--device-port", "\(port)"] }
    var variables = ["USBMUXD_SOCKET_ADDRESS": mux.address]
    variables.merge(environment) { $1 }
    try self.init(arguments: arguments, environment: variables)
    try waitUntilReady(devicePorts)
  }

  /// Forwards free local ports to the simulated phone, and waits until ready.
  convenience init(simulated devicePorts: [UInt16], _ options: [String] = []) throws {
    var arguments = ["--transport", "simulated"] + options
    for port in devicePorts { arguments += ["--local", "0", "--device-port", "\(port)"] }
    try self.init(arguments: arguments)
    try waitUntilReady(devicePorts)
  }

  /// Waits for a ready line of each port, and for `addresses` of them in all.
  func waitUntilReady(_ devicePorts: [UInt16], addresses: Int = 1, within seconds: Double = 10) throws {
    let ready = waitForOutput(within: seconds) { lines in
      let known = Tunnel.readyLines(lines)
      let ports = Set(known.map(\.devicePort))
      return devicePorts.allSatisfy(ports.contains) && known.count >= addresses
    }
    if !ready { throw Unmet("not ready: \(exitStatus.map(\.description) ?? "running"); \(output)\(log)") }
  }

  var readyLines: [ReadyLine] { Tunnel.readyLines(outputLines) }

  /// `ready: 127.0.0.1:8765 -> device port 8765`; several addresses are separated by commas.
  static func readyLines(_ lines: [String]) -> [ReadyLine] {
    lines.flatMap { line -> [ReadyLine] in
      guard line.hasPrefix("ready: "), let arrow = line.range(of: " -> device port ") else { return [] }
      guard let port = UInt16(line[arrow.upperBound...].prefix { $0.isNumber }) else { return [] }
      let addresses = line[line.index(line.startIndex, offsetBy: 7)..<arrow.lowerBound]
      return addresses.split(separator: ",").compactMap { address in
        Tunnel.endpoint(address.trimmingCharacters(in: .whitespaces)).map {
          ReadyLine(endpoint: $0, devicePort: port)
        }
      }
    }
  }

  private static func endpoint(_ text: String) -> Endpoint? {
    if text.hasPrefix("unix:") { return .unix(String(text.dropFirst(5))) }
    guard let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) else {
      return nil
    }
    let host = String(text[..<colon])
    return host.hasPrefix("[") ? .ipv6(String(host.dropFirst().dropLast()), port) : .ipv4(host, port)
  }

  /// The local IPv4 port that leads to a device port.
  func port(_ devicePort: UInt16 = 7) throws -> UInt16 {
    for line in readyLines where line.devicePort == devicePort {
      if case .ipv4(_, let port) = line.endpoint { return port }
    }
    throw Unmet("no ready line for device port \(devicePort): \(output)")
  }

  func client(_ devicePort: UInt16 = 7, receiveBuffer: Int32? = nil) throws -> Client {
    try Client(port: port(devicePort), receiveBuffer: receiveBuffer)
  }

  /// A new connection to the echo port works.
  func works(_ devicePort: UInt16 = 7, within seconds: Double = 5) -> Bool {
    guard let port = try? port(devicePort) else { return false }
    return echoes(port, within: seconds)
  }

  /// SIGTERM, then the exit status.
  func stop(within seconds: Double = 10) -> ExitStatus? {
    signal(SIGTERM)
    return waitForExit(within: seconds)
  }

  /// Runs to its end: for usage errors, `--help` and the `devices` command.
  static func run(
    _ arguments: [String],
    name: String = "tunneld",
    environment: [String: String] = [:],
    within seconds: Double = 10
  ) throws -> Tunnel {
    let tunnel = try Tunnel(arguments: arguments, name: name, environment: environment)
    if tunnel.waitForExit(within: seconds) == nil {
      throw Unmet("still running: \(tunnel.output)\(tunnel.log)")
    }
    return tunnel
  }
}

/// All end-to-end tests, one after the other: they measure times, memory and descriptors.
@Suite(.serialized) struct EndToEnd {}

/// A phone in the usual form, and another one.
let phone = "00008110-000A1B2C3D4E5F60"
let otherPhone = "00008030-001122334455667A"
let oldPhone = "0123456789abcdef0123456789abcdef01234567"
