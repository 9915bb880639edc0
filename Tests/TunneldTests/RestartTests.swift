import Testing

@testable import tunneld

@Suite("Settings that need a restart")
struct RestartTests {
  @Test(
    "Each is named, and no other",
    arguments: [
      ("1:2", "1:2", []),
      ("1:2", "--transport usb 1:2", ["transport"]),
      ("--usbmuxd /a 1:2", "--usbmuxd /b 1:2", ["usbmuxd"]),
      ("--transport simulated 1:2", "--transport simulated --simulate 5=echo 1:2", ["simulate"]),
      ("--transport simulated 1:2", "--transport simulated --simulated-devices 2 1:2", ["simulated-devices"]),
      ("1:2", "--max-connections 3 1:2", ["max-connections"]),
      ("1:2", "--usbmuxd-socket /a --usbmuxd-socket-mode 600 1:2", ["usbmuxd-socket"]),
      (
        "--usbmuxd-socket /a 1:2",
        "--usbmuxd-socket /a --usbmuxd-socket-mode 600 --usbmuxd-socket-group g --lockdown-dir /l 1:2",
        ["usbmuxd-socket-mode", "usbmuxd-socket-group", "lockdown-dir"]
      ),
      (
        "--control-socket /a 1:2",
        "--control-socket /b --control-socket-mode 600 --control-socket-group g 1:2",
        ["control-socket", "control-socket-mode", "control-socket-group"]
      ),
      (
        "--usbmuxd-socket /a 1:2", "--usbmuxd-socket /a --connect-timeout 3 --half-close-timeout 4 1:2",
        ["connect-timeout for usbmuxd-socket", "half-close-timeout for usbmuxd-socket"]
      ),
      ("1:2", "--connect-timeout 3 --half-close-timeout 4 --wait 1 --drain 2 --any --network 1:2", []),
      ("1:2", "-v --log-format json --redact-udids 1:2 3:4", []),
    ])
  func settings(before: String, after: String, names: [String]) throws {
    #expect(try runOptions(before).settingsForRestart(besides: runOptions(after)) == names)
  }
}
