/// What the daemon tells a program: answers, and events for those that listen.
package enum DaemonMessage: Hashable, Sendable {
  case result(ResultCode)
  case attached(DeviceRecord)
  case detached(DeviceID)
  case paired(DeviceID)
  case deviceList([DeviceRecord])
  case listenerList([ListenerRecord])
  /// The identity of the host, an upper-case UUID.
  case buid(String)
  case pairRecord([UInt8])
}

extension DaemonMessage {
  /// Writes the message.
  ///
  /// - Throws: ``EncodingError/notInDialect`` for what the binary dialect does not have: lists, records, and
  ///   devices on the network.
  package func frame(tag: UInt32, dialect: Dialect = .propertyList) throws(EncodingError) -> Frame {
    switch dialect {
    case .propertyList: try Frame(propertyList: dictionary, tag: tag)
    case .binary: try binaryFrame(tag: tag)
    }
  }

  /// Reads a message, in either dialect.
  ///
  /// A device in a list that cannot be understood is left out; the others count.
  ///
  /// - Throws: ``MessageError``.
  package static func decode(_ frame: Frame) throws(MessageError) -> DaemonMessage {
    switch frame.dialect {
    case .propertyList:
      let value: PropertyList
      do {
        value = try PropertyList(parsing: frame.body)
      } catch {
        throw .propertyList(error)
      }
      return try DaemonMessage(value.dictionary ?? [:])
    case .binary:
      return try DaemonMessage(binary: frame)
    }
  }
}

/// Why a daemon's message cannot be understood.
package enum MessageError: Error, Hashable, Sendable, CustomStringConvertible {
  case propertyList(PropertyListError)
  /// A key is missing or of the wrong type.
  case missing(key: String)
  /// `MessageType` is none of the known ones. A listening program can pass over it.
  case unknownType(String)
  /// A binary message of an unknown number. A listening program can pass over it.
  case unknownMessage(UInt32)
  /// A binary message that is too short, in bytes.
  case bodySize(Int)

  package var description: String {
    switch self {
    case .propertyList(let error): "\(error)"
    case .missing(let key): "\(key) is missing or of the wrong type"
    case .unknownType(let name): "unknown MessageType \"\(UDID.cleaned(name.prefix(64)))\""
    case .unknownMessage(let number): "unknown message \(number)"
    case .bodySize(let size): "a body of \(size) bytes"
    }
  }
}

// MARK: - Property lists

extension DaemonMessage {
  private var dictionary: PropertyList.Dictionary {
    switch self {
    case .result(let code): ["MessageType": "Result", "Number": .integer(Int64(code.rawValue))]
    case .attached(let device): device.attached
    case .detached(let device): ["MessageType": "Detached", "DeviceID": .integer(Int64(device.rawValue))]
    case .paired(let device): ["MessageType": "Paired", "DeviceID": .integer(Int64(device.rawValue))]
    case .deviceList(let devices): ["DeviceList": .array(devices.map { .dictionary($0.attached) })]
    case .listenerList(let listeners):
      ["ListenerList": .array(listeners.map { .dictionary($0.dictionary) })]
    case .buid(let text): ["BUID": .string(text)]
    case .pairRecord(let data): ["PairRecordData": .data(data)]
    }
  }

  private init(_ dictionary: PropertyList.Dictionary) throws(MessageError) {
    let type = dictionary["MessageType"]?.string
    switch type {
    case "Result":
      guard let number = dictionary["Number"]?.bits32 else { throw .missing(key: "Number") }
      self = .result(ResultCode(rawValue: number))
    case "Attached": self = .attached(try DeviceRecord(dictionary))
    case "Detached": self = .detached(try Self.device(dictionary))
    case "Paired": self = .paired(try Self.device(dictionary))
    default:
      guard let answer = DaemonMessage(answer: dictionary) else {
        throw type.map { .unknownType($0) } ?? .missing(key: "MessageType")
      }
      self = answer
    }
  }

  /// Answers that carry something are known by what they carry; they have no `MessageType`.
  private init?(answer dictionary: PropertyList.Dictionary) {
    if let devices = dictionary["DeviceList"]?.array {
      self = .deviceList(
        devices.compactMap { item in item.dictionary.flatMap { try? DeviceRecord($0) } })
    } else if let listeners = dictionary["ListenerList"]?.array {
      self = .listenerList(listeners.compactMap(\.dictionary).map(ListenerRecord.init))
    } else if let text = dictionary["BUID"]?.string {
      self = .buid(text)
    } else if let data = dictionary["PairRecordData"]?.data {
      self = .pairRecord(data)
    } else {
      return nil
    }
  }

  private static func device(_ dictionary: PropertyList.Dictionary) throws(MessageError) -> DeviceID {
    guard let number = dictionary["DeviceID"]?.bits32 else { throw .missing(key: "DeviceID") }
    return DeviceID(rawValue: number)
  }
}

extension PropertyList: ExpressibleByStringLiteral {
  package init(stringLiteral value: String) {
    self = .string(value)
  }
}

// MARK: - Binary

extension DaemonMessage {
  /// Bytes of the serial number in a binary Attached message, padded with NULs.
  private static let serialSize = 256

  /// Protocol, version 0: 1 Result (u32); 4 device add (u32 ID, u16 product, 256 bytes NUL-padded serial,
  /// u16 zero, u32 location); 5 device remove (u32 ID); 6 paired (u32 ID).
  private init(binary frame: Frame) throws(MessageError) {
    var reader = LittleEndianReader(frame.body)
    let tooShort = MessageError.bodySize(frame.body.count)
    func number() throws(MessageError) -> UInt32 {
      guard let number: UInt32 = reader.read() else { throw tooShort }
      return number
    }
    switch frame.message {
    case BinaryMessage.result: self = .result(ResultCode(rawValue: try number()))
    case BinaryMessage.attached:
      let id = DeviceID(rawValue: try number())
      guard let product: UInt16 = reader.read(), let serial = reader.take(Self.serialSize),
        reader.read(UInt16.self) != nil, let location: UInt32 = reader.read()
      else { throw tooShort }
      self = .attached(
        DeviceRecord(
          id: id, serialNumber: String(decoding: serial.prefix { $0 != 0 }, as: UTF8.self),
          connection: .usb(DeviceRecord.USB(locationID: location, productID: product))))
    case BinaryMessage.detached: self = .detached(DeviceID(rawValue: try number()))
    case BinaryMessage.paired: self = .paired(DeviceID(rawValue: try number()))
    default: throw .unknownMessage(frame.message)
    }
  }

  private func binaryFrame(tag: UInt32) throws(EncodingError) -> Frame {
    var body: [UInt8] = []
    let message: UInt32
    switch self {
    case .result(let code):
      message = BinaryMessage.result
      body.append(littleEndian: code.rawValue)
    case .attached(let device):
      guard case .usb(let usb) = device.connection else { throw .notInDialect }
      message = BinaryMessage.attached
      body.append(littleEndian: device.id.rawValue)
      body.append(littleEndian: usb.productID)
      // One NUL at least.
      let serial = device.udid.description.utf8.prefix(Self.serialSize - 1)
      body.append(contentsOf: serial)
      body.append(contentsOf: repeatElement(0, count: Self.serialSize - serial.count))
      body.append(littleEndian: UInt16(0))
      body.append(littleEndian: usb.locationID)
    case .detached(let device):
      message = BinaryMessage.detached
      body.append(littleEndian: device.rawValue)
    case .paired(let device):
      message = BinaryMessage.paired
      body.append(littleEndian: device.rawValue)
    case .deviceList, .listenerList, .buid, .pairRecord: throw .notInDialect
    }
    return Frame(version: Dialect.binary.version, message: message, tag: tag, body: body)
  }
}
