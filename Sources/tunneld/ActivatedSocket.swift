import CSystem
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// The first socket that a service manager has opened for this process (sd_listen_fds(3)): it exists before the
/// process does, and keeps its file over restarts, so that containers may mount it.
enum ActivatedSocket {
  /// Where passed sockets begin.
  static let descriptor: Int32 = 3

  /// Where it listens; nil when none was passed to this very process.
  static var address: LocalEndpoint? {
    guard Console.environment("LISTEN_PID") == "\(getpid())",
      let count = Console.environment("LISTEN_FDS").flatMap({ Int($0) }), count > 0
    else { return nil }
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
