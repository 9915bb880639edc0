import Foundation
import Testing

extension EndToEnd {
  /// Programs as they are packaged, against the real binary as a usbmuxd with a simulated phone in it. Those that
  /// are not installed are left out; `scripts/bootstrap --tests` installs them.
  @Suite(.serialized) struct PackagedClients {
    static let udid = "00008110-000000C0FFEE0001"

    static func path(_ program: String) -> String? {
      let directories = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
      return directories.map { "\($0)/\(program)" }
        .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    static func isInstalled(_ program: String) -> Bool { path(program) != nil }

    /// A tunneld that serves a usbmuxd socket in a directory of its own.
    final class Mux {
      let directory: String
      let tunnel: Tunnel
      var socket: String { directory + "/mux" }

      init() throws {
        directory = NSTemporaryDirectory() + "tunneld-test-" + UUID().uuidString.prefix(8)
        try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
        tunnel = try Tunnel(arguments: [
          "--transport", "simulated", "--usbmuxd-socket", directory + "/mux", "--lockdown-dir",
          directory + "/lockdown",
        ])
        let path = socket
        #expect(
          tunnel.waitForOutput { $0.contains { $0.contains("usbmuxd socket at \(path)") } }, "\(tunnel.log)")
      }

      deinit {
        _ = tunnel.stop()
        try? FileManager.default.removeItem(atPath: directory)
      }

      /// libusbmuxd wants a scheme before the path; pymobiledevice3 wants none.
      func start(_ words: [String]) throws -> ChildProcess {
        let scheme = words[0] == "pymobiledevice3" ? "" : "UNIX:"
        return try ChildProcess(
          executable: PackagedClients.path(words[0]) ?? words[0], arguments: words,
          environment: ["USBMUXD_SOCKET_ADDRESS": scheme + socket])
      }

      /// Runs a program to its end.
      func run(_ words: String...) throws -> ChildProcess {
        let child = try start(words)
        _ = child.waitForExit(within: 20)
        return child
      }
    }

    @Test(.enabled(if: isInstalled("idevice_id"))) func listing() throws {
      #expect(try Mux().run("idevice_id", "-l").outputLines == [Self.udid])
    }

    @Test(.enabled(if: isInstalled("ideviceinfo"))) func lockdownAnswers() throws {
      let mux = try Mux()
      let info = try mux.run("ideviceinfo", "-s")
      #expect(info.exitStatus == .exited(0), "\(info.log)")
      #expect(info.outputLines.contains("UniqueDeviceID: \(Self.udid)"))
      #expect(info.outputLines.contains("DeviceName: Simulated iPhone"))
      #expect(try mux.run("ideviceinfo", "-s", "-k", "ProductVersion").outputLines == ["18.0"])
    }

    /// Pairing goes as far as the dialog on the phone.
    @Test(.enabled(if: isInstalled("idevicepair"))) func pairingAsksForTrust() throws {
      let mux = try Mux()
      let pairing = try mux.run("idevicepair", "pair")
      #expect((pairing.output + pairing.log).contains("trust dialog"), "\(pairing.output) \(pairing.log)")
      let buid = try mux.run("idevicepair", "systembuid").outputLines
      #expect(buid.first?.count == 36)
      #expect(try mux.run("idevicepair", "systembuid").outputLines == buid)
    }

    @Test(.enabled(if: isInstalled("iproxy"))) func iproxyForwards() throws {
      let mux = try Mux()
      let port = try freePort()
      let iproxy = try mux.start(["iproxy", "\(port):8765"])
      defer {
        iproxy.signal(SIGTERM)
        _ = iproxy.waitForExit()
      }
      // Its lines wait in its buffer, so its port is looked for.
      #expect(eventually(within: 10) { (try? Client(port: port)) != nil })
      let (head, body) = try Simulated.request(port, Simulated.get("/big?bytes=1000000"))
      #expect(head.hasPrefix("HTTP/1.1 200"))
      #expect(body.count == 1_000_000)
    }

    @Test(.enabled(if: isInstalled("pymobiledevice3"))) func pymobiledevice3Lists() throws {
      let listing = try Mux().run("pymobiledevice3", "usbmux", "list")
      #expect(listing.output.contains(Self.udid), "\(listing.output) \(listing.log)")
    }
  }
}
