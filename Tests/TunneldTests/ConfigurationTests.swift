import MuxProtocol
import Testing
import USBMux

@testable import tunneld

/// The options of a command line with this configuration file, `t.conf`.
func configured(_ text: String, _ line: String = "-c t.conf") throws -> RunOptions {
  let words = line.split(separator: " ").map(String.init)
  let files = ConfigurationReader { path in path == "t.conf" ? Array(text.utf8) : nil }
  let invocation = try Invocation(
    arguments: ["tunneld"] + words, environment: CommandEnvironment(), files: files)
  guard case .run(let options) = invocation else {
    Issue.record("\(line) does not run")
    throw CancellationError()
  }
  return options
}

func problems(_ text: String, _ line: String = "check-config -c t.conf") -> [String] {
  let files = ConfigurationReader { path in path == "t.conf" ? Array(text.utf8) : nil }
  do {
    let invocation = try Invocation(
      arguments: ["tunneld"] + line.split(separator: " ").map(String.init),
      environment: CommandEnvironment(), files: files)
    guard case .checkConfiguration(let options) = invocation else { return [] }
    return options.problems.map(\.description)
  } catch {
    return ["\(error)"]
  }
}

@Suite("The configuration file")
struct ConfigurationTests {
  @Test("A daemon and forwards, each with what it has of its own")
  func whole() throws {
    let options = try configured(
      """
      # comment
      ; another
      [daemon]
      transport = simulated
      simulate = 8765=http 9=discard
      udid = 00008110
      wait = 2
      max-connections = 50
      log-level = info
      log-format = json
      capture = /var/lib/tunneld/a.pcapng
      redact-udids = yes
      control-socket = /tmp/c.sock
      control-socket-mode = 600

      [forward web]
        local = 8765   ; inline
        device-port = 8765
      [forward other.phone]
      local=[::1]:2222
      device-port=22
      udid=00008030
      network = yes
      wait = 0.5
      connect-timeout = 3
      half-close-timeout = 4
      max-connections = 7
      """)
    #expect(options.configuration == "t.conf")
    #expect(options.control == ControlOptions(path: "/tmp/c.sock", mode: 0o600))
    #expect(options.log == LogOptions(level: .info, format: .json, redactsUDIDs: true))
    #expect(options.capture == "/var/lib/tunneld/a.pcapng")
    #expect(options.maximumConnections == 50)
    guard case .simulated(let simulation) = options.transport else { return #expect(Bool(false)) }
    #expect(simulation.services == [8765: .http, 9: .discard])

    #expect(options.forwards.map(\.name) == ["web", "other.phone"])
    let web = options.forwardOptions(for: options.forwards[0])
    #expect(options.forwards[0].local == .tcp(.localhost, port: 8765))
    #expect(web.device.udid?.description == "00008110")
    #expect(web.wait == .seconds(2) && web.connectTimeout == .seconds(10))
    #expect(web.device.ways == .usb && web.maximumConnections == nil)
    let other = options.forwardOptions(for: options.forwards[1])
    #expect(options.forwards[1].local == .tcp(.address("::1"), port: 2222))
    #expect(other.device.udid?.description == "00008030" && other.device.ways == .usbThenNetwork)
    #expect(other.wait == .milliseconds(500) && other.connectTimeout == .seconds(3))
    #expect(other.halfCloseTimeout == .seconds(4) && other.maximumConnections == 7)
  }

  @Test("A file with a control socket at its standard place, or none")
  func control() throws {
    let options = try configured("[daemon]\nwait=1\n")
    #expect(options.control == ControlOptions(path: ControlOptions.standardPath, isStandard: true))
    #expect(try configured("[daemon]\ncontrol-socket = none\n").control == nil)
    #expect(try configured("").forwards.isEmpty, "forwards may be added later")
    #expect(try configured("[daemon]\n# wait = 1\n").forwards.isEmpty)
  }

  @Test("The command line goes over the file")
  func overriding() throws {
    let file = """
      [daemon]
      transport = simulated
      simulate = 7=http
      any = yes
      wait = 9
      log-level = debug
      [forward a]
      local = 1000
      device-port = 1
      [forward b]
      local = 1001
      device-port = 2
      """
    let options = try configured(file, "-c t.conf --wait 1 --udid 00008110 --transport usbmuxd -q 1000:5")
    #expect(options.timeouts.wait == .seconds(1))
    #expect(options.device == .udid(try UDIDPrefix(parsing: "00008110")))
    #expect(options.transport == .usbmuxd(nil))
    #expect(options.logLevel == .error)
    #expect(options.forwards.map(\.devicePort) == [5, 2], "its forward has the place of the file's")
    #expect(options.forwards.map(\.name) == [nil, "b"])
  }

  @Test(
    "What is wrong is told with its line and what was probably meant",
    arguments: [
      ("x = 1", "t.conf:1: 'x' stands before the first section"),
      ("[daemon]\ntransprot = usb", "t.conf:2: unknown key 'transprot' in [daemon]: did you mean transport?"),
      ("[daemon]\nlocal = 1", "t.conf:2: unknown key 'local' in [daemon]: it belongs in [forward NAME]"),
      ("[daemon]\nwait = x", "t.conf:2: wait 'x' is no time"),
      ("[daemon]\nany = perhaps", "t.conf:2: any 'perhaps' is neither yes nor no"),
      ("[daemon]\nwait = 1\nwait = 2", "t.conf:3: wait is given twice (first in line 2)"),
      ("[daemon]\nlog-level = loud", "t.conf:2: log-level 'loud' is no level"),
      ("[daemon]\ncaptrue = a", "t.conf:2: unknown key 'captrue' in [daemon]: did you mean capture?"),
      (
        "[forward a]\nlocal = 1\ndevice-port = 1\ncapture = a",
        "t.conf:4: unknown key 'capture' in [forward a]: it belongs in [daemon]"
      ),
      ("[deamon]\nwait = 1", "t.conf:2: there is no section 'deamon': did you mean [daemon]?"),
      ("[forwards x]\nlocal = 1", "did you mean [forward NAME]?"),
      ("[forward]\nlocal = 1", "t.conf:2: 'forward' has no usable name"),
      ("[forward a/b]\nlocal = 1", "has no usable name"),
      ("[forward a]\nlocal = 1", "t.conf:2: [forward a]: it has no port on the phone: add device-port"),
      ("[forward a]\ndevice-port = 1", "[forward a]: it has no local end: add local"),
      ("[forward a]\nlocal = 70000\ndevice-port = 1", "t.conf:2: '70000' in local is no local port"),
      ("[forward a]\nlocal = 1\ndevice-port = 0", "t.conf:3: '0' in device-port is no port of the phone"),
      (
        "[forward a]\nlocal = 1\ndevice-port = 1\nwiat = 1",
        "t.conf:4: unknown key 'wiat' in [forward a]: did you mean wait?"
      ),
      (
        "[forward a]\nlocal = 1\ndevice-port = 1\n[forward b]\nlocal = 127.0.0.1:1\ndevice-port = 2",
        "t.conf:5: [forward b]: '127.0.0.1:1' is the local end of [forward a] already"
      ),
      (
        "[forward a]\nlocal = 1\ndevice-port = 1\n[forward a]\nlocal = 2\ndevice-port = 2",
        "t.conf:5: there are two sections [forward a]"
      ),
      ("[forward a]\n[daemon]\nwait = 1", "t.conf:1: the section is empty"),
      ("[daemon]\nwait = 1\n[forward z]", "t.conf:3: the section is empty"),
      ("[daemon]\nwait", "t.conf:2: this is no setting"),
      ("[daemon\nwait = 1", "t.conf:1: this is no setting"),
      ("[daemon]\nany = yes\nudid = 00", "t.conf:2: --any and --udid exclude each other"),
      ("[daemon]\nsimulate = 7=echo", "t.conf:2: --simulate needs simulated phones"),
      (
        "[forward a]\nlocal = 1\ndevice-port = 1\nany = yes\nudid = 00",
        "[forward a]: --any and --udid exclude"
      ),
      ("[daemon]\nwait = \u{1}\u{2}", "wait '"),
    ] as [(String, String)])
  func mistakes(text: String, message: String) {
    let found = problems(text)
    #expect(found.count == 1 && found[0].contains(message), "\(found)")
    #expect(found.allSatisfy { $0.unicodeScalars.allSatisfy { $0.value >= 0x20 } && $0.count < 400 })
    #expect(throws: UsageError.self) { try configured(text) }
  }

  @Test("All mistakes are told, in the order of their lines")
  func several() {
    let found = problems("[daemon]\nwait = x\nwiat = 1\n[forward a]\nlocal = x\ndevice-port = 1\nnonsense\n")
    #expect(found.count == 4, "\(found)")
    #expect(
      found.compactMap { $0.split(separator: ":").dropFirst().first.flatMap { Int($0) } } == [2, 3, 5, 7])
  }

  @Test("Lines, names and files have limits, one below, at and one above")
  func limits() throws {
    let key = "lockdown-dir = /"
    let head = "[daemon]\nusbmuxd-socket = /tmp/x\n"
    for (length, isSound) in [(197, true), (198, true), (199, false)] {
      let line = key + String(repeating: "d", count: length - key.utf8.count)
      #expect(problems(head + line + "\n").isEmpty == isSound, "\(length)")
    }
    for (length, isSound) in [(39, true), (40, true), (41, false), (60, false)] {
      let name = String(repeating: "n", count: length)
      #expect(
        problems("[forward \(name)]\nlocal = 1\ndevice-port = 1\n").isEmpty == isSound, "\(length)")
    }
    for (size, isSound) in [
      (INIFile.maximumSize - 1, true), (INIFile.maximumSize, true), (INIFile.maximumSize + 1, false),
    ] {
      #expect(problems(String(repeating: "\n", count: size)).isEmpty == isSound)
    }
  }

  @Test("Line ends, indentation, a byte order mark and a missing last line end")
  func layouts() throws {
    for text in [
      "\u{feff}[forward a]\r\n\tlocal = 5\r\n  device-port = 6", "[forward a]\nlocal: 5\ndevice-port: 6\n\n",
    ] {
      #expect(try configured(text).forwards.map(\.devicePort) == [6])
    }
    #expect(!problems("[daemon]\nwait = 1\0\n").isEmpty)
  }

  @Test("Random files are never fatal", arguments: 0..<10 as Range<UInt64>)
  func garbage(seed: UInt64) {
    var state = seed &* 0x2545_f491_4f6c_dd1d &+ 99
    let words = [
      "[daemon]", "[forward a]", "[", "]", "=", " ", "\n", "wait", "local", "1", "x", ";", "#", "\t", "é",
      "\0",
    ]
    for _ in 0..<200 {
      var text = ""
      for _ in 0..<30 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        text += words[Int(state >> 33) % words.count]
      }
      for problem in problems(text) { #expect(!problem.contains("\n"), "seed \(seed)") }
    }
  }

  @Test("Which file is read")
  func which() throws {
    let standard = ConfigurationReader { path in
      path == ConfigurationFile.standardPath ? Array("[forward s]\nlocal=1\ndevice-port=2\n".utf8) : nil
    }
    func options(_ words: [String]) throws -> RunOptions? {
      let invocation = try Invocation(
        arguments: ["tunneld"] + words, environment: CommandEnvironment(), files: standard)
      if case .run(let options) = invocation { return options }
      return nil
    }
    #expect(try options([])?.configuration == ConfigurationFile.standardPath)
    #expect(try options(["-v"])?.forwards.count == 1)
    #expect(try options(["5:6"])?.configuration == nil, "a forward by hand is not the service")
    #expect(try options(["--usbmuxd-socket", "/tmp/s"])?.configuration == nil)
    #expect(throws: UsageError.self) { try options(["-c", "missing"]) }
    #expect(usageError("").contains("nothing to forward"))
    #expect(usageError("check-config").contains("there is no file"))
  }
}
