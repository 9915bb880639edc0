import CSystem
import USBMux

#if canImport(Glibc)
  import CLibSystemd
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// The sockets that a service manager has opened for this process (sd_listen_fds(3)). They exist before the process
/// does and stay when it goes: a restart refuses no connection, and containers that mount the file of one keep it.
///
/// What a socket is for is told by its name (`FileDescriptorName=` of its unit): `usbmuxd`, or `forward-8765` for
/// the forward of local port 8765. A forward of a Unix socket takes the one of its path that is named `forward-`
/// anything.
struct PassedSockets: Sendable {
  struct Passed: Equatable, Sendable {
    let descriptor: Int32
    let name: String
    let endpoint: LocalEndpoint
  }

  static let serverName = "usbmuxd"
  static let forwardPrefix = "forward-"

  /// Those of this process; they are asked for once, which marks them close-on-exec.
  static let current = PassedSockets(all: received())

  let all: [Passed]

  /// The sockets on which other programs are served: those of that name, or else, since a unit that says nothing
  /// has a name of systemd's choice, all that are for no forward.
  var server: [Passed] {
    let named = all.filter { $0.name == Self.serverName }
    return named.isEmpty ? all.filter { !$0.name.hasPrefix(Self.forwardPrefix) } : named
  }

  /// Whether a socket was passed that can be for nothing else than to serve other programs.
  var namesServer: Bool { all.contains { $0.name == Self.serverName } }

  /// The sockets for a forward; none when it has to bind its own.
  func forward(_ local: LocalEndpoint) -> [Passed] {
    all.filter { passed in
      guard passed.name.hasPrefix(Self.forwardPrefix) else { return false }
      switch local {
      case .tcp(_, port: 0): return false
      case .tcp(_, let port): return passed.name == "\(Self.forwardPrefix)\(port)"
      case .unix: return passed.endpoint == local
      }
    }
  }

  /// The sockets that nobody wants, of a daemon with these forwards.
  func unclaimed(by forwards: [LocalEndpoint], servesPrograms: Bool) -> [Passed] {
    let claimed = forwards.flatMap(forward) + (servesPrograms ? server : [])
    return all.filter { !claimed.contains($0) }
  }

  #if os(Linux)
    private static func received() -> [Passed] {
      var names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
      guard Console.environment("LISTEN_FDS") != nil else { return [] }
      let count = unsafe csd_listen_fds_with_names(&names)
      defer {
        if let names = unsafe names {
          for index in 0..<Int(max(0, count)) { unsafe free(names[index]) }
          unsafe free(names)
        }
      }
      guard count > 0 else { return [] }
      return (0..<count).compactMap { index in
        let descriptor = SD_LISTEN_FDS_START + index
        guard let endpoint = endpoint(of: descriptor) else { return nil }
        let name = unsafe names?[Int(index)].map { unsafe String(cString: $0) }
        return Passed(descriptor: descriptor, name: name ?? "", endpoint: endpoint)
      }
    }
  #else
    private static func received() -> [Passed] { [] }
  #endif

  /// Where a socket listens.
  private static func endpoint(of descriptor: Int32) -> LocalEndpoint? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let status = unsafe withUnsafeMutablePointer(to: &storage) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getsockname(descriptor, $0, &length)
      }
    }
    guard status == 0 else { return nil }
    let text = unsafe [CChar](unsafeUninitializedCapacity: 256) { buffer, count in
      let written = unsafe cs_address_text(&storage, length, buffer.baseAddress, buffer.count)
      count = max(0, Int(written))
    }
    let host = String(decoding: text.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if CInt(storage.ss_family) == AF_UNIX { return .unix(path: host) }
    return .tcp(.address(host), port: unsafe cs_address_port(&storage))
  }
}

extension [PassedSockets.Passed] {
  /// To be listened on by one forward or server; nil when there are none. The sockets themselves are kept: what was
  /// removed and comes back finds them again.
  var address: ListenAddress? {
    let copies = compactMap { passed in
      let copy = fcntl(passed.descriptor, F_DUPFD_CLOEXEC, 3)
      return copy < 0 ? nil : copy
    }
    return copies.isEmpty ? nil : .inherited(descriptors: copies)
  }
}
