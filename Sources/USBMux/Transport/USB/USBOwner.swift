#if os(Linux)
  internal import Glibc

  /// Finds out, for a message, who has a device. Helper thread.
  enum USBOwner {
    /// The user and the group that own a device node.
    static func of(node: String) -> (owner: String, group: String) {
      var status = stat()
      guard unsafe stat(node, &status) == 0 else { return ("?", "?") }
      return (
        name(of: status.st_uid, in: "/etc/passwd") ?? "user \(status.st_uid)",
        name(of: status.st_gid, in: "/etc/group") ?? "group \(status.st_gid)"
      )
    }

    /// Both files have the name first and the number third. The C library would ask the network, too.
    private static func name(of number: UInt32, in file: String) -> String? {
      guard let bytes = USBScan.read(file) else { return nil }
      for line in bytes.split(separator: UInt8(ascii: "\n")) {
        let fields = line.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false)
        guard fields.count > 2, UInt32(String(decoding: fields[2], as: UTF8.self)) == number else { continue }
        return String(decoding: fields[0], as: UTF8.self)
      }
      return nil
    }

    /// The kernel driver, or the program, that has claimed an interface (`1-2:4.1`); nil when it cannot be seen.
    static func of(interface: String, node: String) -> String? {
      guard let driver = link(USBScan.directory + "/" + interface + "/driver")?.split(separator: "/").last,
        driver != "usbfs"
      else { return program(using: node) }
      return "the kernel driver \(driver)"
    }

    /// Another process that has the node open, as far as this one may look.
    private static func program(using node: String) -> String? {
      let own = String(getpid())
      for process in USBScan.list("/proc") ?? [] where process.first?.isNumber == true && process != own {
        for file in USBScan.list("/proc/\(process)/fd") ?? [] {
          guard link("/proc/\(process)/fd/\(file)") == node else { continue }
          let name = USBScan.read("/proc/\(process)/comm").map { String(decoding: $0, as: UTF8.self) } ?? "?"
          return "\(UDID.cleaned(name)) (process \(process))"
        }
      }
      return nil
    }

    private static func link(_ path: String) -> String? {
      var text = [CChar](repeating: 0, count: 1024)
      let count = unsafe readlink(path, &text, text.count)
      guard count > 0 else { return nil }
      return String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
  }
#endif
