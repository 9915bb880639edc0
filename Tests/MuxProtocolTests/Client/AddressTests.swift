import MuxProtocol
import Testing

@Suite struct DaemonAddressTests {
  @Test(arguments: [
    ("UNIX:/var/run/usbmuxd", DaemonAddress.unix(path: "/var/run/usbmuxd")),
    ("UNIX:/a:b", .unix(path: "/a:b")), ("UNIX:relative", .unix(path: "relative")),
    ("unix:/tmp/mux", .unix(path: "/tmp/mux")),
    ("/tmp/mux", .unix(path: "/tmp/mux")), ("mux.sock", .unix(path: "mux.sock")),
    ("127.0.0.1:27015", .tcp(host: "127.0.0.1", port: 27015)),
    ("mac.example:65535", .tcp(host: "mac.example", port: 65535)), ("unix:1", .tcp(host: "unix", port: 1)),
    ("[::1]:27015", .tcp(host: "::1", port: 27015)),
    ("[fe80::1%eth0]:1", .tcp(host: "fe80::1%eth0", port: 1)),
  ])
  func readsEveryForm(text: String, address: DaemonAddress) throws {
    #expect(try DaemonAddress(parsing: text) == address)
    #expect(try DaemonAddress(parsing: address.description) == address)
  }

  @Test(arguments: [
    ("", DaemonAddressError.empty), ("UNIX:", .emptyPath), ("/a:b", .pathWithColon("/a:b")),
    (":1", .missingHost(":1")), ("host:", .malformedPort("host:")), ("host:0", .malformedPort("host:0")),
    ("host:65536", .malformedPort("host:65536")), ("host:+1", .malformedPort("host:+1")),
    ("host:-1", .malformedPort("host:-1")), ("host:1x", .malformedPort("host:1x")),
    ("host: 1", .malformedPort("host: 1")),
    ("host:99999999999999999999", .malformedPort("host:99999999999999999999")),
    ("unix:path", .malformedPort("unix:path")),
    ("::1:27015", .bracketsMissing("::1:27015")), ("[::1]", .bracketsMissing("[::1]")),
    ("[::1]:", .malformedPort("[::1]:")), ("[]:1", .malformedHost("[]:1")),
    ("[host]:1", .malformedHost("[host]:1")),
    ("[[::1]]:1", .malformedHost("[[::1]]:1")), ("a b:1", .malformedHost("a b:1")),
    ("a/b:1", .malformedHost("a/b:1")),
    ("tcp://host:1", .bracketsMissing("tcp://host:1")), ("a\nb", .controlCharacter),
    ("/a\0b", .controlCharacter),
  ])
  func refusesOtherForms(text: String, error: DaemonAddressError) {
    #expect(throws: error) { try DaemonAddress(parsing: text) }
    #expect(!error.description.contains("\n"))
  }

  @Test(arguments: [(-1, true), (0, true), (1, false)])
  func limitsThePath(difference: Int, isAccepted: Bool) throws {
    let count = DaemonAddress.maximumPathLength + difference
    let path = "/" + String(repeating: "x", count: count - 1)
    for text in [path, "UNIX:" + path] {
      if isAccepted {
        #expect(try DaemonAddress(parsing: text) == .unix(path: path))
      } else {
        #expect(throws: DaemonAddressError.pathTooLong(bytes: count)) { try DaemonAddress(parsing: text) }
      }
    }
  }

  @Test func hasADefault() {
    #expect(DaemonAddress.standard == .unix(path: "/var/run/usbmuxd"))
  }
}

@Suite struct NetworkAddressTests {
  static let ipv4: [UInt8] = [16, 2, 0xF2, 0x7E, 192, 168, 0, 10] + [UInt8](repeating: 0, count: 8)
  static let ipv6: [UInt8] =
    [28, 30, 0, 0, 0, 0, 0, 0, 0xFE, 0x80] + [UInt8](repeating: 0, count: 12) + [0x12, 0x34, 5, 0, 0, 0]

  @Test func readsIPv4() throws {
    let address = try #require(NetworkAddress(socketAddress: Self.ipv4))
    #expect(address == NetworkAddress(host: .ipv4(0xC0A8_000A), port: 62078))
    #expect(address.description == "192.168.0.10")
    #expect(address.octets == [192, 168, 0, 10])
    #expect(address.socketAddress == Self.ipv4 + [UInt8](repeating: 0, count: 112))
  }

  @Test func readsIPv6() throws {
    let address = try #require(NetworkAddress(socketAddress: Self.ipv6))
    #expect(Self.ipv6.count == 28)
    #expect(address == NetworkAddress(host: .ipv6(high: 0xFE80 << 48, low: 0x1234, scope: 5)))
    #expect(address.description == "fe80::1234%5")
    #expect(address.octets == Array(Self.ipv6[8..<24]))
    #expect(address.socketAddress == Self.ipv6 + [UInt8](repeating: 0, count: 100))
  }

  @Test func readsTheLayoutsOfOtherSystems() throws {
    let ipv4 = try #require(NetworkAddress(socketAddress: Self.ipv4))
    let ipv6 = try #require(NetworkAddress(socketAddress: Self.ipv6))
    #expect(NetworkAddress(socketAddress: [2, 0] + Self.ipv4[2...]) == ipv4)
    #expect(NetworkAddress(socketAddress: [0, 2] + Self.ipv4[2...]) == ipv4)
    for family: [UInt8] in [[10, 0], [28, 10], [28, 28], [0, 30]] {
      #expect(NetworkAddress(socketAddress: family + Self.ipv6[2...]) == ipv6)
    }
  }

  @Test func survivesEveryLength() {
    for length in 0...300 {
      for start in [Self.ipv4, Self.ipv6] {
        let bytes = Array((start + [UInt8](repeating: 0, count: 300)).prefix(length))
        let least = start == Self.ipv4 ? 8 : 24
        #expect((NetworkAddress(socketAddress: bytes) != nil) == (least...256).contains(length), "\(length)")
      }
    }
  }

  @Test(arguments: [(0, 0), (16, 0), (16, 1), (16, 18), (0xFF, 0xFF)] as [(UInt8, UInt8)])
  func refusesOtherFamilies(length: UInt8, family: UInt8) {
    #expect(NetworkAddress(socketAddress: [length, family] + [UInt8](repeating: 1, count: 126)) == nil)
  }

  @Test(
    arguments: [
      (0, 0, "::"), (0, 1, "::1"), (1 << 48, 0, "1::"),
      (0x2001_0DB8_0000_0000, 0x0001_0000_0000_0001, "2001:db8::1:0:0:1"),
      (0x2001_0DB8_0000_0001, 0x0001_0001_0001_0001, "2001:db8:0:1:1:1:1:1"),
      (0xFE80_0000_0000_ABCD, 0, "fe80:0:0:abcd::"),
      (.max, .max, "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ] as [(UInt64, UInt64, String)])
  func writesIPv6(high: UInt64, low: UInt64, text: String) {
    #expect(NetworkAddress(host: .ipv6(high: high, low: low, scope: 0)).description == text)
  }
}
