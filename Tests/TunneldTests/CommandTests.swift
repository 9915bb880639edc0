import MuxProtocol
import Testing

@testable import tunneld

@Suite("Commands, help, version and the shape of mistakes")
struct CommandTests {
  @Test("tunneld devices")
  func devices() throws {
    #expect(try devicesOptions("devices") == DevicesOptions())
    #expect(try devicesOptions("devices").connections == .usbPreferred, "a listing hides nothing")
    let options = try devicesOptions("--json devices --watch --usb-only --transport usb -v")
    let expected = DevicesOptions(
      json: true, watch: true, connections: .usbOnly, transport: .usb, verbosity: 1)
    #expect(options == expected)
    let variable = try DaemonAddress(parsing: "/x")
    #expect(try devicesOptions("devices", environment: "/x").transport == .auto(usbmuxd: variable))
  }

  @Test("Options that belong to the other command are mistakes")
  func strayOptions() {
    #expect(usageError("--json 1:2").contains("write tunneld devices --json"))
    #expect(usageError("1:2 --watch").contains("write tunneld devices --watch"))
    for option in [
      "--local=1", "--udid=0", "--any", "--wait=1", "--bind=::", "--drain=1", "--max-connections=1",
    ] {
      #expect(usageError("devices \(option)").contains("has no meaning for devices"))
    }
    #expect(usageError("devices 1:2").contains("unexpected argument '1:2'"))
    #expect(usageError("devices devices").contains("unexpected argument 'devices'"))
    #expect(usageError("1:2 devices").contains("'devices' is no pair of ports"))
  }

  @Test("A command that is nearly right")
  func nearCommand() {
    for word in ["device", "devcies", "dev", "Devices"] {
      #expect(usageError(word).contains("did you mean devices?"))
    }
    #expect(usageError("frobnicate").contains("no pair of ports"))
  }

  @Test("Help and version, whatever else is missing")
  func helpAndVersion() throws {
    for line in [["--help"], ["-h"], ["-vh"], ["--udid", "0", "--help"], ["--help", "--nonsense"]] {
      #expect(try parse(line) == .help(HelpText.tunneld))
    }
    #expect(try parse(["devices", "--help"]) == .help(HelpText.devices))
    #expect(try parse(["--version"]) == .version("tunneld \(ProgramVersion.number)"))
    #expect(try parse(["--version"], environment: "broken:") == .version("tunneld \(ProgramVersion.number)"))
  }

  @Test("Help names every option, and no line is wider than a terminal of 110 columns")
  func helpIsComplete() {
    for option in TunneldOption.allCases {
      let texts = option.commands.map(\.help)
      for text in texts {
        for name in option.longNames
        where !(text != HelpText.tunneld && ["verbose", "serial", "version"].contains(name)) {
          #expect(text.contains("--\(name)"), "\(text)")
        }
        if let letter = option.shortName { #expect(text.contains("-\(letter)")) }
      }
    }
    for option in IproxyOption.allCases {
      #expect(option.longNames.allSatisfy { HelpText.iproxy.contains("--\($0)") })
    }
    for text in TunneldCommand.Name.allCases.map(\.help) + [HelpText.iproxy] {
      #expect(text.split(separator: "\n").allSatisfy { $0.count <= 110 })
    }
  }

  @Test(
    "An unknown option names its nearest neighbour",
    arguments: [
      ("--locl", "--local"), ("--lcoal", "--local"), ("--udi", "--udid"), ("--uuid", "--udid"),
      ("--device_port", "--device-port"), ("--deviceport", "--device-port"),
      ("--Verbose", "--verbose"), ("--transprot", "--transport"),
      ("--halfclose-timeout", "--half-close-timeout"),
      ("--max-conections", "--max-connections"), ("--networkonly", "--network-only"),
    ]
  )
  func nearestOption(typed: String, meant: String) {
    #expect(usageError([typed, "1:2"]) == "unknown option '\(typed)': did you mean \(meant)?")
  }

  @Test(
    "Where nothing is near, no guess is better than a wrong one", arguments: ["--port", "--x", "--proxy"])
  func noNearestOption(typed: String) {
    #expect(usageError([typed, "1:2"]) == "unknown option '\(typed)': see tunneld --help")
  }

  @Test("Beginnings of names are not options of tunneld")
  func noAbbreviations() {
    #expect(usageError("--verb 1:2").contains("did you mean --verbose?"))
    #expect(usageError("-x 1:2").contains("unknown option '-x': see tunneld --help"))
    #expect(usageError("-1 1:2").contains("unknown option '-1'"))
  }

  @Test("Missing and superfluous values")
  func values() {
    #expect(usageError("1:2 --udid").contains("--udid needs a value: write --udid UDID"))
    #expect(usageError("1:2 -u").contains("-u needs a value: write -u UDID"))
    #expect(usageError("--local --device-port 1").contains("--local needs a value"))
    #expect(usageError("--any=yes 1:2").contains("--any takes no value: write --any alone"))
    usageError("- 1:2")
    usageError(["", "1:2"])
    usageError(["--=", "1:2"])
    usageError(["---", "1:2"])
  }

  @Test("What a mistake quotes cannot break the line, disguise it or fill a terminal")
  func quoting() {
    #expect("a\nb\u{1b}[31m\u{202e}\0".quoted == #"'a\nb\u{1B}[31m\u{202E}\0'"#)
    #expect("é日本".quoted == "'é日本'")
    #expect(String(repeating: "x", count: 80).quoted == "'" + String(repeating: "x", count: 80) + "'")
    #expect(String(repeating: "x", count: 81).quoted == "'" + String(repeating: "x", count: 80) + "...'")
    let combining = "e" + String(repeating: "\u{301}", count: 5_000)
    #expect(combining.quoted.unicodeScalars.count < 100, "one character, however many scalars")
    usageError(["--\u{1b}]0;title\u{7}\n", "1:2"])
    usageError([String(repeating: "9", count: 100_000) + ":1"])
    usageError(["--" + String(repeating: "y", count: 100_000)])
  }

  @Test("No list of words stops the program in any other way than with a mistake")
  func chaos() {
    let seed = UInt64.random(in: 0 ... .max)
    var generator = SplitMix(state: seed)
    let pieces =
      TunneldOption.allLongNames.map { "--" + $0 } + IproxyOption.allLongNames.map { "--" + $0 }
      + [
        "-", "--", "=", ":", "[", "]", "%", "unix:", "0", "1", "65535", "65536", "8765:8765", "-u", "-v", "",
        "é", "\0",
      ]
      + ["devices", "127.0.0.1", "::1", "localhost", "echo", ".", "\n", "UNIX:", "simulated", "00008110-"]
    for _ in 0..<5_000 {
      let words = (0..<Int.random(in: 0...6, using: &generator)).map { _ in
        (0..<Int.random(in: 0...3, using: &generator))
          .map { _ in pieces.randomElement(using: &generator) ?? "" }.joined()
      }
      for program in ["tunneld", "iproxy"] {
        do {
          _ = try parse(words, as: program, environment: pieces.randomElement(using: &generator))
        } catch let error as UsageError {
          #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 0x20 }, "seed \(seed): \(words)")
        } catch {
          Issue.record("seed \(seed): \(words): \(error)")
        }
      }
    }
  }
}

/// A small generator with a seed that can be printed.
private struct SplitMix: RandomNumberGenerator {
  var state: UInt64

  mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    var value = state
    value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
    value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
    return value ^ (value >> 31)
  }
}
