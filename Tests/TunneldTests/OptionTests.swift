import MuxProtocol
import Testing

@testable import tunneld

@Suite("Options of tunneld")
struct OptionTests {
  static let udid = "00008110-000000C0FFEE0001"

  @Test("What is not said has its documented value")
  func defaults() throws {
    let options = try runOptions("1:2")
    #expect(options.device == .onlyOne)
    #expect(options.connections == .usbOnly)
    #expect(options.transport == .auto(usbmuxd: nil))
    #expect(options.timeouts.wait == .seconds(5))
    #expect(options.timeouts.connect == .seconds(10))
    #expect(options.timeouts.halfClose == .seconds(30))
    #expect(options.timeouts.drain == .milliseconds(300))
    #expect(options.maximumConnections == nil)
    #expect(options.verbosity == 0)
    #expect(options.announcement == .tunneld)
  }

  @Test("The phone, by any spelling of the option")
  func device() throws {
    let expected = DeviceChoice.udid(try UDIDPrefix(parsing: Self.udid))
    for option in ["-u ", "-u", "--udid ", "--udid=", "--serial ", "--serial="] {
      #expect(try runOptions("\(option)\(Self.udid) 1:2").device == expected)
    }
    #expect(try runOptions("--any 1:2").device == .any)
    #expect(usageError("--any --udid \(Self.udid) 1:2").contains("--any and --udid exclude each other"))
    #expect(usageError("-u 00 --serial 00 1:2").contains("--udid is given twice"))
  }

  @Test(
    "What is no UDID",
    arguments: ["", "-", "iPhone", "0000-8110", String(repeating: "a", count: 41), "00008110\n"]
  )
  func badUDIDs(text: String) {
    #expect(usageError(["--udid=\(text)", "1:2"]).contains("is no UDID: write 24 or 40 hexadecimal digits"))
  }

  @Test("USB, Wi-Fi or both, and only one of these")
  func connections() throws {
    #expect(try runOptions("--usb-only 1:2").connections == .usbOnly)
    #expect(try runOptions("--network 1:2").connections == .usbPreferred)
    #expect(try runOptions("--network-only 1:2").connections == .networkOnly)
    #expect(try runOptions("--network --network 1:2").connections == .usbPreferred)
    for line in ["--usb-only --network-only 1:2", "--network --usb-only 1:2", "--network-only --network 1:2"]
    {
      #expect(usageError(line).contains("exclude each other"))
    }
  }

  @Test("Transports by name")
  func transports() throws {
    #expect(try runOptions("--transport auto 1:2").transport == .auto(usbmuxd: nil))
    #expect(try runOptions("--transport usbmuxd 1:2").transport == .usbmuxd(nil))
    #expect(try runOptions("--transport=usb 1:2").transport == .usb)
    #expect(try runOptions("--transport=simulated 1:2").transport == .simulated(SimulationOptions()))
    #expect(usageError("--transport simulate 1:2").contains("did you mean simulated?"))
    #expect(usageError("--transport carrier-pigeon 1:2").contains("one of auto, usbmuxd, usb, simulated"))
    usageError(["--transport=", "1:2"])
  }

  @Test("The usbmuxd of the option goes over the one of the environment")
  func usbmuxd() throws {
    let option = try DaemonAddress(parsing: "UNIX:/option")
    let variable = try DaemonAddress(parsing: "host:27015")
    #expect(try runOptions("1:2", environment: "host:27015").transport == .auto(usbmuxd: variable))
    for environment in [nil, "host:27015", "host:", ""] {
      let line = "--usbmuxd UNIX:/option 1:2"
      #expect(try runOptions(line, environment: environment).transport == .auto(usbmuxd: option))
    }
    #expect(
      try runOptions("--transport usbmuxd 1:2", environment: "host:27015").transport == .usbmuxd(variable)
    )
  }

  @Test("The environment does not matter to a transport that uses no usbmuxd")
  func usbmuxdUnused() throws {
    #expect(try runOptions("--transport usb 1:2", environment: "host:").transport == .usb)
    for name in ["usb", "simulated"] {
      #expect(usageError("--transport \(name) --usbmuxd /x 1:2").contains("leave out --usbmuxd"))
    }
  }

  @Test(
    "A malformed address is a mistake and never the default in silence",
    arguments: [
      "", "UNIX:", ":", "host:", "host:0", "::1:27015", "[::1]", "/a:b",
      "/" + String(repeating: "a", count: 200),
    ]
  )
  func badAddresses(text: String) {
    #expect(usageError(["--usbmuxd=\(text)", "1:2"]).contains("--usbmuxd"))
    for line in ["1:2", "--transport usbmuxd 1:2", "devices"] {
      #expect(usageError(line, environment: text).contains("USBMUXD_SOCKET_ADDRESS"))
    }
    #expect(usageError("1:2", as: "iproxy", environment: text).contains("USBMUXD_SOCKET_ADDRESS"))
  }

  @Test("A malformed address is told apart from others where the fix differs")
  func addressFixes() {
    #expect(usageError("--usbmuxd /a:b 1:2").hasSuffix("write UNIX: before a path with a colon"))
    #expect(usageError("--usbmuxd ::1:2 1:2").hasSuffix("write a v6 address as [ADDRESS]:PORT"))
    #expect(usageError("--usbmuxd host:x 1:2").hasSuffix("a port from 1 to 65535"))
    #expect(usageError("--usbmuxd host: 1:2").contains("--usbmuxd 'host:' is no usbmuxd address"))
  }

  @Test("Times are decimal seconds up to a day")
  func times() throws {
    #expect(try runOptions("--wait 0 1:2").timeouts.wait == .zero)
    #expect(try runOptions("--wait=2.5 1:2").timeouts.wait == .milliseconds(2500))
    #expect(try runOptions("--half-close-timeout 86400 1:2").timeouts.halfClose == .seconds(86400))
    #expect(try runOptions("--connect-timeout 0.000000001 1:2").timeouts.connect == .nanoseconds(1))
    #expect(try runOptions("--drain 0.3 1:2").timeouts.drain == .milliseconds(300))
    #expect(try runOptions("--drain 86399.999999999 1:2").timeouts.drain < .seconds(86400))
    for option in ["--wait", "--half-close-timeout", "--connect-timeout", "--drain"] {
      for text in [
        "", "-1", "+1", "5s", "1e3", "inf", "nan", "0x10", ".5", "5.", "1.2.3", "86400.000000001", "86401",
        "9223372036854775808", "99999999999999999999", "0.0000000001", " 1",
      ] {
        #expect(usageError(["\(option)=\(text)", "1:2"]).contains(option))
      }
    }
    #expect(usageError("--connect-timeout 0 1:2").contains("no time to connect"))
    #expect(usageError("--wait 1 --wait 2 1:2").contains("--wait is given twice"))
  }

  @Test("Counts, one below, at and above their limits")
  func counts() throws {
    #expect(try runOptions("--max-connections 1 1:2").maximumConnections == 1)
    #expect(try runOptions("--max-connections 1000000 1:2").maximumConnections == 1_000_000)
    for text in ["0", "1000001", "-1", "", "x", "99999999999999999999"] {
      #expect(usageError(["--max-connections=\(text)", "1:2"]).contains("write 1 to 1000000"))
    }
    for count in [0, 1, 256] {
      let line = "--transport simulated --simulated-devices \(count) 1:2"
      #expect(try runOptions(line).transport == .simulated(SimulationOptions(devices: count)))
    }
    #expect(usageError("--transport simulated --simulated-devices 257 1:2").contains("write 0 to 256"))
  }

  @Test("Services of the simulated phone")
  func simulation() throws {
    let line =
      "--transport simulated --simulate 7=discard --simulate 8765=http --simulate=1=echo --simulate 2=chargen"
      + " --simulate 3=127.0.0.1:80 --simulate 4=[::1]:80 --simulate 5=localhost:65535 --simulate 6=127.0.0.2:1 1:2"
    let services: [UInt16: SimulatedServiceChoice] = [
      7: .discard, 8765: .http, 1: .echo, 2: .chargen, 3: .loopback(host: "127.0.0.1", port: 80),
      4: .loopback(host: "::1", port: 80), 5: .loopback(host: "localhost", port: 65535),
      6: .loopback(host: "127.0.0.2", port: 1),
    ]
    #expect(try runOptions(line).transport == .simulated(SimulationOptions(services: services)))
  }

  @Test(
    "What the simulated phone does not serve, servers outside this machine above all",
    arguments: [
      "", "80", "=", "80=", "=echo", "0=echo", "65536=echo", "80=ftp", "80=8080", "80=127.0.0.1",
      "80=127.0.0.1:0",
      "80=127.0.0.1:65536", "80=192.0.2.1:80", "80=example.com:80", "80=0.0.0.0:80", "80=[::]:80",
      "80=::1:80",
      "80=127.example.com:80", "80=128.0.0.1:80",
    ]
  )
  func badSimulation(text: String) {
    #expect(usageError(["--transport", "simulated", "--simulate=\(text)", "1:2"]).contains("--simulate"))
  }

  @Test("Simulation is never switched on by accident, nor a service replaced by another")
  func simulationNeedsTransport() {
    #expect(usageError("--simulate 80=http 1:2").contains("add --transport simulated"))
    #expect(usageError("--simulated-devices 2 --transport usbmuxd 1:2").contains("add --transport simulated"))
    #expect(
      usageError("--transport simulated --simulate 8=http --simulate 8=echo 1:2").contains("port 8 twice"))
  }

  @Test("How much is logged")
  func verbosity() throws {
    #expect(try runOptions("-v 1:2").verbosity == 1)
    #expect(try runOptions("-vv 1:2 --verbose").verbosity == 3)
    #expect(try runOptions("-q 1:2").verbosity == -1)
    #expect(usageError("-q -v 1:2").contains("exclude each other"))
    #expect(usageError("-vq 1:2").contains("exclude each other"))
  }
}
