/// Names a session of one link. Never used twice on a link.
package struct SessionID: Hashable, Sendable {
  /// A small number that no other session has while this one lives, from 0 up: fit for indexing an
  /// array.
  package let index: UInt16
  /// The session's port on the host's side.
  package let hostPort: UInt16
  /// Counts the sessions of the link.
  let serial: UInt32
}

extension SessionID: CustomStringConvertible {
  package var description: String {
    "session \(serial) (host port \(hostPort))"
  }
}

/// What came out of a link.
package enum LinkEvent: Equatable, Sendable {
  /// The device agreed to a version: sessions can be opened.
  case up(MuxVersion)
  /// The link cannot be used any more. Nothing else follows, and its sessions are gone.
  case failed(LinkError)
  /// The device accepted a session.
  case opened(SessionID)
  /// The device refused a session: nobody listens on that port. The reason is the device's text, often
  /// empty.
  case refused(SessionID, reason: String)
  /// Bytes for the local reader: a range of the transfer that was passed in, not empty.
  case payload(SessionID, Range<Int>)
  /// ``HostLink/sendable(_:)`` has grown.
  case sendableChanged(SessionID)
  /// A session is over; all of its payload came before. It is unknown from here on.
  case closed(SessionID, SessionEnd)
  /// A message of the device for the log.
  case message(ControlKind, String)
  /// Something odd that does no harm beyond what it says, for the log.
  case note(LinkNote)
}

/// Why a session ended.
package enum SessionEnd: Equatable, Sendable {
  /// The device reset it. Apps that close normally look like this. The text is often empty.
  case resetByDevice(reason: String)
  /// The device sent FIN.
  case finished
  /// The device broke the protocol; the session was reset.
  case violated(SessionViolation)
  /// The device did not answer SYN in time; the session was reset.
  case connectTimeout
}

/// What a device did wrong within a session.
package enum SessionViolation: Equatable, Sendable {
  /// It acknowledged bytes that were never sent.
  case acknowledgedUnsent(by: Int)
  /// It sent more than the window that it was offered.
  case windowOverrun(by: Int)
  /// Its payload did not continue where the last one ended: bytes are missing or repeated.
  case wrongSequence(expected: UInt32, found: UInt32)
  /// A segment whose flags make no sense in the session's state.
  case unexpectedFlags(TCPFlags)
  /// A header that claims options, or less than itself.
  case malformedHeader(dataOffset: UInt8)
}

/// Why a link failed or a call was refused.
package enum LinkError: Error, Equatable, Sendable {
  /// The device speaks a version other than 1 and 2.
  case unsupportedVersion(major: UInt32)
  /// The device's VERSION answer is too short to hold one.
  case malformedVersion(byteCount: Int)
  /// The device did not answer VERSION, however often it was asked.
  case versionTimeout(attempts: Int)
  /// A packet's length cannot be (below 8 or above 65536 bytes), so nobody knows where the next one
  /// begins.
  case framingLost(length: UInt32)

  /// The link is not up (any more).
  case notUp
  /// As many sessions exist as are allowed.
  case tooManySessions(limit: Int)
  /// Port 0 cannot be connected to.
  case invalidPort
  /// No open session has this name.
  case notOpen(SessionID)
  /// The session may not send that much now, or an empty payload was to be sent.
  case notSendable(requested: Int, allowed: Int)
  /// The output has too little room for a packet's headers, in bytes.
  case noRoom(needed: Int)
}

/// An oddity on a link that the link survives.
package enum LinkNote: Equatable, Sendable {
  /// `tx_seq` jumped: packets of the device were lost.
  case gap(expected: UInt16, found: UInt16)
  /// A packet came again; it was discarded.
  case repeated(UInt16)
  /// A version 2 header without its magic number; the packet was discarded.
  case wrongMagic(UInt32)
  /// A packet too short for its headers; it was discarded.
  case shortPacket(content: UInt32, length: UInt32)
  /// A packet of a kind that is not known; it was discarded.
  case unknownContent(UInt32, length: UInt32)
  /// A packet of an earlier host's session, from before the version was agreed; it was discarded.
  case stale(content: UInt32, length: UInt32)
  /// A segment for a pair of ports that has no session; it was answered by RST unless it was one.
  case stranger(hostPort: UInt16, devicePort: UInt16, TCPFlags)
  /// The device answered VERSION once more.
  case repeatedVersion(major: UInt32)
}

/// What a link has counted since its start.
package struct LinkCounters: Equatable, Sendable {
  /// Whole packets from the device.
  package var packetsReceived: UInt64 = 0
  /// Packets that were framed or taken for sending.
  package var packetsSent: UInt64 = 0
  /// Payload bytes for local readers.
  package var payloadBytesReceived: UInt64 = 0
  /// Payload bytes that were framed.
  package var payloadBytesSent: UInt64 = 0
  /// Jumps of `tx_seq`.
  package var gaps: UInt64 = 0
  /// Repeated packets.
  package var repeats: UInt64 = 0
  /// Packets that were skipped for any reason.
  package var discarded: UInt64 = 0
  /// Segments without a session.
  package var strangers: UInt64 = 0
  /// Segments without a session that were not even answered, because too many answers were waiting.
  package var strangersUnanswered: UInt64 = 0
  /// Sessions asked for.
  package var sessionsStarted: UInt64 = 0
  /// Sessions that the device accepted.
  package var sessionsOpened: UInt64 = 0
  /// Sessions that the device refused.
  package var sessionsRefused: UInt64 = 0
  /// Sessions that ended by a violation of the device.
  package var sessionsViolated: UInt64 = 0

  package init() {}
}
