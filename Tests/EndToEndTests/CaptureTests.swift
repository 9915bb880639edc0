import Foundation
import Testing

extension EndToEnd {
  /// `--capture`, read back by tshark. Where that is not installed, those tests say that they are left out;
  /// `scripts/bootstrap --tests` installs it.
  @Suite(.serialized) struct Captures {
    /// A place for the file of one test.
    final class Place {
      let directory: String
      var file: String { directory + "/test.pcapng" }
      var control: String { directory + "/control" }
      var options: [String] { ["--capture", file, "--control-socket", control] }

      init() throws { directory = try temporaryDirectory() }
      deinit { try? FileManager.default.removeItem(atPath: directory) }

      /// What tshark says of the file, one line for each packet that the filter lets through.
      func tshark(_ filter: String, _ fields: String...) throws -> [String] {
        // Heuristics, and the checks that are off by default: a checksum that is wrong, or a gap, is found.
        let child = try ChildProcess(
          executable: PackagedClients.path("tshark") ?? "tshark",
          arguments: [
            "tshark", "-n", "-r", file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y",
            filter, "-T", "fields",
          ] + fields.flatMap { ["-e", $0] })
        guard child.waitForExit(within: 60) == .exited(0) else { throw Unmet("tshark: \(child.log)") }
        return child.outputLines
      }

      /// The body of an answer, as tshark puts it together.
      func page(_ name: String) throws -> [UInt8] {
        let child = try ChildProcess(
          executable: PackagedClients.path("tshark") ?? "tshark",
          arguments: ["tshark", "-n", "-q", "-r", file, "--export-objects", "http,\(directory)/pages"])
        guard child.waitForExit(within: 60) == .exited(0) else { throw Unmet("tshark: \(child.log)") }
        return [UInt8](try #require(FileManager.default.contents(atPath: "\(directory)/pages/\(name)")))
      }

      /// What no packet may be.
      static let trouble =
        "tcp.analysis.flags || tcp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed"

      /// What the capture of a running tunneld has come to.
      func counters() throws -> [String: Any] {
        let asked = try Tunnel.run(["status", "--json", "--control-socket", control])
        let status = try JSONSerialization.jsonObject(with: Data(asked.outputBytes)) as? [String: Any]
        return try #require(status?["capture"] as? [String: Any], "\(asked.output)\(asked.log)")
      }

      func stop(_ tunnel: Tunnel) { #expect(tunnel.stop() == .exited(0), "\(tunnel.log)") }
    }

    static var hasTshark: Bool { PackagedClients.isInstalled("tshark") }

    @Test(.enabled(if: hasTshark, "tshark is not installed")) func httpShowsAsHTTP() throws {
      let place = try Place()
      let tunnel = try Tunnel(simulated: [8765], place.options)
      let (_, body) = try Simulated.request(tunnel.port(8765), Simulated.get("/big?bytes=300000"))
      let upload = try tunnel.client(8765)
      try upload.send(
        "POST /upload HTTP/1.1\r\nHost: phone\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
      #expect(upload.ending() == .end)
      upload.close()
      place.stop(tunnel)
      #expect(
        try place.tshark("http.request", "http.request.method", "http.request.uri") == [
          "GET\t/big?bytes=300000", "POST\t/upload",
        ])
      #expect(try place.tshark("http.response", "http.response.code") == ["200", "200"])
      #expect(
        try place.tshark("http.response && http.content_length == 300000", "tcp.reassembled.length").count
          == 1)
      #expect(try place.page("big%3fbytes=300000") == body)
      #expect(try place.tshark(Place.trouble, "frame.number") == [])
      #expect(
        try place.tshark("tcp.flags.syn == 1 && tcp.flags.ack == 0", "frame.comment").allSatisfy {
          $0.contains(PackagedClients.udid) && $0.contains("port 8765")
        })
    }

    /// Of hexadecimal digits.
    private static func bytes(_ text: String) -> [UInt8] {
      let digits = Array(text.utf8)
      return stride(from: 0, to: digits.count, by: 2).map {
        UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16) ?? 0
      }
    }

    @Test(.enabled(if: hasTshark, "tshark is not installed")) func everyByteThroughAUsbmuxd() throws {
      let size = 2 * mebibyte
      let place = try Place()
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.exchange(sends: size, receives: size)))
      let tunnel = try Tunnel(mux, [20], place.options)
      // Small enough for the queue, but enough for the bulk thread.
      let client = try tunnel.client(20)
      let (sent, reception) = try client.exchange(send: size, receive: size, within: 30)
      #expect(sent == size && reception.count == size && reception.mismatch == nil)
      #expect(client.ending() == .end)
      client.close()
      #expect(mux.wait { $0.openStreams == 0 })
      place.stop(tunnel)
      guard try place.tshark("tcp.flags.fin == 1", "tcp.srcport").count == 2 else {
        Issue.record("\(try place.tshark("tcp", "tcp.flags.str").suffix(5))")
        return
      }
      #expect(try place.tshark(Place.trouble, "frame.number") == [])
      for side in ["tcp.srcport == 20", "tcp.dstport == 20"] {
        let payload = try place.tshark("\(side) && tcp.len > 0", "tcp.payload").flatMap(Self.bytes)
        #expect(payload.count == size)
        #expect(payload.withUnsafeBytes { Pattern.mismatch(in: $0, at: 0) } == nil)
      }
    }

    @Test(.enabled(if: hasTshark, "tshark is not installed")) func endsAsTheyWere() throws {
      let place = try Place()
      let mux = try FakeMux()
      let id = mux.attach(phone)
      mux.setPort(20, .refusing())
      mux.setPort(21, .open(.answer(1000)))
      let tunnel = try Tunnel(mux, [7, 20, 21], place.options)
      #expect(try tunnel.client(20).ending() == .reset)
      let half = try tunnel.client(21)
      try half.send("GET / HTTP/1.1\r\n\r\n")
      half.finishSending()
      #expect(half.receiveAll().ending == .end)
      half.close()
      let resetting = try tunnel.client()
      #expect(echoes(resetting))
      resetting.reset()
      #expect(mux.wait { $0.openStreams == 0 })
      let unplugged = try tunnel.client()
      #expect(echoes(unplugged))
      mux.detach(id)
      #expect(unplugged.ending() == .reset)
      place.stop(tunnel)
      func flags(_ stream: Int) throws -> [String] {
        try place.tshark(
          "tcp.stream == \(stream) && tcp.flags != 0x10 && tcp.len == 0", "tcp.dstport", "tcp.flags"
        )
        .map { $0.replacingOccurrences(of: "\t", with: " ") }
      }
      let ports = try (0..<4).map { stream in
        try place.tshark("tcp.stream == \(stream) && tcp.flags == 2", "tcp.srcport").first ?? ""
      }
      #expect(try flags(0) == ["20 0x0002", "\(ports[0]) 0x0014"], "SYN, then RST, ACK")
      #expect(
        try flags(1) == ["21 0x0002", "\(ports[1]) 0x0012", "21 0x0011", "\(ports[1]) 0x0011"],
        "the client's end comes before the app's")
      #expect(try flags(2) == ["7 0x0002", "\(ports[2]) 0x0012", "7 0x0014"], "the client's reset")
      #expect(try flags(3) == ["7 0x0002", "\(ports[3]) 0x0012", "\(ports[3]) 0x0014"], "the device's reset")
      #expect(try place.tshark(Place.trouble, "frame.number") == [])
    }

    @Test(.enabled(if: hasTshark, "tshark is not installed")) func programsThatAreServed() throws {
      let place = try Place()
      let tunnel = try Tunnel(
        arguments: [
          "--transport", "simulated", "--usbmuxd-socket", place.directory + "/mux", "--lockdown-dir",
          place.directory + "/lockdown",
        ] + place.options)
      let path = place.directory + "/mux"
      #expect(
        tunnel.waitForOutput { $0.contains { $0.contains("usbmuxd socket at \(path)") } }, "\(tunnel.log)")
      let second = try Tunnel(arguments: ["--transport", "usbmuxd", "--usbmuxd", "UNIX:" + path, "0:8765"])
      try second.waitUntilReady([8765])
      let (head, _) = try Simulated.request(second.port(8765), Simulated.get("/small"))
      #expect(head.hasPrefix("HTTP/1.1 200"))
      place.stop(second)
      place.stop(tunnel)
      #expect(try place.tshark("http.request", "ip.src", "ip.dst") == ["198.51.100.1\t192.0.2.1"])
      #expect(try place.tshark(Place.trouble, "frame.number") == [])
    }

    /// The file's queue is full at once, and stays so.
    @Test(arguments: ["usbmuxd", "simulated"]) func aFIFOThatNobodyReadsHoldsNothingUp(_ transport: String)
      throws
    {
      let size = 64 * mebibyte
      let place = try Place()
      #expect(mkfifo(place.file, 0o600) == 0)
      // Opened, so that the writer has begun, and never read.
      let reader = open(place.file, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
      defer { close(reader) }
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.send(size, finish: .never)))
      mux.setPort(21, .open(.discard))
      let options = transport == "usbmuxd" ? [] : ["--simulate", "20=chargen", "--simulate", "21=discard"]
      let tunnel =
        transport == "usbmuxd"
        ? try Tunnel(mux, [20, 21, 7], place.options + options)
        : try Tunnel(simulated: [20, 21, 7], place.options + options)
      // Would one read or write wait for the capture, this would never end.
      #expect(try tunnel.client(20).receive(size, within: 60).count == size)
      #expect(try tunnel.client(21).sendPattern(size, within: 60) == size)
      #expect(tunnel.works())
      let counters = try place.counters()
      let dropped = try #require(counters["dropped_bytes"] as? Int)
      #expect(dropped > 100 * mebibyte, "\(counters)")
      #expect(counters["dropped_packets"] as? Int ?? 0 > 1000)
      let metrics = try Tunnel.run(["status", "--prometheus", "--control-socket", place.control]).output
      #expect(metrics.contains("tunneld_capture_dropped_bytes_total "), "\(metrics)")
      let table = try Tunnel.run(["status", "--control-socket", place.control]).output
      #expect(table.contains("dropped by the capture: "), "\(table)")
      // Its end is not kept by it, either.
      #expect(tunnel.stop(within: 5) == .exited(0))
      #expect(tunnel.logs("nobody reads it"), "\(tunnel.log)")
    }

    @Test(.enabled(if: hasTshark, "tshark is not installed")) func whatIsDroppedIsAGap() throws {
      let place = try Place()
      let fifo = place.directory + "/fifo"
      #expect(mkfifo(fifo, 0o600) == 0)
      let reader = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC)
      let mux = try FakeMux()
      mux.attach(phone)
      mux.setPort(20, .open(.send(32 * mebibyte, finish: .never)))
      let tunnel = try Tunnel(mux, [20, 7], ["--capture", fifo, "--control-socket", place.control])
      let quiet = try tunnel.client()
      #expect(echoes(quiet))
      #expect(try tunnel.client(20).receive(32 * mebibyte, within: 30).count == 32 * mebibyte)
      // What room was too small for the others is used up by small ones.
      for _ in 0..<1000 { #expect(echoes(quiet)) }
      // Somebody reads from now on.
      let file = place.file
      _ = fcntl(reader, F_SETFL, 0)
      let read = DispatchSemaphore(value: 0)
      Thread {
        let handle = FileHandle(fileDescriptor: reader, closeOnDealloc: true)
        _ = FileManager.default.createFile(atPath: file, contents: handle.readDataToEndOfFile())
        read.signal()
      }.start()
      #expect(
        try eventually(within: 20) {
          let before = try place.counters()["dropped_packets"] as? Int
          return try echoes(quiet) && before == place.counters()["dropped_packets"] as? Int
        })
      quiet.close()
      #expect(mux.wait { $0.openStreams == 0 })
      place.stop(tunnel)
      #expect(read.wait(timeout: .now() + 20) == .success)
      let lost = try place.tshark("tcp.analysis.lost_segment", "tcp.port")
      #expect(lost.contains { $0.split(separator: ",").contains("7") }, "\(lost)")
      #expect(try place.tshark("tcp.checksum.status == 0 || _ws.malformed", "frame.number") == [])
      // All that came before the gap, and its end, are there.
      #expect(try place.tshark("tcp.port == 7 && tcp.flags.fin == 1", "frame.number").count == 2)
    }

    /// A full disk, in the form of a limit for the size of files.
    @Test func aFullDiskEndsTheCaptureAndNothingElse() throws {
      let place = try Place()
      let tunnel = try Tunnel(
        wrapper: ["/bin/sh", "-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\""],
        arguments: ["--transport", "simulated", "0:7"] + place.options)
      try tunnel.waitUntilReady([7])
      let client = try tunnel.client()
      #expect(echoes(client))
      #expect(try eventually(within: 5) { try place.counters()["bytes"] as? Int == 24 })
      let (_, reception) = try client.exchange(send: 4 * mebibyte, receive: 4 * mebibyte, within: 30)
      #expect(reception == .part(4 * mebibyte))
      #expect(tunnel.logs("the capture to \(place.file) has ended", "too large"), "\(tunnel.log)")
      #expect(tunnel.works())
      let counters = try place.counters()
      #expect(counters["problem"] as? String ?? "" != "" && counters["dropped_bytes"] as? Int ?? 0 > 0)
      #expect(tunnel.logCount("has ended") == 1)
      if Self.hasTshark {
        // What is there can be read to its end.
        #expect(try place.tshark("tcp.flags == 2", "tcp.dstport") == ["7"])
      }
    }

    @Test func aFileThatCannotBeIsAnErrorAtTheStart() throws {
      let place = try Place()
      let other = place.directory + "/other"
      symlink(other, place.file)
      let refused = try Tunnel.run(["--transport", "simulated", "0:7", "--capture", place.file])
      #expect(refused.exitStatus == .exited(1))
      #expect(refused.logLines.count == 1 && refused.log.contains("symbolic link"), "\(refused.log)")
      #expect(!FileManager.default.fileExists(atPath: other))
    }

    @Test func fromTheConfigurationFile() throws {
      let place = try Place()
      let mux = try FakeMux()
      mux.attach(phone)
      let service = try ConfiguredTunnel(
        mux, "[daemon]\ncapture = \(place.file)\n" + section("echo", "0", 7), ready: [7])
      #expect(service.tunnel.works())
      var status = stat()
      #expect(stat(place.file, &status) == 0 && status.st_mode & 0o777 == 0o600)
      #expect(
        try eventually(within: 5) {
          (try service.status()["capture"] as? [String: Any])?["bytes"] as? Int == 24
        })
      // It is opened at the start only.
      try ConfiguredTunnel.write("[daemon]\n" + section("echo", "0", 7), to: service.file)
      #expect(try service.ask("reload").output.contains("after a restart only: capture"))
      #expect(service.tunnel.works())
    }
  }
}
