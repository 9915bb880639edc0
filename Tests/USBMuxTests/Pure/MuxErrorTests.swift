import MuxProtocol
import Testing

@testable import USBMux

/// Each error is one line that names the cause and what to do; no two read alike.
@Suite("Error texts")
struct MuxErrorTests {
  private static let phone = UDID(serialNumber: "00008110-000000000000000A")

  static let cases: [(MuxError, [String])] = [
    (
      .noDaemon(address: "unix:/x", reason: "No such file or directory"),
      ["unix:/x", "No such file", "start"]
    ),
    (.permissionDenied(what: "/x", remedy: "join the group"), ["/x", "denied", "join the group"]),
    (.noSuchDevice(wanted: nil), ["no device", "plug"]),
    (.noSuchDevice(wanted: "0000"), ["0000", "tunneld devices"]),
    (.onlyOverNetwork(phone), ["00008110-000000000000000A", "Wi-Fi only", "--network"]),
    (
      .ambiguousDevice([phone, UDID(serialNumber: "b")]),
      ["several", "00008110-000000000000000A", "b", "--udid", "--any"]
    ),
    (.refused(port(8765)), ["refused port 8765", "running and in the foreground"]),
    (.deviceGone, ["gone", "unplugged"]),
    (.protocolViolation("usbmuxd: odd"), ["broke the protocol", "usbmuxd: odd"]),
    (.timeout(what: "the answer", seconds: 10), ["the answer", "longer than 10 s"]),
    (.cannotListen(address: "[::1]:80", .inUse, reason: "in use"), ["[::1]:80", "in use", "another port"]),
    (.cannotListen(address: "a", .denied, reason: "no"), ["a", "no", "1024"]),
    (.cannotListen(address: "a", .unusable, reason: "odd"), ["a: odd"]),
    (.system("no descriptor"), ["no descriptor"]),
    (.closed, ["closed"]),
  ]

  @Test("One line with the cause and the fix", arguments: MuxErrorTests.cases)
  func texts(_ error: MuxError, _ parts: [String]) {
    let text = "\(error)"
    for part in parts { #expect(text.contains(part)) }
    #expect(!text.contains("\n"))
    // A daemon's number means one thing only: no error claims another one's cause.
    #expect(!text.contains("Operation not permitted"))
  }

  @Test("No two read alike")
  func distinct() {
    #expect(Set(Self.cases.map { "\($0.0)" }).count == Self.cases.count)
  }

  @Test("Seconds are written as people do", arguments: [(0.25, "0.25 s"), (2.0, "2 s"), (1e300, "1e+300 s")])
  func seconds(_ seconds: Double, _ text: String) {
    #expect("\(MuxError.timeout(what: "it", seconds: seconds))".hasSuffix(text))
  }
}
