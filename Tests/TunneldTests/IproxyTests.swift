import MuxProtocol
import Testing

@testable import tunneld

/// What iproxy 2.0.2 takes and refuses was seen by running it.
@Suite("The command line of iproxy")
struct IproxyTests {
  static let udid = OptionTests.udid

  func options(_ line: String) throws -> RunOptions { try runOptions(line, as: "iproxy") }
  func mistake(_ words: [String]) -> String { usageError(words, as: "iproxy") }

  @Test("The name alone decides, by whatever path", arguments: ["iproxy", "/usr/bin/iproxy", "./x/iproxy"])
  func name(program: String) throws {
    let options = try runOptions("2222:22", as: program)
    #expect(options == RunOptions(forwards: [.localhost(2222, 22)], device: .any, announcement: .iproxy))
  }

  @Test("Other names are tunneld", arguments: ["tunneld", "iproxy2", "/opt/iproxy/tunneld", "my-iproxy", ""])
  func otherName(program: String) throws {
    #expect(try runOptions("2222:22", as: program).announcement == .tunneld)
  }

  @Test("An empty argument list is tunneld without arguments")
  func noName() {
    #expect(throws: UsageError.self) {
      try Invocation(arguments: [], environment: CommandEnvironment(usbmuxdSocketAddress: nil))
    }
  }

  @Test("Pairs, options in every spelling of getopt_long, in any order")
  func pairs() throws {
    let device = DeviceChoice.udid(try UDIDPrefix(parsing: Self.udid))
    for line in [
      "-u \(Self.udid) 1:2 3:4", "-u\(Self.udid) 1:2 3:4", "--udid \(Self.udid) 1:2 3:4",
      "--udid=\(Self.udid) 1:2 3:4", "--ud \(Self.udid) 1:2 3:4", "1:2 3:4 -u \(Self.udid)",
      "1:2 -du \(Self.udid) 3:4", "-u 00 -u \(Self.udid) -- 1:2 3:4",
    ] {
      let options = try options(line)
      #expect(options.device == device)
      #expect(options.forwards == [.localhost(1, 2), .localhost(3, 4)])
    }
  }

  @Test("The old form LOCAL DEVICE [UDID]")
  func oldForm() throws {
    #expect(try options("2222 22").forwards == [.localhost(2222, 22)])
    #expect(try options("2222 22").device == .any)
    let device = DeviceChoice.udid(try UDIDPrefix(parsing: Self.udid))
    #expect(try options("2222 22 \(Self.udid)").device == device)
    #expect(try options("2222 22 \(Self.udid)").forwards == [.localhost(2222, 22)])
    #expect(try options("2222 22 -u \(Self.udid)").device == device)
    #expect(try options("2222 22 \(Self.udid) -u \(Self.udid)").device == device)
    #expect(mistake(["2222", "22", Self.udid, "-u", "00"]).contains("two different UDIDs"))
    #expect(mistake(["2222", "22", "phone"]).contains("the third argument 'phone' is no UDID"))
    for words in [
      ["2222"], ["2222", "22", "00", "1"], ["2222:22", "22"], ["2222", "22:22"], ["80x", "22"], ["", "22"],
    ] {
      _ = mistake(words)
    }
  }

  @Test("USB unless -n, Wi-Fi with -n, either with both")
  func connections() throws {
    #expect(try options("1:2").connections == .usbOnly)
    #expect(try options("-l 1:2").connections == .usbOnly)
    #expect(try options("-n 1:2").connections == .networkOnly)
    #expect(try options("--network 1:2").connections == .networkOnly)
    #expect(try options("-nl 1:2").connections == .usbPreferred)
    #expect(try options("--local --network 1:2").connections == .usbPreferred)
  }

  @Test("-s is the address of every listener, loopback without it")
  func source() throws {
    #expect(try options("-s 0.0.0.0 1:2").forwards == [.address("0.0.0.0", 1, 2)])
    #expect(try options("--source=::1 1:2").forwards == [.address("::1", 1, 2)])
    #expect(try options("1 2 -s 127.0.0.1").forwards == [.address("127.0.0.1", 1, 2)])
    #expect(try options("-s localhost 1:2").forwards == [.localhost(1, 2)])
    #expect(mistake(["-s", "", "1:2"]).contains("--source"))
    #expect(mistake(["-s", "junk", "1:2"]).contains("'junk' in --source"))
  }

  @Test("-d logs more, -v is the version and -h the help, as with iproxy")
  func lettersOfIproxy() throws {
    #expect(try options("-d 1:2").verbosity == 1)
    #expect(try options("-ddd --debug 1:2").verbosity == 4)
    for words in [["-v"], ["--version"], ["--vers"], ["1:2", "-v"]] {
      #expect(try parse(words, as: "iproxy") == .version("iproxy \(ProgramVersion.number) (tunneld)"))
    }
    for words in [["-h"], ["--help"], ["--he"]] {
      #expect(try parse(words, as: "iproxy") == .help(HelpText.iproxy))
    }
  }

  @Test("Options of tunneld are not options of iproxy")
  func strayOptions() {
    for option in [
      "--any", "--wait=1", "--transport=usb", "--device-port=1", "--json", "-q", "-x", "--serial=00",
    ] {
      #expect(mistake([option, "1:2"]).contains("unknown option"))
    }
    #expect(mistake(["--foo", "1:2"]).hasSuffix("see iproxy --help"))
    #expect(mistake(["devices"]).contains("no pair of ports"))
  }

  @Test("What iproxy refuses, and the ports that it silently cuts to 16 bits")
  func mistakes() {
    for words in [
      [], ["-u"], ["-u", "", "1:2"], ["abc:22"], [":22"], ["1:"], ["1:22x"], ["1:22:33"], ["1", "0"],
      ["65558:22"], ["70000:22"], ["1:70000"], ["-1:22"], ["1:2", "1:3"],
    ] {
      _ = mistake(words)
    }
    #expect(mistake([]).contains("write LOCAL_PORT:DEVICE_PORT"))
  }

  @Test("Port 0 takes a free local port")
  func portZero() throws {
    #expect(try options("0:22").forwards == [.localhost(0, 22)])
  }

  @Test("The usbmuxd of the environment")
  func environment() throws {
    let address = try DaemonAddress(parsing: "UNIX:/x")
    #expect(try runOptions("1:2", as: "iproxy", environment: "UNIX:/x").transport == .auto(usbmuxd: address))
  }
}
