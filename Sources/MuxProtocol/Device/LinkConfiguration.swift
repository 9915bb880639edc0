/// What can be chosen about the host's side of a link. Values out of range are brought into it.
package struct LinkConfiguration: Sendable {
  /// Bytes that each session may have on its way to the local reader: what a phone may send before it
  /// must wait, and so the bound of memory for a session. A multiple of 256, at most
  /// ``ScaledWindow/maximumByteCount``.
  package var receiveWindow: Int
  /// Bytes of the longest packet that the host sends, headers included. Apple's hosts never exceed
  /// 0x7ffc; devices reject anything above 65535.
  package var maximumPacketSize: Int
  /// The longest time for which bytes that the local reader took stay unacknowledged.
  package var acknowledgeDelay: Duration
  /// Bytes that the local reader took after which an acknowledgement goes out at once.
  package var acknowledgeThreshold: Int
  /// How long an answer to VERSION is awaited before it is asked for again.
  package var versionTimeout: Duration
  /// How often VERSION is sent before the device is given up.
  package var versionAttempts: Int
  /// How long the answer to SYN is awaited; nil: until whoever asked for the session closes it.
  package var connectTimeout: Duration?
  /// Sessions that may exist at a time, at most 32768.
  package var maximumSessions: Int

  package init(
    receiveWindow: Int = 512 * 1024, maximumPacketSize: Int = 0x7ffc,
    acknowledgeDelay: Duration = .milliseconds(30), acknowledgeThreshold: Int? = nil,
    versionTimeout: Duration = .seconds(1), versionAttempts: Int = 4,
    connectTimeout: Duration? = .seconds(10), maximumSessions: Int = 4096
  ) {
    let window = min(max(receiveWindow, ScaledWindow.unit), ScaledWindow.maximumByteCount)
    self.receiveWindow = window / ScaledWindow.unit * ScaledWindow.unit
    self.maximumPacketSize = min(max(maximumPacketSize, Self.leastPacketSize), 65535)
    self.acknowledgeDelay = max(acknowledgeDelay, .zero)
    // A quarter: the phone learns of room long before it runs out of it, and bulk data still costs
    // one acknowledgement for several packets.
    self.acknowledgeThreshold = max(acknowledgeThreshold ?? self.receiveWindow / 4, 1)
    self.versionTimeout = max(versionTimeout, .milliseconds(1))
    self.versionAttempts = max(versionAttempts, 1)
    self.connectTimeout = connectTimeout.map { max($0, .milliseconds(1)) }
    self.maximumSessions = min(max(maximumSessions, 1), 32768)
  }

  /// Headers and one byte of payload.
  static let leastPacketSize = MuxHeader.longSize + SegmentHeader.size + 1
}
