import MuxProtocol
import Testing

@testable import tunneld

@Suite("Forwards on the command line")
struct ForwardArgumentTests {
  @Test("--local and --device-port make one forward")
  func options() throws {
    let options = try runOptions("--local 8765 --device-port 8766")
    #expect(options == RunOptions(forwards: [.localhost(8765, 8766)]))
  }

  @Test("Each --local goes with the --device-port at the same place in the order")
  func severalOptions() throws {
    let expected: [ForwardOptions] = [.localhost(1, 11), .localhost(2, 12)]
    #expect(try runOptions("--local 1 --device-port 11 --local 2 --device-port 12").forwards == expected)
    #expect(try runOptions("--local 1 --local 2 --device-port 11 --device-port 12").forwards == expected)
    #expect(try runOptions("--device-port=11 --local=1 --device-port=12 --local=2").forwards == expected)
  }

  @Test("Pairs, alone and beside options")
  func pairs() throws {
    #expect(try runOptions("8765:8765 2222:22").forwards == [.localhost(8765, 8765), .localhost(2222, 22)])
    #expect(
      try runOptions("2222:22 --local 1 --device-port 2").forwards == [
        .localhost(1, 2), .localhost(2222, 22),
      ])
    #expect(try runOptions("-- 2222:22").forwards == [.localhost(2222, 22)])
  }

  @Test(
    "Local ends",
    arguments: [
      ("8765", .tcp(.localhost, port: 8765)),
      ("0", .tcp(.localhost, port: 0)),
      ("localhost:80", .tcp(.localhost, port: 80)),
      ("LocalHost:80", .tcp(.localhost, port: 80)),
      ("127.0.0.1:80", .tcp(.address("127.0.0.1"), port: 80)),
      ("0.0.0.0:0", .tcp(.address("0.0.0.0"), port: 0)),
      ("[::1]:80", .tcp(.address("::1"), port: 80)),
      ("[::]:65535", .tcp(.address("::"), port: 65535)),
      ("[fe80::1%eth0]:80", .tcp(.address("fe80::1%eth0"), port: 80)),
      ("unix:/run/app.sock", .unix(path: "/run/app.sock")),
      ("UNIX:/run/app.sock", .unix(path: "/run/app.sock")),
      ("unix:a:b", .unix(path: "a:b")),
    ] as [(String, LocalEndpoint)]
  )
  func localEnds(text: String, expected: LocalEndpoint) throws {
    #expect(try runOptions("--local \(text) --device-port 1").forwards.first?.local == expected)
    #expect(try runOptions("\(text):1").forwards.first?.local == expected, "as the first half of a pair")
  }

  @Test(
    "What is no local end",
    arguments: [
      "", ":", ":80", "80:", "x", "-1", "+1", " 80", "80 ", "8x", "0x50", "1e3", "65536", "70000",
      "4294967376",
      "18446744073709551696", "٣٣", "example.com:80", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
      "127.1:80", "256.0.0.1:80", "::1:80", "[::1]", "[::1]80", "[::1:80", "[127.0.0.1]:80", "[]:80",
      "[fe80::1%]:80", "[::g]:80", "*:80", "unix:", "http://127.0.0.1:80",
    ]
  )
  func badLocalEnds(text: String) {
    let line = usageError(["--local=\(text)", "--device-port", "1"])
    #expect(line.contains("--local"))
  }

  @Test("A local port is 0 to 65535, a device port 1 to 65535")
  func portLimits() throws {
    #expect(try runOptions("0:1").forwards == [.localhost(0, 1)])
    #expect(try runOptions("65535:65535").forwards == [.localhost(65535, 65535)])
    #expect(
      try runOptions("08765:022").forwards == [.localhost(8765, 22)], "decimal, whatever it begins with")
    for pair in ["65536:1", "1:65536", "1:0", "1:-1", "65558:22", "1:", ":1", ":", "1:2x", "1:2:3", "1: 2"] {
      usageError([pair])
    }
    #expect(usageError("1:0").contains("'0' in '1:0' is no port of the phone: write 1 to 65535"))
    for port in ["0", "65536", "-1", "", "22x", "ssh"] {
      #expect(usageError(["--local", "1", "--device-port=\(port)"]).contains("--device-port"))
    }
  }

  @Test("The path of a Unix socket has the length that the kernel takes")
  func unixPathLimits() throws {
    let longest = "/" + String(repeating: "a", count: DaemonAddress.maximumPathLength - 1)
    let shorter = String(longest.dropLast())
    for path in [shorter, longest] {
      #expect(try runOptions("unix:\(path):1").forwards.first?.local == .unix(path: path))
    }
    #expect(usageError("unix:\(longest)a:1").contains("\(DaemonAddress.maximumPathLength) bytes"))
    #expect(usageError(["--local", "unix:/a\0b", "--device-port", "1"]).contains("no usable path"))
  }

  @Test("--bind gives an address to the local ports that have none, wherever it stands")
  func bind() throws {
    let expected: [ForwardOptions] = [.address("0.0.0.0", 1, 2), .address("::1", 3, 4)]
    #expect(try runOptions("--bind 0.0.0.0 1:2 [::1]:3:4").forwards == expected)
    #expect(try runOptions("1:2 [::1]:3:4 --bind=0.0.0.0").forwards == expected)
    #expect(try runOptions("--bind :: 1:2").forwards == [.address("::", 1, 2)])
    #expect(try runOptions("--bind [::] 1:2").forwards == [.address("::", 1, 2)])
    #expect(try runOptions("--bind localhost 1:2").forwards == [.localhost(1, 2)])
    for address in ["", "*", "host", "1.2.3", "127.0.0.1:80", "[127.0.0.1]", "unix:/x"] {
      #expect(usageError(["--bind=\(address)", "1:2"]).contains("--bind"))
    }
  }

  @Test("The same local end twice is a mistake that names the earlier forward")
  func clashes() throws {
    #expect(usageError("8765:22 8765:23").contains("'localhost:8765' is already forwarded to device port 22"))
    for line in [
      "--local 1 --device-port 2 1:3", "1:2 127.0.0.1:1:3", "[::1]:1:2 1:3", "0.0.0.0:1:2 0.0.0.0:1:3",
      "unix:/x:2 unix:/x:3",
    ] {
      #expect(usageError(line).contains("already forwarded"))
    }
    for line in [
      "0:22 0:22", "127.0.0.1:1:2 127.0.0.2:1:2", "127.0.0.1:1:2 [::1]:1:2", "1:2 unix:1:2", "1:2 3:2",
    ] {
      #expect(try runOptions(line).forwards.count == 2)
    }
  }

  @Test("Halves of forwards and no forward at all")
  func incomplete() {
    #expect(usageError("--local 1").contains("a --device-port is missing"))
    #expect(usageError("--device-port 1").contains("a --local is missing"))
    #expect(usageError("--local 1 --local 2 --device-port 3").contains("2 --local and 1 --device-port"))
    #expect(usageError("").contains("tunneld --local 8765 --device-port 8765"))
    #expect(usageError("-v").contains("nothing to forward"))
    #expect(usageError("8765").contains("'8765' is no pair of ports: write LOCAL:DEVICE"))
    #expect(usageError("8765 8765").contains("'8765' is no pair of ports"))
  }
}
