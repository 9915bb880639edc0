package struct HostLink: ~Copyable, Sendable {
  package init(configuration: LinkConfiguration, firstPort: UInt16) {}
  package mutating func start(at now: Instant) {}
  package mutating func nextEvent(
    in transfer: Span<UInt8>, cursor: inout Int, at now: Instant
  ) -> LinkEvent? { nil }
  package mutating func nextEvent(at now: Instant) -> LinkEvent? { nil }
  package var nextDeadline: Instant? { nil }
  package mutating func advance(to now: Instant) {}
  package mutating func connect(port: UInt16, at now: Instant) throws(LinkError) -> SessionID { throw .notUp }
  package mutating func close(_ session: SessionID) {}
  package func sendable(_ session: SessionID) -> Int { 0 }
  package var dataHeaderSize: Int { 36 }
  package mutating func frameData(
    _ session: SessionID, payloadCount: Int, into output: inout OutputSpan<UInt8>
  ) throws(LinkError) {}
  package mutating func consumed(_ session: SessionID, count: Int, at now: Instant) {}
  package var hasPendingPackets: Bool { false }
  /// Bytes that are enough for any packet of ``nextPacket(into:)``.
  package static let maximumControlPacketSize = 36
  package mutating func nextPacket(into output: inout OutputSpan<UInt8>) -> Bool { false }
  package var sessionCount: Int { 0 }
  package var version: MuxVersion? { nil }
  package var counters: LinkCounters { LinkCounters() }
}
