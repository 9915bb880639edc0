internal import MuxProtocol

/// A minimal lockdownd (port 62078), so that the standard tools have something to talk to: it says what it is,
/// answers questions about the phone, and trusts nobody.
///
/// Each message is a big-endian length of four bytes and a property list of that length
/// (libimobiledevice's public tools speak it so). Requests that need trust are refused in lockdownd's own words.
package struct LockdownService: PhoneService {
  /// The longest request that is accepted, bytes. A longer one ends the session.
  static let longestRequest = 64 * 1024
  private static let lengthSize = 4

  private let values: PropertyList.Dictionary
  private var input = ByteQueue(capacity: longestRequest + lengthSize)
  private var output = ByteQueue(capacity: longestRequest)
  private var isBroken = false

  /// - Parameter udid: The phone's UDID, which it tells as `UniqueDeviceID`.
  package init(udid: String) {
    values = [
      "BuildVersion": .string("22A0000s"),
      "CPUArchitecture": .string("arm64e"),
      "DeviceClass": .string("iPhone"),
      "DeviceColor": .string("1"),
      "DeviceName": .string("Simulated iPhone"),
      "DevicePublicKey": .data(Array(Self.publicKey.utf8)),
      "HardwareModel": .string("D63AP"),
      "PasswordProtected": .boolean(false),
      "ProductName": .string("iPhone OS"),
      "ProductType": .string("iPhone14,2"),
      "ProductVersion": .string("18.0"),
      "ProtocolVersion": .string("2"),
      "UniqueDeviceID": .string(udid),
      "WiFiAddress": .string("02:00:00:00:00:00"),
    ]
  }

  /// A key of nobody, made for this file: tools that pair make a certificate for it before they ask.
  private static let publicKey = """
    -----BEGIN RSA PUBLIC KEY-----
    MIGJAoGBAMGzbkkass6Rb4aIwKDKf/s7SWQ36bSlIyDm4wEejAuKPkwJAO6MVyJO
    mZgApVzYOUrytFfMdELtBdFIYokjKu9kYOFjWFyukdLK5cYaCqrYFCXV8facCOIZ
    /y+nGQbKm3MkahIeOfRRbQb6pmLqtp+FIEPrREP7/VDwVMj9G8MlAgMBAAE=
    -----END RSA PUBLIC KEY-----

    """

  package var isFinished: Bool { isBroken && output.isEmpty }

  package mutating func receive(_ bytes: Span<UInt8>) -> Int {
    guard !isBroken else { return bytes.count }
    let taken = input.append(bytes)
    while output.isEmpty, let request = nextRequest() { answer(request) }
    return taken
  }

  package mutating func produce(into bytes: inout ContiguousArray<UInt8>, limit: Int) {
    output.move(min(limit, output.count), to: &bytes)
    while output.isEmpty, let request = nextRequest() { answer(request) }
  }

  /// The next whole request, if it is there.
  private mutating func nextRequest() -> [UInt8]? {
    var request: [UInt8]?
    var broken = false
    input.take { bytes in
      guard bytes.count >= Self.lengthSize else { return 0 }
      let length = (0..<Self.lengthSize).reduce(0) { $0 << 8 | Int(bytes[$1]) }
      guard length <= Self.longestRequest else {
        broken = true
        return bytes.count
      }
      let end = Self.lengthSize + length
      guard bytes.count >= end else { return 0 }
      request = (Self.lengthSize..<end).map { bytes[$0] }
      return end
    }
    if broken { isBroken = true }
    return request
  }

  private mutating func answer(_ request: [UInt8]) {
    guard let list = try? PropertyList(parsing: request), let dictionary = list.dictionary,
      let name = dictionary["Request"]?.string
    else {
      isBroken = true
      return
    }
    send(reply(to: name, dictionary))
  }

  private func reply(to name: String, _ request: PropertyList.Dictionary) -> PropertyList.Dictionary {
    var reply: PropertyList.Dictionary = ["Request": .string(name)]
    switch name {
    case "QueryType": reply["Type"] = .string("com.apple.mobile.lockdown")
    case "GetValue":
      guard let key = request["Key"]?.string else {
        reply["Value"] = .dictionary(request["Domain"] == nil ? values : [:])
        break
      }
      reply["Key"] = .string(key)
      if request["Domain"] == nil, let value = values[key] {
        reply["Value"] = value
      } else {
        reply["Error"] = .string("MissingValue")
      }
    // The dialog stays open: nobody sits at a simulated phone.
    case "Pair": reply["Error"] = .string("PairingDialogResponsePending")
    case "StartSession", "ValidatePair", "Unpair": reply["Error"] = .string("InvalidHostID")
    case "StartService": reply["Error"] = .string("SessionInactive")
    case "Goodbye": break
    default: reply["Error"] = .string("InvalidRequest")
    }
    return reply
  }

  private mutating func send(_ reply: PropertyList.Dictionary) {
    guard let body = try? PropertyList.dictionary(reply).xml() else {
      isBroken = true
      return
    }
    var message = [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: body.count >> $0) }
    message += body
    output.append { bytes, limit in if message.count <= limit { bytes.append(contentsOf: message) } }
  }
}
