#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// The program that listens on an address which one wants for oneself. Best effort, for a message: other
/// users' programs cannot be seen, and only Linux tells.
struct PortHolder: Equatable, CustomStringConvertible {
  let process: Int
  /// The program's name; nil when it cannot be read.
  let name: String?

  /// `process 1234 (nc)`.
  var description: String { "process \(process)" + (name.map { " (\($0))" } ?? "") }
}

#if os(Linux)
  extension PortHolder {
    static func find(_ address: SocketAddress) -> PortHolder? {
      guard !address.isUnix else { return nil }
      var inodes: Set<UInt64> = []
      for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        eachLine(of: table) { line in
          guard let entry = SocketTableEntry(line), entry.isListening, entry.port == address.port else {
            return
          }
          if entry.isWildcard || entry.isSame(as: address) { inodes.insert(entry.inode) }
        }
      }
      return inodes.isEmpty ? nil : owner(of: inodes)
    }

    private static func owner(of inodes: Set<UInt64>) -> PortHolder? {
      let links = Set(inodes.map { "socket:[\($0)]" })
      for process in entries(of: "/proc").compactMap({ Int($0) }) {
        let directory = "/proc/\(process)/fd"
        for descriptor in entries(of: directory) {
          guard let target = link("\(directory)/\(descriptor)"), links.contains(target) else { continue }
          var name: String?
          eachLine(of: "/proc/\(process)/comm") { name = name ?? $0.printable }
          return PortHolder(process: process, name: name)
        }
      }
      return nil
    }

    private static func eachLine(of path: String, _ body: (String) -> Void) {
      guard let file = unsafe fopen(path, "re") else { return }
      defer { unsafe fclose(file) }
      var buffer = [CChar](repeating: 0, count: 512)
      while true {
        let line = unsafe buffer.withUnsafeMutableBufferPointer { buffer -> String? in
          guard let start = buffer.baseAddress, let text = unsafe fgets(start, CInt(buffer.count), file)
          else {
            return nil
          }
          return unsafe String(cString: text)
        }
        guard let line else { return }
        body(line)
      }
    }

    private static func entries(of path: String) -> [String] {
      guard let directory = unsafe opendir(path) else { return [] }
      defer { unsafe closedir(directory) }
      var names: [String] = []
      while let entry = unsafe readdir(directory) {
        let name = unsafe withUnsafePointer(to: &entry.pointee.d_name) {
          unsafe $0.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
        }
        if !name.hasPrefix(".") { names.append(name) }
      }
      return names
    }

    private static func link(_ path: String) -> String? {
      var count = -1
      let bytes = unsafe [CChar](unsafeUninitializedCapacity: 64) { buffer, length in
        guard let start = buffer.baseAddress else { return }
        count = unsafe readlink(path, start, buffer.count)
        length = max(0, count)
      }
      return count > 0 ? String(decoding: bytes.map { UInt8(bitPattern: $0) }, as: UTF8.self) : nil
    }
  }

  extension String {
    /// A name that a program may have given itself, fit for one line.
    fileprivate var printable: String {
      var text = ""
      for scalar in unicodeScalars where scalar.value >= 0x20 && scalar.value != 0x7f {
        text.unicodeScalars.append(scalar)
      }
      return text
    }
  }
#else
  extension PortHolder {
    static func find(_ address: SocketAddress) -> PortHolder? { nil }
  }
#endif

/// A line of `/proc/net/tcp` or `/proc/net/tcp6` (proc(5)):
///
///     sl local_address:port rem_address:port st tx:rx tr:when retrnsmt uid timeout inode ...
///
/// Addresses are 32-bit words in the machine's byte order, in hexadecimal; the port is in host order.
struct SocketTableEntry: Equatable {
  let port: UInt16
  let isListening: Bool
  let inode: UInt64
  /// The local address as 4 or 16 bytes, in network order.
  let address: [UInt8]

  init?(_ line: String) {
    let fields = line.split(whereSeparator: \.isWhitespace)
    guard fields.count >= 10, let inode = UInt64(fields[9]) else { return nil }
    let local = fields[1].split(separator: ":")
    guard local.count == 2, local[0].count == 8 || local[0].count == 32,
      let port = UInt16(local[1], radix: 16)
    else { return nil }
    var address: [UInt8] = []
    var rest = local[0]
    while !rest.isEmpty {
      guard let word = UInt32(rest.prefix(8), radix: 16) else { return nil }
      unsafe withUnsafeBytes(of: word) { unsafe address.append(contentsOf: $0) }
      rest = rest.dropFirst(8)
    }
    self.port = port
    self.inode = inode
    self.address = address
    // TCP_LISTEN
    isListening = fields[3] == "0A"
  }

  var isWildcard: Bool { address.allSatisfy { $0 == 0 } }

  func isSame(as other: SocketAddress) -> Bool {
    if address.count == 4 { return address.map(String.init).joined(separator: ".") == other.host }
    let words = stride(from: 0, to: 16, by: 2).map {
      String(UInt16(address[$0]) << 8 | UInt16(address[$0 + 1]), radix: 16)
    }
    return SocketAddress(host: words.joined(separator: ":"), port: port)?.host == other.host
  }
}
