import Foundation

/// What a server on the phone does with a connection.
struct Service: Sendable {
  enum Start: Sendable, Equatable {
    case atOnce
    /// After an empty line, as in HTTP.
    case afterHeader
    case afterBytes(Int)
  }

  enum Finish: Sendable, Equatable {
    case never
    /// The app closes as soon as everything is sent.
    case whenSent
    /// The app closes when everything is sent and this much has come in.
    case whenReceived(Int)
  }

  var echoes = false
  /// Without this the server is stuck: it never takes a byte.
  var reads = true
  /// Compares what comes in with `Pattern`.
  var checks = false
  /// How fast it reads, in bytes per second.
  var readRate: Int?
  /// How many pattern bytes it sends.
  var sends = 0
  var start = Start.atOnce
  /// Sends pieces of this size at this interval (seconds) instead of all that fits.
  var pace: (size: Int, interval: Double)?
  var finish = Finish.never

  static let echo = Service(echoes: true)
  static let discard = Service(checks: true)
  static let stuck = Service(reads: false)
  static let endless = Service(sends: .max)
  /// Takes the connection and closes it at once.
  static let hangUp = Service(finish: .whenSent)

  static func slowDiscard(_ bytesPerSecond: Int) -> Service {
    Service(checks: true, readRate: bytesPerSecond)
  }
  static func send(_ count: Int, finish: Finish = .whenSent) -> Service {
    Service(sends: count, finish: finish)
  }
  /// Reads a request up to its empty line, then answers.
  static func answer(_ count: Int, finish: Finish = .whenSent) -> Service {
    Service(sends: count, start: .afterHeader, finish: finish)
  }
  /// Sends and receives at once; closes when both are complete.
  static func exchange(sends: Int, receives: Int) -> Service {
    Service(checks: true, sends: sends, finish: .whenReceived(receives))
  }
}

/// A port of a phone: what usbmuxd says to a Connect, and what serves the stream.
struct Port: Sendable {
  enum Verdict: Sendable, Equatable {
    case accept
    case refuse(UInt32)
    /// The Connect is never answered.
    case silence
  }

  var verdict = Verdict.accept
  /// Seconds until the verdict.
  var delay = 0.0
  var service = Service.echo

  static func open(_ service: Service, after delay: Double = 0) -> Port {
    Port(delay: delay, service: service)
  }
  static func refusing(_ code: UInt32 = 3, after delay: Double = 0) -> Port {
    Port(verdict: .refuse(code), delay: delay)
  }
  static let silent = Port(verdict: .silence)
}

/// A phone as usbmuxd lists it.
struct FakeDevice: Sendable {
  enum Kind: Sendable {
    case usb
    /// Reached over Wi-Fi, at this BSD socket address.
    case network([UInt8])
  }

  var id: Int
  var serial: String
  var kind = Kind.usb
  /// Ports of this phone only; others are looked up in the mux's table.
  var ports: [UInt16: Port] = [:]

  var properties: [String: Any] {
    switch kind {
    case .usb:
      [
        "ConnectionType": "USB", "ConnectionSpeed": 480_000_000, "DeviceID": id, "LocationID": 0x10000 | id,
        "ProductID": 0x12a8, "SerialNumber": serial,
      ]
    case .network(let address):
      [
        "ConnectionType": "Network", "DeviceID": id, "SerialNumber": serial, "NetworkAddress": Data(address),
        "InterfaceIndex": 2, "EscapedFullServiceName": "aa:bb:cc:dd:ee:ff@fe80::1._apple-mobdev2._tcp.local.",
      ]
    }
  }

  var announcement: [String: Any] { ["MessageType": "Attached", "DeviceID": id, "Properties": properties] }

  /// The BSD sockaddr of an address, as Apple's daemon gives it: 128 bytes, padded.
  static func networkAddress(_ endpoint: Endpoint) -> [UInt8] {
    var blob = [UInt8](repeating: 0, count: 128)
    switch endpoint {
    case .ipv4(let host, _):
      blob[0] = 16
      blob[1] = 2
      inet_pton(AF_INET, host, &blob[4])
    case .ipv6(let host, _):
      blob[0] = 28
      blob[1] = 30
      inet_pton(AF_INET6, host, &blob[8])
    case .unix:
      break
    }
    return blob
  }
}

/// Messages that can be answered in an unusual way.
enum RequestKind: Hashable, Sendable, CaseIterable {
  case listen, listDevices, connect, other
  /// Not a request: Attached and Detached as they happen.
  case event
}

/// How a reply is put on the wire.
enum ReplyStyle: Sendable, Equatable {
  case normal
  case oneByteAtATime
  /// As usbmuxd2 did: a property list under header version 0.
  case headerVersion0
  case binaryPropertyList
  /// Unknown keys beside the known ones.
  case decorated
  case wrongTag
  /// The header says this length, whatever follows.
  case length(UInt32)
  case garbage
  /// Random bytes.
  case noise(seed: UInt64)
  /// This many bytes of the reply, then the end.
  case cut(after: Int)
  /// A dictionary without the keys that matter.
  case empty
  /// The keys that matter, with values of other types.
  case wrongTypes
  case silence
  case hangUp
}

/// A Connect as it came in.
struct ConnectRequest: Sendable {
  var deviceID: Int
  /// `PortNumber` as written in the message.
  var rawPort: Int
  var port: UInt16
  var time: Double
  var keys: Set<String>
}

/// What a stream has done, for the test to look at.
struct StreamReport: Sendable {
  enum End: Sendable, Equatable {
    /// The program behind the mux socket closed (or shut down) it.
    case byClient
    /// ... with unread bytes, or RST.
    case byClientReset
    case byApp
    case byDetach
    case byDeath
  }

  var deviceID: Int
  var port: UInt16
  var received = 0
  var sent = 0
  /// Position of the first byte that was not as sent.
  var mismatch: Int?
  var end: End?
  var openedAt: Double
  var endedAt: Double?
}
