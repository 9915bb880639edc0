import Foundation

/// A program of the protocol, written from its description and without a line of the library.
final class MuxClient: Stream {
  struct Message {
    var version: UInt32
    var message: UInt32
    var tag: UInt32
    var body: [UInt8]

    /// The property list in the body.
    var dictionary: [String: Any] {
      let value = try? PropertyListSerialization.propertyList(from: Data(body), format: nil)
      return value as? [String: Any] ?? [:]
    }
    var type: String? { dictionary["MessageType"] as? String }
    var number: Int? { dictionary["Number"] as? Int }
    var deviceID: Int? { dictionary["DeviceID"] as? Int }
    var properties: [String: Any] { dictionary["Properties"] as? [String: Any] ?? [:] }
  }

  convenience init(path: String) throws {
    let descriptor = socket(AF_UNIX, Stream.streamSocket, 0)
    var address = sockaddr_un()
    address.sun_family = sa_family_t(AF_UNIX)
    withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: Array(path.utf8)) }
    try self.init(connecting: descriptor, to: &address)
  }

  convenience init(port: UInt16) throws {
    let descriptor = socket(AF_INET, Stream.streamSocket, 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_port = port.bigEndian
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    try self.init(connecting: descriptor, to: &address)
  }

  private init<Address>(connecting descriptor: CInt, to address: inout Address) throws {
    let status = withUnsafePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        connect(descriptor, $0, socklen_t(MemoryLayout<Address>.size))
      }
    }
    super.init(owning: descriptor)
    if status != 0 { throw StreamEnded() }
  }

  // MARK: Requests

  static func frame(version: UInt32 = 1, message: UInt32 = 8, tag: UInt32, _ body: [UInt8]) -> [UInt8] {
    [UInt32(16 + body.count), version, message, tag].flatMap(littleEndian) + body
  }

  static func littleEndian(_ value: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: value.littleEndian) { Array($0) }
  }

  static func request(_ type: String, _ keys: [String: Any] = [:], tag: UInt32 = 1) -> [UInt8] {
    var dictionary = keys
    dictionary["MessageType"] = type
    dictionary["ProgName"] = "test"
    dictionary["kLibUSBMuxVersion"] = 3
    let data = try? PropertyListSerialization.data(fromPropertyList: dictionary, format: .xml, options: 0)
    return frame(tag: tag, Array(data ?? Data()))
  }

  func request(_ type: String, _ keys: [String: Any] = [:], tag: UInt32 = 1) throws {
    try send(Self.request(type, keys, tag: tag))
  }

  /// Port 8100 is written as 42015: network order, read as a little-endian number.
  static func connectRequest(_ device: Int, port: UInt16, tag: UInt32 = 1) -> [UInt8] {
    request("Connect", ["DeviceID": device, "PortNumber": Int(port.byteSwapped)], tag: tag)
  }

  // MARK: Answers

  func message() throws -> Message {
    let header = try receive(exactly: 16)
    func field(_ index: Int) -> UInt32 {
      (0..<4).reversed().reduce(0) { $0 << 8 | UInt32(header[index * 4 + $1]) }
    }
    return Message(
      version: field(1), message: field(2), tag: field(3), body: try receive(exactly: Int(field(0)) - 16))
  }

  func ask(_ type: String, _ keys: [String: Any] = [:], tag: UInt32 = 1) throws -> Message {
    try request(type, keys, tag: tag)
    return try message()
  }

  /// The number of the Result that answers.
  func result(_ type: String, _ keys: [String: Any] = [:]) throws -> Int? {
    try ask(type, keys).number
  }

  /// Ids and serial numbers of the list of devices.
  func devices() throws -> [(id: Int, serial: String)] {
    let list = try ask("ListDevices").dictionary["DeviceList"] as? [[String: Any]] ?? []
    return list.map { device in
      let properties = device["Properties"] as? [String: Any] ?? [:]
      return (device["DeviceID"] as? Int ?? -1, properties["SerialNumber"] as? String ?? "")
    }
  }

  /// Asks for the devices and takes what is there, `count` of them.
  func listen(expecting count: Int) throws -> [Message] {
    let answer = try ask("Listen")
    guard answer.number == 0 else { throw StreamEnded() }
    return try (0..<count).map { _ in try message() }
  }
}
