#if os(Linux)
  import Foundation
  import Testing

  /// A tunneld in front of emulated USB devices (umockdev), with a strict phone behind each.
  final class EmulatedUSB: Sendable {
    let tunnel: Tunnel
    private let control: String

    /// Next to the binary under test.
    static let emulator: String =
      ProcessInfo.processInfo.environment["USB_EMULATOR"]
      ?? URL(fileURLWithPath: Tunnel.binary).deletingLastPathComponent().path + "/usb-emulator"

    /// Whether umockdev is installed; its absence is an error where the tests are meant to be complete.
    static let isAvailable: Bool = {
      let names = ["x86_64-linux-gnu", "aarch64-linux-gnu", ""].map {
        "/usr/lib/\($0)/libumockdev-preload.so.0"
      }
      return names.contains { FileManager.default.fileExists(atPath: $0) }
        || ProcessInfo.processInfo.environment["CI"] != nil
    }()

    /// `user`: whom to run as, instead of root.
    ///
    /// `devices` are plugged in before the start: `1-1 serial=... active=0`.
    init(
      _ devices: [String] = ["1-1"], ports: [UInt16] = [7], options: [String] = [], transport: String = "usb",
      environment: [String: String] = [:], command: [String]? = nil, user: String? = nil
    ) throws {
      control = "/tmp/usb-emulator-\(getpid())-\(UInt32.random(in: 0 ... .max))"
      var wrapper = [Self.emulator, "--control", control]
      if let user { wrapper = ["/usr/bin/setpriv", "--reuid", user, "--clear-groups", "--"] + wrapper }
      for device in devices { wrapper += ["--attach", device] }
      var arguments = command ?? (["--transport", transport, "-v", "-v"] + options)
      if command == nil { for port in ports { arguments += ["--local", "0", "--device-port", "\(port)"] } }
      tunnel = try Tunnel(wrapper: wrapper + ["--"], arguments: arguments, environment: environment)
      if command == nil { try tunnel.waitUntilReady(ports, within: 20) }
    }

    /// The emulator removes its directory when it is asked to end.
    deinit {
      if tunnel.exitStatus == nil {
        tunnel.signal(SIGTERM)
        _ = tunnel.waitForExit(within: 5)
      }
    }

    // MARK: Devices

    /// One command of the emulator; its answer without `ok`.
    @discardableResult
    func perform(_ line: String) throws -> String {
      let (fd, _) = try Socket.connect(.unix(control), within: 5)
      let handle = FileHandle(fileDescriptor: fd, closeOnDealloc: true)
      _ = fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK)
      try handle.write(contentsOf: Data(line.utf8))
      shutdown(fd, Int32(SHUT_WR))
      let answer = String(decoding: try handle.readToEnd() ?? Data(), as: UTF8.self)
        .trimmingCharacters(in: .whitespacesAndNewlines)
      guard answer.hasPrefix("ok") else { throw Unmet("\(line): \(answer)") }
      return answer.dropFirst(2).trimmingCharacters(in: .whitespaces)
    }

    /// From another thread.
    func perform(later line: String) {
      usleep(100_000)
      _ = try? perform(line)
    }

    /// What the device has to say, for messages.
    func status(_ device: String = "1-1") -> String { (try? perform("status \(device)")) ?? "no status" }

    /// One number of a device's status; 0 when it is not in it.
    func count(_ name: String, of device: String = "1-1") throws -> Int {
      for word in try perform("status \(device)").split(separator: " ") where word.hasPrefix(name + "=") {
        return Int(word.dropFirst(name.count + 1)) ?? 0
      }
      return 0
    }

    /// The phone found nothing to complain of.
    func isFaultless(_ device: String = "1-1") throws -> Bool {
      let status = try perform("status \(device)")
      return status.hasPrefix("violations=0 ") && !status.contains("unclaimed=")
    }

    // MARK: The process behind the emulator

    var process: Int { (try? perform("process")).flatMap { Int($0) } ?? -1 }

    private func contents(_ name: String) -> String {
      FileManager.default.contents(atPath: "/proc/\(process)/\(name)").map {
        String(decoding: $0, as: UTF8.self)
      } ?? ""
    }

    var descriptors: Int {
      (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/fd").count) ?? -1
    }

    var threads: Int {
      (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(process)/task").count) ?? -1
    }

    /// Anonymous resident memory in bytes.
    var memory: Int {
      for line in contents("status").split(separator: "\n") where line.hasPrefix("RssAnon:") {
        return
          (line.split(whereSeparator: { $0 == " " || $0 == "\t" }).dropFirst().first.flatMap { Int($0) } ?? 0)
          * 1024
      }
      return -1
    }

    /// Seconds of processor time used so far.
    var processorTime: Double {
      let text = contents("stat")
      guard let end = text.lastIndex(of: ")") else { return 0 }
      let fields = text[end...].split(separator: " ")
      guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else {
        return 0
      }
      return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
    }
  }
#endif
