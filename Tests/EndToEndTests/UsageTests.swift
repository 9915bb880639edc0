import Foundation
import Testing

extension EndToEnd {
  /// Wrong command lines: one line, status 2, nothing started.
  @Suite(.serialized) struct Usage {
    @Test(
      arguments: [
        [], ["65558:22"], ["70000:22"], ["22:65558"], ["-1:22"], ["abc:22"], ["8765:"], [":22"], [":"],
        ["8765:0"],
        ["8765:8765x"], ["8765:+5"], ["8765: 5"], ["8765"], ["--local", "8765"], ["--device-port", "8765"],
        ["--local", "8765", "--device-port", "0"], ["--local", "65536", "--device-port", "1"],
        ["--local", "", "--device-port", "1"], ["--local", "unix:", "--device-port", "1"],
        ["--local", "8765", "--device-port"], ["--no-such-option", "1:1"], ["1:1", "--udid", ""],
        ["1:1", "--udid", "xyz"], ["1:1", "--udid", "00008110-000A1B2C3D4E5F60AB"],
        ["1:1", "--wait", "soon"],
        ["1:1", "--wait", "-1"], ["1:1", "--transport", "carrier-pigeon"], ["1:1", "--usbmuxd", "nonsense:"],
        ["1:1", "--usbmuxd", "UNIX:"], ["1:1", "--usbmuxd", ""], ["1:1", "--usbmuxd", "host:99999"],
        ["1:1", "--usbmuxd", "[::1]"], ["1:1", "--bind", "not an address"], ["1:1", "--any", "--udid"],
      ] as [[String]])
    func wrongArguments(arguments: [String]) throws {
      let tunnel = try Tunnel.run(arguments)
      #expect(tunnel.exitStatus == .exited(2), "\(tunnel.log)")
      #expect(tunnel.output == "")
      #expect(tunnel.logLines.count == 1, "\(tunnel.log)")
    }

    /// Never a silent fallback to the default socket.
    @Test(arguments: ["nonsense:", "UNIX:", "host:99999", "::1:5", "[::1]", "host:"])
    func aMalformedEnvironmentVariable(value: String) throws {
      let tunnel = try Tunnel.run(
        ["--transport", "usbmuxd", "0:7"], environment: ["USBMUXD_SOCKET_ADDRESS": value])
      #expect(tunnel.exitStatus == .exited(2), "\(tunnel.log)")
      #expect(tunnel.output == "")
      #expect(tunnel.logs("USBMUXD_SOCKET_ADDRESS"), "\(tunnel.log)")
    }

    @Test func theNearestOptionIsNamed() throws {
      let tunnel = try Tunnel.run(["--device-prot", "7"])
      #expect(tunnel.exitStatus == .exited(2))
      #expect(tunnel.log.contains("--device-port"), "\(tunnel.log)")
    }

    @Test(arguments: [["--help"], ["-h"], ["devices", "--help"]])
    func help(arguments: [String]) throws {
      let tunnel = try Tunnel.run(arguments)
      #expect(tunnel.exitStatus == .exited(0))
      #expect(tunnel.output.contains("Usage:"))
      #expect(tunnel.log == "")
      #expect(tunnel.outputLines.allSatisfy { $0.count <= 110 })
    }

    @Test func version() throws {
      let tunnel = try Tunnel.run(["--version"])
      #expect(tunnel.exitStatus == .exited(0))
      #expect(tunnel.outputLines.count == 1)
      #expect(tunnel.output.hasPrefix("tunneld "))
      #expect(tunnel.output.contains { $0.isNumber })
    }
  }

  /// `tunneld devices`.
  @Suite(.serialized) struct Devices {
    @Test func phonesAreListedInTheirCanonicalForm() throws {
      let mux = try FakeMux()
      mux.attach("00008110000a1b2c3d4e5f60")
      mux.attach(oldPhone.uppercased())
      let list = try Tunnel.run(["devices"], environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      #expect(list.exitStatus == .exited(0), "\(list.log)")
      #expect(list.output.contains(phone), "\(list.output)")
      #expect(list.output.contains(oldPhone), "\(list.output)")
      #expect(mux.violations == [])
    }

    @Test func aListForPrograms() throws {
      let mux = try FakeMux()
      let id = mux.attach(phone)
      mux.attach(otherPhone, kind: .network(FakeDevice.networkAddress(.ipv4("192.0.2.7", 0))))
      mux.attach("\"quoted\\ \u{1F4F1} \u{7}")
      let list = try Tunnel.run(["devices", "--json"], environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      #expect(list.exitStatus == .exited(0), "\(list.log)")
      // One object a line, or one array.
      let text = Data(list.output.utf8)
      var objects: [[String: Any]] = []
      if let array = try? JSONSerialization.jsonObject(with: text) as? [[String: Any]] {
        objects = array
      } else {
        for line in list.outputLines {
          let value = try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any]
          objects.append(try #require(value))
        }
      }
      #expect(objects.count == 3, "\(list.output)")
      let values = objects.map { object in object.values.map { "\($0)" } }
      #expect(values.contains { $0.contains(phone) && $0.contains("\(id)") }, "\(list.output)")
      #expect(values.contains { $0.contains(otherPhone) })
    }

    @Test func noPhoneIsAnEmptyList() throws {
      let mux = try FakeMux()
      let list = try Tunnel.run(["devices", "--json"], environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      #expect(list.exitStatus == .exited(0))
      #expect(!list.output.contains("udid"))
    }

    @Test func noUsbmuxdIsAFailure() throws {
      let list = try Tunnel.run(
        ["devices", "--transport", "usbmuxd"],
        environment: ["USBMUXD_SOCKET_ADDRESS": "UNIX:/nonexistent/mux"])
      #expect(list.exitStatus == .exited(1))
      #expect(list.logLines.count == 1, "\(list.log)")
      #expect(list.logs("usbmuxd"))
    }

    @Test func watching() throws {
      let mux = try FakeMux()
      let first = mux.attach(phone)
      let watch = try Tunnel(
        arguments: ["devices", "--watch", "--json"], environment: ["USBMUXD_SOCKET_ADDRESS": mux.address])
      #expect(watch.waitForOutput { $0.count == 1 && $0[0].contains(phone) }, "\(watch.output)\(watch.log)")
      mux.attach(otherPhone)
      #expect(watch.waitForOutput { $0.count == 2 && $0[1].contains(otherPhone) }, "\(watch.output)")
      mux.detach(first)
      #expect(watch.waitForOutput { $0.count == 3 && $0[2].contains(phone) }, "\(watch.output)")
      #expect(watch.stop() == .exited(0))
    }

    @Test func simulatedPhones() throws {
      let list = try Tunnel.run(["devices", "--transport", "simulated", "--simulated-devices", "3"])
      #expect(list.exitStatus == .exited(0), "\(list.log)")
      #expect(list.output.contains("00008110-000000C0FFEE0001"), "\(list.output)")
    }
  }
}
