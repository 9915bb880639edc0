import MuxProtocol

/// IN.
extension PhoneLink {
  /// Whether ``nextTransfer(into:)`` has something.
  package var hasTransfers: Bool {
    packetTaken < packet.count || !notices.isEmpty || !ready.isEmpty
  }

  /// Appends the next IN transfer, at most ``PhoneBehaviour/readPieceSize`` bytes and at most what
  /// there is room for.
  ///
  /// "One USB read carries at most one mux packet or a part of one; a packet longer than 16384 arrives
  /// as 16384-byte reads followed by a shorter one", unless the phone glues packets.
  ///
  /// - Returns: False when there is nothing to send.
  package mutating func nextTransfer(into output: inout OutputSpan<UInt8>) -> Bool {
    var room = min(behaviour.readPieceSize, output.freeCapacity)
    var isEmpty = true
    while room > 0 {
      if packetTaken == packet.count {
        guard isEmpty || behaviour.gluesPackets, nextPacket() else { break }
      }
      let taken = packetTaken
      let count = output.append(copying: packet.span.extracting(droppingFirst: taken).extracting(first: room))
      packetTaken += count
      room -= count
      isEmpty = false
      if !behaviour.gluesPackets { break }
    }
    return !isEmpty
  }

  /// Makes the next packet.
  private mutating func nextPacket() -> Bool {
    packet.removeAll(keepingCapacity: true)
    packetTaken = 0
    if !notices.isEmpty {
      encode(notices.removeFirst())
      return true
    }
    while let index = ready.removeFirst() {
      if encodeSession(index) { return true }
    }
    return false
  }

  private mutating func encode(_ notice: Notice) {
    switch notice {
    case .version(let major):
      appendHeaders(MuxHeader(content: .version, length: UInt32(MuxHeader.shortSize + VersionMessage.size)))
      packet.append(addingCapacity: VersionMessage.size) { VersionMessage(major: major).encode(into: &$0) }
    case .stale(let number):
      // A segment with payload, as an old session's would be.
      let length = UInt32(MuxHeader.longSize + SegmentHeader.size + Self.stalePayload.count)
      let numbers = MuxHeader.Numbers(transmitted: UInt16(truncatingIfNeeded: 1000 + number), received: 77)
      let segment = SegmentHeader(
        source: 62078, destination: UInt16(truncatingIfNeeded: 40000 + number),
        sequence: SequenceNumber(5000), acknowledgement: SequenceNumber(300), flags: .ack,
        window: ScaledWindow(units: 512))
      appendHeaders(MuxHeader(content: .tcp, length: length, numbers: numbers), segment)
      packet.append(contentsOf: Self.stalePayload)
    case .message(let message):
      let text = message.text.utf8
      appendMux(.control, bodyCount: 1 + text.count)
      packet.append(message.kind.byte)
      packet.append(contentsOf: text)
    case .reset(let segment):
      appendMux(.tcp, bodyCount: SegmentHeader.size, segment)
    }
  }

  private static let stalePayload = ContiguousArray("left over from an earlier host".utf8)

  /// Makes the packet that a session's state asks for; one at a time for each session in turn, so that
  /// no session waits for another's bulk.
  private mutating func encodeSession(_ index: Int) -> Bool {
    switch sessions[index].state {
    case .opening, .closed:
      return false
    case .refused(let reason):
      appendReset(index, reason: reason)
      return true
    case .open, .draining, .finished:
      break
    }
    if sessions[index].owesSYN {
      sessions[index].owesSYN = false
      appendMux(.tcp, bodyCount: SegmentHeader.size, sessions[index].segment([.syn, .ack]))
      ready.append(index)
      return true
    }
    let payloadCount = min(sessions[index].room, sessions[index].outbox.count, maximumPayload)
    if payloadCount > 0 {
      let flags: TCPFlags = behaviour.pushes ? .ack.union(.psh) : .ack
      let segment = sessions[index].segment(flags, payloadCount: payloadCount)
      appendMux(.tcp, bodyCount: SegmentHeader.size + payloadCount, segment)
      sessions[index].outbox.move(payloadCount, to: &packet)
      announceRoom(index)
      ready.append(index)
      return true
    }
    if sessions[index].state == .draining, sessions[index].outbox.isEmpty {
      if behaviour.finishes {
        sessions[index].state = .finished
        appendMux(.tcp, bodyCount: SegmentHeader.size, sessions[index].segment([.fin, .ack]))
      } else {
        appendReset(index, reason: behaviour.resetReason)
      }
      return true
    }
    guard sessions[index].owesAcknowledgement || sessions[index].hasNews else { return false }
    appendMux(.tcp, bodyCount: SegmentHeader.size, sessions[index].segment(.ack))
    return true
  }

  private mutating func appendReset(_ index: Int, reason: String) {
    let text = reason.utf8.prefix(maximumPayload)
    let segment = sessions[index].segment(.rst)
    appendMux(.tcp, bodyCount: SegmentHeader.size + text.count, segment)
    packet.append(contentsOf: text)
    remove(index)
  }

  private var maximumPayload: Int {
    max(behaviour.maximumPacketSize - MuxHeader.longSize - SegmentHeader.size, 1)
  }

  private mutating func appendMux(_ content: MuxContent, bodyCount: Int, _ segment: SegmentHeader? = nil) {
    // Sessions that outlive their host go on as before until the next SETUP.
    switch segment == nil ? state : .active(MuxVersion(rawValue: behaviour.version) ?? .two) {
    case .active(.two):
      let numbers = MuxHeader.Numbers(transmitted: nextNumber, received: lastReceived)
      nextNumber &+= 1
      let length = UInt32(MuxHeader.longSize + bodyCount)
      appendHeaders(MuxHeader(content: content, length: length, numbers: numbers), segment)
    case .active(.one), .awaitingVersion, .awaitingSetup:
      let length = UInt32(MuxHeader.shortSize + bodyCount)
      appendHeaders(MuxHeader(content: content, length: length), segment)
    }
  }

  private mutating func appendHeaders(_ header: MuxHeader, _ segment: SegmentHeader? = nil) {
    packet.append(addingCapacity: header.size) { header.encode(into: &$0) }
    if let segment {
      packet.append(addingCapacity: SegmentHeader.size) { segment.encode(into: &$0) }
    }
  }
}
