package import MuxProtocol

/// How a simulated phone behaves. Tests switch on what real phones do now and then.
package struct PhoneBehaviour: Sendable {
  /// The serial number that the phone is known by.
  package var udid = "00008110-000000C0FFEE0001"
  /// The major version that it answers VERSION with.
  package var version: UInt32 = MuxVersion.two.rawValue
  /// Bytes that it takes in for a session before its app reads them.
  package var window = 128 * 1024
  /// Bytes that an app may write before the host takes them.
  package var sendBuffer = 128 * 1024
  /// Bytes of its longest packet, headers included.
  package var maximumPacketSize = 0x7ffc
  /// Bytes of its longest IN transfer. Virtual machines deliver pieces of 4096 or 512.
  package var readPieceSize = 16384
  /// Whether an IN transfer may hold more than one packet.
  package var gluesPackets = false
  /// wMaxPacketSize of the OUT endpoint: a transfer whose length is a multiple of it ends only with the
  /// next shorter one.
  package var endpointPacketSize = 512
  /// Sessions that it accepts at a time.
  package var maximumSessions = 8192
  /// The sequence number of its SYN.
  package var initialSequence: UInt32 = 0
  /// How many VERSION packets it leaves without an answer.
  package var ignoredVersions = 0
  /// How many version 2 packets of an earlier host's session it sends before its answer to VERSION.
  package var stalePackets = 0
  /// Messages that it sends once the link is up.
  package var messages: [PhoneMessage] = []
  /// Whether it sets PSH on segments with payload.
  package var pushes = false
  /// Whether an app's close becomes FIN instead of RST.
  package var finishes = false
  /// The text in RST when an app closes.
  package var resetReason = ""

  package init() {}
}

/// A CONTROL message.
package struct PhoneMessage: Sendable {
  package var kind: ControlKind
  package var text: String

  package init(_ kind: ControlKind, _ text: String) {
    self.kind = kind
    self.text = text
  }
}

/// Names a session of a simulated phone. Never used twice.
package struct PhoneSessionID: Hashable, Sendable {
  /// A small number that no other session has while this one lives.
  package let index: Int
  let serial: UInt64
}

/// What happens to sessions.
package enum PhoneEvent: Equatable, Sendable {
  /// The host wants a session: accept or refuse it.
  case opening(PhoneSessionID, port: UInt16)
  /// Bytes wait to be read. It comes again only when all have been read and more have come.
  case readable(PhoneSessionID)
  /// There is room again after fewer bytes were taken than were given.
  case writable(PhoneSessionID)
  /// The host closed the session. What it sent before that is the app's: these bytes had not been read.
  case closed(PhoneSessionID, unread: ContiguousArray<UInt8>)
}
