import Foundation
import Testing

extension EndToEnd {
  /// Where tunneld listens, and what it says about it.
  @Suite(.serialized) struct Listeners {
    /// A fake with one phone, and room for files.
    struct Setup {
      let mux: FakeMux
      let directory: String
      init() throws {
        mux = try FakeMux()
        mux.attach(phone)
        directory = try temporaryDirectory()
      }
      var environment: [String: String] { ["USBMUXD_SOCKET_ADDRESS": mux.address] }
      func tunnel(_ arguments: [String], ready: [UInt16] = [7]) throws -> Tunnel {
        let tunnel = try Tunnel(arguments: arguments, environment: environment)
        try tunnel.waitUntilReady(ready)
        return tunnel
      }
      func finish() { try? FileManager.default.removeItem(atPath: directory) }
    }

    /// As `/proc/net/tcp` and `tcp6` write them.
    static let loopback4 = "0100007F"
    static let loopback6 = "00000000000000000000000001000000"

    @Test(arguments: [[], ["--bind", "localhost"]])
    func bothLoopbackAddressesAndNoOther(options: [String]) throws {
      let setup = try Setup()
      defer { setup.finish() }
      let port = try freePort()
      let tunnel = try setup.tunnel(options + ["--local", "\(port)", "--device-port", "7"])
      #expect(Set(tunnel.listeningAddresses) == [Self.loopback4, Self.loopback6])
      try tunnel.waitUntilReady([7], addresses: 2)
      #expect(
        tunnel.waitForOutput { $0.contains("ready: 127.0.0.1:\(port) -> device port 7") }, "\(tunnel.output)")
      #expect(tunnel.output.contains("[::1]:\(port)"))
      #expect(echoes(try Client(.loopback(port))))
      #expect(echoes(try Client(.loopback6(port))))
    }

    @Test func portZeroPicksAFreeOne() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let tunnel = try setup.tunnel(["--local", "0", "--device-port", "7"])
      try tunnel.waitUntilReady([7], addresses: 2)
      let endpoints = tunnel.readyLines.map(\.endpoint)
      #expect(endpoints.count == 2, "\(tunnel.output)")
      for endpoint in endpoints { #expect(echoes(try Client(endpoint))) }
      let ports = Set(
        endpoints.map { endpoint -> UInt16 in
          switch endpoint {
          case .ipv4(_, let port), .ipv6(_, let port): port
          case .unix: 0
          }
        })
      #expect(ports.count == 1 && !ports.contains(0), "one number for both: \(tunnel.output)")
    }

    @Test func severalForwards() throws {
      let setup = try Setup()
      defer { setup.finish() }
      setup.mux.setPort(20, .open(.send(20)))
      setup.mux.setPort(21, .open(.send(21)))
      let tunnel = try setup.tunnel(
        ["--local", "0", "--device-port", "20", "0:21", "--local", "0", "--device-port", "7"],
        ready: [7, 20, 21])
      #expect(try tunnel.client(20).receivePattern() == .whole(20))
      #expect(try tunnel.client(21).receivePattern() == .whole(21))
      #expect(tunnel.works())
    }

    /// The order is local, then device, in every form.
    @Test func pairsAsWithIproxy() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let port = try freePort()
      let second = try freePort()
      setup.mux.setPort(2222, .open(.send(22)))
      let tunnel = try setup.tunnel(["\(port):7", "\(second):2222"], ready: [7, 2222])
      #expect(echoes(port), "\(tunnel.log)")
      #expect(try Client(port: second).receivePattern() == .whole(22))
    }

    @Test func aChosenAddress() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let byOption = try setup.tunnel(["--bind", "127.0.0.1", "--local", "0", "--device-port", "7"])
      #expect(byOption.listeningAddresses == [Self.loopback4])
      let inForward = try setup.tunnel(["--local", "[::1]:0", "--device-port", "7"])
      #expect(inForward.listeningAddresses == [Self.loopback6])
      let other = try setup.tunnel(["--local", "127.0.0.77:0", "--device-port", "7"])
      #expect(other.listeningAddresses == ["4D00007F"])
      #expect(other.works() == false, "not at 127.0.0.1")
      let wildcard = try setup.tunnel(["--bind", "0.0.0.0", "--local", "0", "--device-port", "7"])
      #expect(wildcard.listeningAddresses == ["00000000"])
      #expect(wildcard.works())
    }

    @Test func aUnixSocketForItsOwner() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let place = "\(setup.directory)/local"
      let tunnel = try setup.tunnel(["--local", "unix:\(place)", "--device-port", "7"])
      #expect(tunnel.outputLines.contains("ready: unix:\(place) -> device port 7"), "\(tunnel.output)")
      let attributes = try FileManager.default.attributesOfItem(atPath: place)
      #expect(attributes[.posixPermissions] as? Int == 0o600)
      #expect(echoes(try Client(.unix(place))))
      #expect(tunnel.listeningAddresses == [])
      #expect(tunnel.stop() == .exited(0))
      #expect(!FileManager.default.fileExists(atPath: place), "removed at the end")
    }

    /// A socket that a killed process left behind is in nobody's use.
    @Test func aStaleUnixSocketIsReplaced() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let place = "\(setup.directory)/local"
      let first = try setup.tunnel(["--local", "unix:\(place)", "--device-port", "7"])
      first.signal(SIGKILL)
      #expect(first.waitForExit() == .signalled(SIGKILL))
      #expect(FileManager.default.fileExists(atPath: place))
      let second = try setup.tunnel(["--local", "unix:\(place)", "--device-port", "7"])
      #expect(echoes(try Client(.unix(place))), "\(second.log)")
    }

    /// A socket in use, and a file that is no socket, stay what they are.
    @Test func aUnixSocketInUseIsNotStolen() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let place = "\(setup.directory)/local"
      let first = try setup.tunnel(["--local", "unix:\(place)", "--device-port", "7"])
      let second = try Tunnel.run(
        ["--local", "unix:\(place)", "--device-port", "7"], environment: setup.environment)
      #expect(second.exitStatus == .exited(1))
      #expect(second.logs(place), "\(second.log)")
      #expect(echoes(try Client(.unix(place))), "\(first.log)")
      let file = "\(setup.directory)/precious"
      #expect(FileManager.default.createFile(atPath: file, contents: Data("text".utf8)))
      let third = try Tunnel.run(
        ["--local", "unix:\(file)", "--device-port", "7"], environment: setup.environment)
      #expect(third.exitStatus == .exited(1))
      #expect(FileManager.default.contents(atPath: file) == Data("text".utf8))
    }

    @Test(arguments: [Endpoint.loopback(0), .loopback6(0)])
    func anAddressInUse(endpoint: Endpoint) throws {
      let setup = try Setup()
      defer { setup.finish() }
      let holder = try Socket.listen(endpoint)
      defer { close(holder) }
      let port = Socket.localPort(holder)
      let tunnel = try Tunnel.run(
        ["--local", "\(port)", "--device-port", "7"], environment: setup.environment)
      #expect(tunnel.exitStatus == .exited(1))
      #expect(tunnel.output == "", "no word of being ready")
      #expect(tunnel.logLines.count == 1, "\(tunnel.log)")
      #expect(tunnel.logs("\(port)", "in use"), "\(tunnel.log)")
    }

    /// One of several cannot be had: none is kept.
    @Test func allOrNothing() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let holder = try Socket.listen(.loopback(0))
      defer { close(holder) }
      let free = try freePort()
      let place = "\(setup.directory)/local"
      let tunnel = try Tunnel.run(
        [
          "--local", "unix:\(place)", "--device-port", "7", "--local", "\(free)", "--device-port", "7",
          "--local", "\(Socket.localPort(holder))", "--device-port", "7",
        ], environment: setup.environment)
      #expect(tunnel.exitStatus == .exited(1))
      #expect(tunnel.output == "")
      #expect(!FileManager.default.fileExists(atPath: place), "nothing is left behind")
    }

    @Test(.enabled(if: getuid() == 0 && FileManager.default.isExecutableFile(atPath: "/usr/bin/setpriv")))
    func aPrivilegedPort() throws {
      let setup = try Setup()
      defer { setup.finish() }
      // The other user must reach the mux, so that nothing else is there to complain about.
      chmod(URL(fileURLWithPath: setup.mux.path).deletingLastPathComponent().path, 0o755)
      chmod(setup.mux.path, 0o777)
      let tunnel = try Tunnel(
        wrapper: ["/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        arguments: ["--local", "81", "--device-port", "7"], environment: setup.environment)
      #expect(tunnel.waitForExit() == .exited(1))
      #expect(tunnel.logLines.count == 1, "\(tunnel.log)")
      #expect(tunnel.logs("81", "permission") || tunnel.logs("81", "privilege"), "\(tunnel.log)")
    }

    @Test func anAddressThatIsNotOurs() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let tunnel = try Tunnel.run(
        ["--local", "198.51.100.7:0", "--device-port", "7"], environment: setup.environment)
      #expect(tunnel.exitStatus == .exited(1))
      #expect(tunnel.logs("198.51.100.7"), "\(tunnel.log)")
      #expect(tunnel.output == "")
    }

    /// Connections of the last run do not keep the next one from its port.
    @Test func theSamePortAgainAtOnce() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let port = try freePort()
      for _ in 0..<3 {
        let tunnel = try setup.tunnel(["--local", "\(port)", "--device-port", "7"])
        let client = try Client(port: port)
        #expect(echoes(client))
        #expect(tunnel.stop() == .exited(0))
        _ = client.ending()
      }
    }

    /// A client that vanished with its machine is found out in the end. The kernel shows a keep-alive timer as 02.
    @Test func keepAliveIsOn() throws {
      let setup = try Setup()
      defer { setup.finish() }
      let tunnel = try setup.tunnel(["--local", "0", "--device-port", "7"])
      let client = try tunnel.client()
      #expect(echoes(client))
      let ends = try [tunnel.port(), client.localPort].map { String(format: ":%04X", $0) }
      let hasTimer = eventually(within: 3) {
        let table = kernelFile("/proc/net/tcp") ?? ""
        return table.split(separator: "\n").contains { line in
          let fields = line.split(separator: " ")
          return fields.count > 5 && fields[1].hasSuffix(ends[0]) && fields[2].hasSuffix(ends[1])
            && fields[5].hasPrefix("02")
        }
      }
      #expect(hasTimer)
    }

    /// Ready means that a connection is taken, whether there is a usbmuxd or not.
    @Test func readyWithoutAPhone() throws {
      let setup = try Setup()
      defer { setup.finish() }
      setup.mux.die()
      let start = uptime()
      let tunnel = try setup.tunnel(["--local", "0", "--device-port", "7"])
      #expect(uptime() - start < 3)
      #expect(try tunnel.client().ending(within: 0.3) == .stillOpen)
    }
  }
}
