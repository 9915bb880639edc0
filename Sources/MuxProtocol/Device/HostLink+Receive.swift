/// What becomes of the payload of the packet that is coming in.
enum PayloadUse: Equatable, Sendable {
  case skip
  /// For the local reader; `finishing` when the device sends no more.
  case deliver(SessionID, finishing: Bool)
  case version
  case control
  /// The text of a RST.
  case reason(SessionID, refused: Bool)
}

/// Receiving.
extension HostLink {
  /// Goes on reading a transfer at `cursor`, which is moved. Call it until it returns nil, when the
  /// cursor is at the transfer's end; ranges in events are of this transfer.
  package mutating func nextEvent(
    in transfer: Span<UInt8>, cursor: inout Int, at now: Instant
  ) -> LinkEvent? {
    notice(now)
    cursor = min(max(cursor, 0), transfer.count)
    while true {
      if let event = events.removeFirst() {
        return event
      }
      guard state != .failed, let step = assembler.next(in: transfer, cursor: &cursor) else {
        cursor = transfer.count
        return nil
      }
      switch step {
      case .head(let head):
        counters.packetsReceived += 1
        payloadUse = begin(head)
        if head.payloadCount == 0 { endPayload() }
      case .payload(let range, let isLast):
        let event = usePayload(range, of: transfer)
        if isLast { endPayload() }
        if let event { return event }
      case .lost(let length):
        fail(.framingLost(length: length))
      }
    }
  }

  /// Decides about a packet whose headers are complete.
  private mutating func begin(_ head: PacketHead) -> PayloadUse {
    switch head.content {
    case .version:
      text.begin(limit: VersionMessage.size)
      return .version
    case .control:
      guard accept(head.numbers, isOurs: false) else { return .skip }
      text.begin(limit: CollectedText.usualLimit)
      return .control
    case .segment(let segment):
      let index = sessions.index(hostPort: segment.destination, devicePort: segment.source)
      guard accept(head.numbers, isOurs: index != nil) else { return .skip }
      guard let index else {
        answerStranger(segment)
        return .skip
      }
      return receive(segment, payloadCount: head.payloadCount, index: index)
    case .useless(let note):
      guard accept(head.numbers, isOurs: false) else { return .skip }
      counters.discarded += 1
      events.append(.note(note))
      return .skip
    }
  }

  /// "A device's tx_seq that is not the expected next one means a lost or repeated packet: a repeated
  /// one is discarded, a gap is logged."
  private mutating func accept(_ received: MuxHeader.Numbers?, isOurs: Bool) -> Bool {
    guard let received else { return true }
    switch numbers.receive(received, isOurs: isOurs) {
    case .inOrder:
      return true
    case .gap(let expected):
      counters.gaps += 1
      events.append(.note(.gap(expected: expected, found: received.transmitted)))
      return true
    case .repeated:
      counters.repeats += 1
      counters.discarded += 1
      events.append(.note(.repeated(received.transmitted)))
      return false
    }
  }

  private mutating func receive(
    _ segment: SegmentHeader, payloadCount: Int, index: Int
  ) -> PayloadUse {
    let id = sessions[index].id
    let verdict = sessions[index].receive(
      segment, payloadCount: payloadCount, window: window, usefulRoom: maximumPayload)
    switch verdict {
    case .ignored:
      counters.discarded += 1
      return .skip
    case .stranger:
      answerStranger(segment)
      return .skip
    case .opened:
      counters.sessionsOpened += 1
      connecting.cancel(index)
      // "Host answers ACK."
      ready.append(index)
      events.append(.opened(id))
      return .deliver(id, finishing: false)
    case .refused:
      counters.sessionsRefused += 1
      connecting.cancel(index)
      ready.remove(index)
      text.begin(limit: CollectedText.usualLimit)
      return .reason(id, refused: true)
    case .continued(let roomGrew):
      if roomGrew { events.append(.sendableChanged(id)) }
      return .deliver(id, finishing: false)
    case .finished(let roomGrew):
      if roomGrew { events.append(.sendableChanged(id)) }
      return .deliver(id, finishing: true)
    case .reset:
      acknowledging.cancel(index)
      ready.remove(index)
      text.begin(limit: CollectedText.usualLimit)
      return .reason(id, refused: false)
    case .violated(let violation):
      // "A protocol error of that connection, not of the link."
      counters.sessionsViolated += 1
      reset(index)
      events.append(.closed(id, .violated(violation)))
      return .skip
    }
  }

  private mutating func usePayload(_ range: Range<Int>, of transfer: Span<UInt8>) -> LinkEvent? {
    switch payloadUse {
    case .skip:
      return nil
    case .deliver(let id, _):
      // The driver may have closed the session between two pieces of a packet.
      guard sessions.isOpen(id) else { return nil }
      counters.payloadBytesReceived += UInt64(range.count)
      return .payload(id, range)
    case .version, .control, .reason:
      text.append(transfer.extracting(range))
      return nil
    }
  }

  /// The packet is complete.
  private mutating func endPayload() {
    let use = payloadUse
    payloadUse = .skip
    switch use {
    case .skip, .deliver(_, finishing: false):
      break
    case .deliver(let id, finishing: true):
      // "Should a device send FIN, deliver its data, then the end."
      guard let index = sessions.index(of: id), sessions.isOpen(id) else { break }
      reset(index)
      events.append(.closed(id, .finished))
    case .version:
      let body = text.take()
      receiveVersion(body.span)
    case .control:
      receiveControl()
    case .reason(let id, let refused):
      guard let index = sessions.index(of: id) else { break }
      let reason = text.string()
      forget(index)
      events.append(refused ? .refused(id, reason: reason) : .closed(id, .resetByDevice(reason: reason)))
    }
  }

  /// "First payload byte is a kind, the rest is text. Empty payloads occur."
  private mutating func receiveControl() {
    if version == nil { text.dropLongHeader() }
    guard let kind = text.removeFirst() else { return }
    events.append(.message(ControlKind(kind), text.string()))
  }

  /// "An unexpected segment (unknown pair) gets a RST with ack = its seq."
  private mutating func answerStranger(_ segment: SegmentHeader) {
    counters.strangers += 1
    counters.discarded += 1
    events.append(
      .note(.stranger(hostPort: segment.destination, devicePort: segment.source, segment.flags)))
    // Two sides that answer RST by RST would never stop.
    guard !segment.flags.contains(.rst) else { return }
    if !strangers.append(segment) { counters.strangersUnanswered += 1 }
  }
}
