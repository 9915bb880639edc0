import Foundation
import Testing

extension EndToEnd {
  /// What programs that start tunneld rely on, and the log as they see it.
  @Suite(.serialized) struct Spawning {
    private func arguments(_ options: [String] = []) -> [String] {
      ["--transport", "simulated", "0:7"] + options
    }

    @Test func readyAsJSONOnADescriptor() throws {
      let file = try temporaryDirectory() + "/ready"
      let tunnel = try Tunnel(
        wrapper: ["/bin/sh", "-c", "exec \"$0\" \"$@\" 3>\(file)"],
        arguments: arguments(["--ready-fd", "3", "--ready-json", "--udid", "00008110"]))
      #expect(
        eventually(within: 10) {
          (try? String(contentsOfFile: file, encoding: .utf8))?.hasSuffix("\n") == true
        })
      let line = try Data(contentsOf: URL(fileURLWithPath: file))
      let ready = try JSONSerialization.jsonObject(with: line) as? [String: Any]
      #expect(ready?["event"] as? String == "ready" && ready?["pid"] as? Int == Int(tunnel.pid))
      let forward = (ready?["forwards"] as? [[String: Any]])?.first
      #expect(forward?["udid"] as? String == "00008110" && forward?["device_port"] as? Int == 7)
      let listen = forward?["listen"] as? [[String: Any]]
      #expect(listen?.first?["address"] as? String == "127.0.0.1")
      let port = UInt16(listen?.first?["port"] as? Int ?? 0)
      #expect(echoes(port))
      #expect(tunnel.output == "")
      #expect(
        !(FileManager.default.fileExists(atPath: "/proc/\(tunnel.pid)/fd/3")
          && (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(tunnel.pid)/fd/3")) == file),
        "closed")
    }

    @Test func itEndsWithItsParent() throws {
      let shell = try Tunnel(
        wrapper: ["/bin/sh", "-c", "\"$0\" \"$@\" & echo pid $!; wait"],
        arguments: arguments(["--exit-with-parent"]))
      try shell.waitUntilReady([7])
      let line = try #require(shell.outputLines.first { $0.hasPrefix("pid ") })
      let child = try #require(pid_t(line.dropFirst(4)))
      #expect(shell.works())
      #expect(kill(child, 0) == 0)
      shell.signal(SIGKILL)
      // Where nobody reaps orphans it stays as a zombie.
      #expect(
        eventually(within: 5) {
          kill(child, 0) != 0 || kernelFile("/proc/\(child)/stat")?.contains(") Z ") == true
        })
    }

    @Test(.enabled(if: FileManager.default.isExecutableFile(atPath: "/usr/bin/env")))
    func blockedSignalsAreUnblocked() throws {
      let tunnel = try Tunnel(
        wrapper: ["/usr/bin/env", "--block-signal=TERM,INT,HUP"], arguments: arguments())
      try tunnel.waitUntilReady([7])
      #expect(tunnel.stop(within: 3) == .exited(0))
    }

    /// All of a command line's forwards, or none; the holder of a port that is taken is named.
    @Test func aBusyPortIsFatalOnACommandLine() throws {
      let listener = try Socket.listen(.loopback(0))
      defer { close(listener) }
      let tunnel = try Tunnel.run(
        arguments(["--local", "127.0.0.1:\(Socket.localPort(listener))", "--device-port", "9"]))
      #expect(tunnel.exitStatus == .exited(1) && tunnel.output == "")
      #expect(tunnel.log.contains("by process \(getpid()) ("), "\(tunnel.log)")
    }

    /// A pipe that nobody reads: lines are lost and counted, connections are not held up.
    @Test func aFullLogHoldsNothingUp() throws {
      let directory = try temporaryDirectory()
      let script =
        "mkfifo \(directory)/log; sleep 60 <\(directory)/log & echo sleep $!; exec \"$0\" \"$@\" 2>\(directory)/log"
      let tunnel = try Tunnel(
        wrapper: ["/bin/sh", "-c", script],
        arguments: arguments(["-vvv", "--control-socket", directory + "/control"]))
      defer {
        if let line = tunnel.outputLines.first(where: { $0.hasPrefix("sleep ") }),
          let pid = pid_t(line.dropFirst(6))
        {
          kill(pid, SIGTERM)
        }
      }
      try tunnel.waitUntilReady([7])
      let start = uptime()
      for _ in 0..<1500 { #expect(tunnel.works()) }
      #expect(uptime() - start < 30)
      let status = try Tunnel.run(["status", "--control-socket", directory + "/control"])
      #expect(status.output.contains("lines of the log dropped: "), "\(status.output)")
      #expect(tunnel.stop() == .exited(0))
    }

    @Test func theLogAsJSONWithoutUDIDs() throws {
      let tunnel = try Tunnel(simulated: [7], ["-vv", "--log-format", "json", "--redact-udids"])
      #expect(tunnel.works())
      #expect(tunnel.stop() == .exited(0))
      let lines = try tunnel.logLines.map {
        try #require(try JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any])
      }
      #expect(lines.count >= 4, "\(tunnel.log)")
      #expect(lines.allSatisfy { $0["time"] is String && $0["level"] is String && $0["message"] is String })
      #expect(Set(lines.compactMap { $0["connection"] as? Int }).count == 1)
      #expect(
        lines.filter { $0["connection"] != nil }.count >= 2, "all lines of a connection have its number")
      #expect(!tunnel.log.contains("C0FFEE") && tunnel.log.contains("...0001"))
    }
  }
}
