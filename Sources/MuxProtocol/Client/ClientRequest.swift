/// What a program asks of the daemon.
package enum ClientRequest: Hashable, Sendable {
  case listen
  case listDevices
  case listListeners
  case connect(DeviceID, DevicePort)
  case readBUID
  case readPairRecord(RecordID)
  case savePairRecord(RecordID, data: [UInt8], device: DeviceID?)
  case deletePairRecord(RecordID)
}

/// A request as a daemon received it.
package struct ReceivedRequest: Hashable, Sendable {
  package var request: ClientRequest
  package var info: ClientInfo
  /// In which the answer is expected.
  package var dialect: Dialect
  /// Which the answer carries.
  package var tag: UInt32

  package init(request: ClientRequest, info: ClientInfo, dialect: Dialect, tag: UInt32) {
    self.request = request
    self.info = info
    self.dialect = dialect
    self.tag = tag
  }

  /// The frame that answers this request.
  ///
  /// - Throws: ``EncodingError/notInDialect`` for an answer that the request's dialect does not have.
  package func reply(_ message: DaemonMessage) throws(EncodingError) -> Frame {
    try message.frame(tag: tag, dialect: dialect)
  }
}

extension ClientRequest {
  /// Writes the request.
  ///
  /// - Throws: ``EncodingError/notInDialect`` for what the binary dialect does not have (it has Listen and
  ///   Connect only).
  package func frame(
    tag: UInt32, info: ClientInfo = ClientInfo(), dialect: Dialect = .propertyList
  ) throws(EncodingError) -> Frame {
    switch dialect {
    case .propertyList:
      var dictionary: PropertyList.Dictionary = ["MessageType": .string(messageType.rawValue)]
      info.write(to: &dictionary)
      writeArguments(to: &dictionary)
      return try Frame(propertyList: dictionary, tag: tag)
    case .binary:
      return try binaryFrame(tag: tag)
    }
  }

  /// Reads a request, in either dialect.
  ///
  /// - Throws: ``RequestError``, which says what answer the program deserves.
  package static func decode(_ frame: Frame) throws(RequestError) -> ReceivedRequest {
    func fail(_ reason: RequestError.Reason) -> RequestError {
      RequestError(reason: reason, dialect: frame.dialect, tag: frame.tag)
    }
    guard frame.version == 0 || frame.version == 1 else { throw fail(.unsupportedVersion(frame.version)) }
    do {
      switch frame.dialect {
      case .propertyList:
        let dictionary = try frame.propertyList()
        return ReceivedRequest(
          request: try ClientRequest(dictionary), info: ClientInfo(dictionary),
          dialect: .propertyList, tag: frame.tag)
      case .binary:
        return ReceivedRequest(
          request: try ClientRequest(binary: frame), info: ClientInfo(libraryVersion: nil),
          dialect: .binary, tag: frame.tag)
      }
    } catch {
      throw fail(error)
    }
  }
}

/// A request that cannot be carried out, and what to answer.
package struct RequestError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Reason: Error, Hashable, Sendable {
    /// The header's version is neither 0 nor 1.
    case unsupportedVersion(UInt32)
    /// The body is no property list.
    case propertyList(PropertyListError)
    /// The property list is no dictionary, or a key is missing or of the wrong type.
    case missing(key: String)
    /// A number that does not fit.
    case outOfRange(key: String)
    /// Port 0.
    case portZero
    case recordID(RecordIDError)
    /// `MessageType` is none of the known ones.
    case unknownType(String)
    /// A binary message of a number that is no request.
    case unknownMessage(UInt32)
    /// A binary message of the wrong size, in bytes.
    case bodySize(Int)
  }

  package var reason: Reason
  /// In which the answer is expected.
  package var dialect: Dialect
  /// Which the answer carries.
  package var tag: UInt32

  /// The frame that tells the program ``result``, in its own dialect.
  ///
  /// - Throws: ``EncodingError``, when memory is short.
  package func reply() throws(EncodingError) -> Frame {
    try DaemonMessage.result(result).frame(tag: tag, dialect: dialect)
  }

  /// The answer that the program deserves.
  package var result: ResultCode {
    switch reason {
    case .unsupportedVersion: .badVersion
    // As a device answers, on which nothing can listen there.
    case .portZero: .connectionRefused
    case .propertyList, .missing, .outOfRange, .recordID, .unknownType, .unknownMessage, .bodySize:
      .badCommand
    }
  }

  package var description: String {
    switch reason {
    case .unsupportedVersion(let version): "version \(version) is not supported"
    case .propertyList(let error): "\(error)"
    case .missing(let key): "\(key) is missing or of the wrong type"
    case .outOfRange(let key): "\(key) is out of range"
    case .portZero: "port 0"
    case .recordID(let error): "the record ID is unusable (\(error))"
    case .unknownType(let name): "unknown MessageType \"\(UDID.cleaned(name.prefix(64)))\""
    case .unknownMessage(let number): "unknown message \(number)"
    case .bodySize(let size): "a body of \(size) bytes"
    }
  }
}

/// Why a message cannot be written.
package enum EncodingError: Error, Hashable, Sendable {
  /// The binary dialect has no such message, or cannot express a device that is on the network.
  case notInDialect
  case propertyList(PropertyListError)
}

// MARK: - Property lists

extension ClientRequest {
  private enum MessageType: String {
    case listen = "Listen"
    case listDevices = "ListDevices"
    case listListeners = "ListListeners"
    case connect = "Connect"
    case readBUID = "ReadBUID"
    case readPairRecord = "ReadPairRecord"
    case savePairRecord = "SavePairRecord"
    case deletePairRecord = "DeletePairRecord"
  }

  private var messageType: MessageType {
    switch self {
    case .listen: .listen
    case .listDevices: .listDevices
    case .listListeners: .listListeners
    case .connect: .connect
    case .readBUID: .readBUID
    case .readPairRecord: .readPairRecord
    case .savePairRecord: .savePairRecord
    case .deletePairRecord: .deletePairRecord
    }
  }

  private func writeArguments(to dictionary: inout PropertyList.Dictionary) {
    switch self {
    case .listen, .listDevices, .listListeners, .readBUID: break
    case .connect(let device, let port):
      dictionary["DeviceID"] = .integer(Int64(device.rawValue))
      dictionary["PortNumber"] = .integer(Int64(port.networkOrder))
    case .readPairRecord(let record), .deletePairRecord(let record):
      dictionary["PairRecordID"] = .string(record.description)
    case .savePairRecord(let record, let data, let device):
      dictionary["PairRecordID"] = .string(record.description)
      dictionary["PairRecordData"] = .data(data)
      dictionary["DeviceID"] = device.map { .integer(Int64($0.rawValue)) }
    }
  }

  private init(_ dictionary: PropertyList.Dictionary) throws(RequestError.Reason) {
    guard let name = dictionary["MessageType"]?.string else { throw .missing(key: "MessageType") }
    guard let type = MessageType(rawValue: name) else { throw .unknownType(name) }
    switch type {
    case .listen: self = .listen
    case .listDevices: self = .listDevices
    case .listListeners: self = .listListeners
    case .readBUID: self = .readBUID
    case .connect:
      guard let device = try Self.device(dictionary) else { throw .missing(key: "DeviceID") }
      guard let number = dictionary["PortNumber"]?.integer else { throw .missing(key: "PortNumber") }
      guard let networkOrder = PropertyList.integer(number).bits16 else {
        throw .outOfRange(key: "PortNumber")
      }
      guard let port = DevicePort(networkOrder: networkOrder) else { throw .portZero }
      self = .connect(device, port)
    case .readPairRecord: self = .readPairRecord(try Self.record(dictionary))
    case .deletePairRecord: self = .deletePairRecord(try Self.record(dictionary))
    case .savePairRecord:
      let record = try Self.record(dictionary)
      guard let data = dictionary["PairRecordData"]?.data else { throw .missing(key: "PairRecordData") }
      self = .savePairRecord(record, data: data, device: try Self.device(dictionary))
    }
  }

  private static func device(_ dictionary: PropertyList.Dictionary) throws(RequestError.Reason) -> DeviceID? {
    guard let value = dictionary["DeviceID"], value.integer != nil else { return nil }
    guard let number = value.bits32 else { throw .outOfRange(key: "DeviceID") }
    return DeviceID(rawValue: number)
  }

  private static func record(_ dictionary: PropertyList.Dictionary) throws(RequestError.Reason) -> RecordID {
    guard let text = dictionary["PairRecordID"]?.string else { throw .missing(key: "PairRecordID") }
    do {
      return try RecordID(text)
    } catch {
      throw .recordID(error)
    }
  }
}

extension Frame {
  /// A frame with this property list in XML.
  init(propertyList dictionary: PropertyList.Dictionary, tag: UInt32) throws(EncodingError) {
    do {
      self.init(
        version: Dialect.propertyList.version, message: Self.propertyListMessage, tag: tag,
        body: try PropertyList.dictionary(dictionary).xml())
    } catch {
      throw .propertyList(error)
    }
  }

  /// The dictionary in the body.
  func propertyList() throws(RequestError.Reason) -> PropertyList.Dictionary {
    let value: PropertyList
    do {
      value = try PropertyList(parsing: body)
    } catch {
      throw .propertyList(error)
    }
    guard let dictionary = value.dictionary else { throw .missing(key: "MessageType") }
    return dictionary
  }
}

// MARK: - Binary

extension ClientRequest {
  /// Protocol, version 0: 2 is Connect (u32 device ID, u16 port in network byte order, u16 zero),
  /// 3 is Listen, without a body.
  private init(binary frame: Frame) throws(RequestError.Reason) {
    switch frame.message {
    case BinaryMessage.connect:
      var reader = LittleEndianReader(frame.body)
      guard let device: UInt32 = reader.read(), let networkOrder: UInt16 = reader.read() else {
        throw .bodySize(frame.body.count)
      }
      guard let port = DevicePort(networkOrder: networkOrder) else { throw .portZero }
      self = .connect(DeviceID(rawValue: device), port)
    case BinaryMessage.listen: self = .listen
    default: throw .unknownMessage(frame.message)
    }
  }

  private func binaryFrame(tag: UInt32) throws(EncodingError) -> Frame {
    switch self {
    case .listen: return Frame(version: 0, message: BinaryMessage.listen, tag: tag, body: [])
    case .connect(let device, let port):
      var body: [UInt8] = []
      body.append(littleEndian: device.rawValue)
      body.append(littleEndian: port.networkOrder)
      body.append(littleEndian: UInt16(0))
      return Frame(version: 0, message: BinaryMessage.connect, tag: tag, body: body)
    case .listDevices, .listListeners, .readBUID, .readPairRecord, .savePairRecord, .deletePairRecord:
      throw .notInDialect
    }
  }
}
