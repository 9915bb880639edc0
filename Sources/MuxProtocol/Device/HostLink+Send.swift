/// Sending.
extension HostLink {
  /// Bytes that ``frameData(_:payloadCount:into:)`` writes and that must be free in front of payload.
  package var dataHeaderSize: Int {
    MuxHeader.size(version ?? .two) + SegmentHeader.size
  }

  /// Payload bytes that fit into a packet.
  var maximumPayload: Int {
    configuration.maximumPacketSize - dataHeaderSize
  }

  /// Payload bytes that may be framed in one packet now: what the device's window still holds, at most
  /// what fits into a packet. Zero if the session is not open.
  package func sendable(_ session: SessionID) -> Int {
    guard let index = sessions.index(of: session) else { return 0 }
    return min(sessions[index].room, maximumPayload)
  }

  /// Appends the headers of a packet whose `payloadCount` bytes of payload the driver puts behind them.
  /// It carries the session's acknowledgement, too.
  ///
  /// - Throws: ``LinkError/notSendable(requested:allowed:)``, ``LinkError/notOpen(_:)`` or
  ///   ``LinkError/noRoom(needed:)``; nothing has been written or counted then.
  package mutating func frameData(
    _ session: SessionID, payloadCount: Int, into output: inout OutputSpan<UInt8>
  ) throws(LinkError) {
    guard let index = sessions.index(of: session), sessions.isOpen(session) else {
      throw .notOpen(session)
    }
    let allowed = min(sessions[index].room, maximumPayload)
    guard payloadCount > 0, payloadCount <= allowed else {
      throw .notSendable(requested: payloadCount, allowed: allowed)
    }
    guard output.freeCapacity >= dataHeaderSize else {
      throw .noRoom(needed: dataHeaderSize)
    }
    counters.payloadBytesSent += UInt64(payloadCount)
    sendSegment(index, payloadCount: payloadCount, into: &output)
  }

  /// Whether ``nextPacket(into:)`` has something.
  package var hasPendingPackets: Bool {
    versionPending || setupPending || !ready.isEmpty || !strangers.isEmpty
  }

  /// Bytes that are enough for any packet of ``nextPacket(into:)``.
  package static let maximumControlPacketSize = MuxHeader.longSize + SegmentHeader.size

  /// Appends the next packet that carries no payload: VERSION, SETUP, SYN, an acknowledgement or RST.
  ///
  /// What waits to be sent is bounded by the number of sessions: acknowledgements replace one another,
  /// and the answers to strangers are capped.
  ///
  /// - Returns: False if there is none, or not ``maximumControlPacketSize`` bytes of room.
  package mutating func nextPacket(into output: inout OutputSpan<UInt8>) -> Bool {
    guard output.freeCapacity >= Self.maximumControlPacketSize else { return false }
    if versionPending {
      versionPending = false
      counters.packetsSent += 1
      MuxHeader(content: .version, length: UInt32(MuxHeader.shortSize + VersionMessage.size))
        .encode(into: &output)
      VersionMessage(major: MuxVersion.two.rawValue).encode(into: &output)
      return true
    }
    if setupPending {
      setupPending = false
      beginPacket(.setup, bodyCount: SetupMessage.size, into: &output)
      output.append(SetupMessage.value)
      return true
    }
    if let segment = strangers.removeFirst() {
      beginPacket(.tcp, bodyCount: SegmentHeader.size, into: &output)
      segment.encode(into: &output)
      return true
    }
    while let index = ready.removeFirst() {
      if sendSegment(of: index, into: &output) { return true }
    }
    return false
  }

  /// Sends what the session's state asks for.
  private mutating func sendSegment(of index: Int, into output: inout OutputSpan<UInt8>) -> Bool {
    switch sessions[index].state {
    case .connecting(synSent: false):
      sessions[index].sentSYN()
      sendSegment(
        index, .syn, sequence: Session.initialSequence, acknowledgement: SequenceNumber(0),
        into: &output)
      return true
    case .open:
      sendSegment(index, payloadCount: 0, into: &output)
      return true
    case .closing(let sequence, let acknowledgement):
      sendSegment(index, .rst, sequence: sequence, acknowledgement: acknowledgement, into: &output)
      sessions.remove(index)
      return true
    case .connecting(synSent: true), .ended, .closed:
      return false
    }
  }

  /// A segment of an open session. Every one carries the latest acknowledgement, so none is owed after
  /// it.
  private mutating func sendSegment(
    _ index: Int, payloadCount: Int, into output: inout OutputSpan<UInt8>
  ) {
    guard let (sequence, acknowledgement) = sessions[index].send(payloadCount) else { return }
    acknowledging.cancel(index)
    ready.remove(index)
    sendSegment(
      index, .ack, sequence: sequence, acknowledgement: acknowledgement, payloadCount: payloadCount,
      into: &output)
  }

  private mutating func sendSegment(
    _ index: Int, _ flags: TCPFlags, sequence: SequenceNumber, acknowledgement: SequenceNumber,
    payloadCount: Int = 0, into output: inout OutputSpan<UInt8>
  ) {
    beginPacket(.tcp, bodyCount: SegmentHeader.size + payloadCount, into: &output)
    SegmentHeader(
      source: sessions[index].id.hostPort, destination: sessions[index].devicePort,
      sequence: sequence, acknowledgement: acknowledgement, flags: flags, window: window
    ).encode(into: &output)
  }

  /// Writes a packet's mux header and numbers the packet.
  private mutating func beginPacket(
    _ content: MuxContent, bodyCount: Int, into output: inout OutputSpan<UInt8>
  ) {
    counters.packetsSent += 1
    let numbers = version == .two ? numbers.next() : nil
    let size = numbers == nil ? MuxHeader.shortSize : MuxHeader.longSize
    MuxHeader(content: content, length: UInt32(size + bodyCount), numbers: numbers)
      .encode(into: &output)
  }
}
