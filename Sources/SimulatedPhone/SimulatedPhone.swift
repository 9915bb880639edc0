package struct PhoneSessionID: Hashable, Sendable {
  let index: Int
  let serial: UInt64
}

package enum PhonePort: Sendable {
  case echo, discard, characterGenerator, http
  /// The caller serves the port: it meets ``PhoneEvent``s and answers them.
  case external
}

package enum PhoneEvent: Equatable, Sendable {
  /// The host wants an external port: `accept` or `refuse` it.
  case opening(PhoneSessionID, port: UInt16)
  /// Bytes wait for `read`.
  case readable(PhoneSessionID)
  /// `write` takes bytes again after it took fewer than it was given.
  case writable(PhoneSessionID)
  /// The host closed the session.
  case closed(PhoneSessionID)
}

package struct PhoneBehaviour: Sendable {
  package var udid = "00008110-000000C0FFEE0001"
  package init() {}
}

package struct SimulatedPhone: ~Copyable, Sendable {
  package init(behaviour: PhoneBehaviour, ports: [UInt16: PhonePort]) {}
  /// Takes one OUT transfer, exactly as it was submitted; an empty one is a zero-length packet.
  package mutating func receive(_ transfer: Span<UInt8>) {}
  /// Appends the next IN transfer (at most `readPieceSize` bytes); false when there is none.
  package mutating func nextTransfer(into output: inout OutputSpan<UInt8>) -> Bool { false }
  package mutating func nextEvent() -> PhoneEvent? { nil }
  package mutating func accept(_ session: PhoneSessionID) {}
  package mutating func refuse(_ session: PhoneSessionID, reason: String) {}
  /// Appends received bytes as far as there is room, which makes room in the window.
  package mutating func read(_ session: PhoneSessionID, into output: inout OutputSpan<UInt8>) {}
  /// Returns how many bytes were taken.
  package mutating func write(_ session: PhoneSessionID, _ bytes: Span<UInt8>) -> Int { 0 }
  /// Ends the session after everything that was written.
  package mutating func close(_ session: PhoneSessionID) {}
  package var violationCount: Int { 0 }
}
