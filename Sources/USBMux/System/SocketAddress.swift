internal import CSystem
internal import EventLoop
internal import PacketCapture

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// A numeric socket address: IPv4 or IPv6 with a port, or the path of a Unix socket.
struct SocketAddress: CustomStringConvertible, Sendable {
  private var storage: sockaddr_storage
  private var length: socklen_t

  /// A numeric IPv4 or IPv6 address (`127.0.0.1`, `::1`, `fe80::1%en0`); nil when `host` is none.
  init?(host: String, port: UInt16) {
    storage = sockaddr_storage()
    length = unsafe cs_address_parse(host, port, &storage)
    guard length > 0 else { return nil }
  }

  /// The path of a Unix socket; nil when it is empty or longer than the system allows (107 bytes on Linux,
  /// 103 on Darwin).
  init?(path: String) {
    storage = sockaddr_storage()
    length = unsafe cs_address_unix(path, &storage)
    guard length > 0 else { return nil }
  }

  private init(storage: sockaddr_storage, length: socklen_t) {
    self.storage = storage
    self.length = length
  }

  var isUnix: Bool { CInt(storage.ss_family) == AF_UNIX }
  var isIPv6: Bool { CInt(storage.ss_family) == AF_INET6 }

  /// Whether only this machine can reach it: 127.0.0.0/8 or ::1.
  var isLoopback: Bool {
    let host = host
    return (CInt(storage.ss_family) == AF_INET && host.hasPrefix("127.")) || (isIPv6 && host == "::1")
  }

  /// The port in host order; 0 for a Unix socket.
  var port: UInt16 {
    get { unsafe withUnsafePointer(to: storage) { unsafe cs_address_port($0) } }
    set { unsafe cs_address_set_port(&storage, newValue) }
  }

  /// The address without its port: `127.0.0.1`, `::1`, or the path.
  var host: String {
    let text = unsafe [CChar](unsafeUninitializedCapacity: 256) { buffer, count in
      let written = unsafe withUnsafePointer(to: storage) {
        unsafe cs_address_text($0, length, buffer.baseAddress, buffer.count)
      }
      count = max(0, Int(written))
    }
    return String(decoding: text.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }

  /// `127.0.0.1:8765`, `[::1]:8765` or `unix:/path`.
  var description: String {
    if isUnix { return "unix:\(host)" }
    return isIPv6 ? "[\(host)]:\(port)" : "\(host):\(port)"
  }

  /// A stream socket of this address's family.
  ///
  /// - Throws: ``SystemError`` (EMFILE when the descriptors are used up).
  func makeSocket() throws(SystemError) -> Descriptor {
    #if canImport(Darwin)
      let type = SOCK_STREAM
    #else
      let type = CInt(SOCK_STREAM.rawValue)
    #endif
    let number = cs_socket(CInt(storage.ss_family), type)
    guard number >= 0 else { throw SystemError.last("socket") }
    return Descriptor(owning: number)
  }

  /// Starts to connect; 0 when done at once, else the error (EINPROGRESS: wait for writability; EAGAIN: a
  /// Unix listener's backlog is full, try again soon).
  func connect(_ socket: CInt) -> CInt {
    var storage = storage
    return unsafe withUnsafePointer(to: &storage) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe Self.posixConnect(socket, $0, length) == 0 ? 0 : errno
      }
    }
  }

  func bind(_ socket: CInt) throws(SystemError) {
    var storage = storage
    let status = unsafe withUnsafePointer(to: &storage) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe Self.posixBind(socket, $0, length)
      }
    }
    guard status == 0 else { throw SystemError.last("bind") }
  }

  /// The address that a socket is bound to.
  static func bound(_ socket: CInt) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let status = unsafe withUnsafeMutablePointer(to: &storage) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getsockname(socket, $0, &length)
      }
    }
    return status == 0 ? SocketAddress(storage: storage, length: length) : nil
  }

  /// The address at the other end of a socket.
  static func peer(_ socket: CInt) -> SocketAddress? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    let status = unsafe withUnsafeMutablePointer(to: &storage) {
      unsafe $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe getpeername(socket, $0, &length)
      }
    }
    return status == 0 ? SocketAddress(storage: storage, length: length) : nil
  }

  /// As it stands in packets; nil for a Unix socket.
  var streamAddress: StreamAddress? {
    if isUnix { return nil }
    return unsafe withUnsafeBytes(of: storage) { bytes in
      func number<Number: FixedWidthInteger>(at offset: Int?) -> Number {
        Number(bigEndian: unsafe bytes.loadUnaligned(fromByteOffset: offset ?? 0, as: Number.self))
      }
      guard isIPv6 else {
        return StreamAddress(.v4(number(at: MemoryLayout<sockaddr_in>.offset(of: \.sin_addr))), port: port)
      }
      let start = MemoryLayout<sockaddr_in6>.offset(of: \.sin6_addr) ?? 0
      return StreamAddress(.v6(number(at: start), number(at: start + 8)), port: port)
    }
  }

  private static func posixConnect(
    _ socket: CInt, _ address: UnsafePointer<sockaddr>, _ length: socklen_t
  ) -> CInt {
    #if canImport(Darwin)
      unsafe Darwin.connect(socket, address, length)
    #else
      unsafe Glibc.connect(socket, address, length)
    #endif
  }

  private static func posixBind(
    _ socket: CInt, _ address: UnsafePointer<sockaddr>, _ length: socklen_t
  ) -> CInt {
    #if canImport(Darwin)
      unsafe Darwin.bind(socket, address, length)
    #else
      unsafe Glibc.bind(socket, address, length)
    #endif
  }
}
