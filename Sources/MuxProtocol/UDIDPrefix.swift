/// The beginning of a UDID, up to the whole of it, by which a user names a phone.
public struct UDIDPrefix: Hashable, Sendable, CustomStringConvertible {
  /// As the user wrote it.
  public let description: String
  /// No dash, lower case.
  private let digits: String

  /// Reads 1 to 40 hexadecimal digits in any case, with or without the dash after the eighth.
  ///
  /// - Throws: ``UDIDFormatError`` for anything else.
  public init(parsing text: some StringProtocol) throws(UDIDFormatError) {
    digits = try HexadecimalDigits(parsing: text).lowercase
    description = String(text)
  }

  /// The prefix that is all of `udid`.
  public init(_ udid: UDID) {
    digits = udid.comparable
    description = udid.description
  }

  /// Whether the phone's UDID begins so; case and dash do not count.
  public func matches(_ udid: UDID) -> Bool {
    udid.comparable.hasPrefix(digits)
  }

  /// Whether a phone can be meant by both: one is the beginning of the other.
  package func overlaps(_ other: UDIDPrefix) -> Bool {
    digits.hasPrefix(other.digits) || other.digits.hasPrefix(digits)
  }

  /// What a prefix finds among the phones that are there.
  public enum Match: Hashable, Sendable {
    /// No phone begins so.
    case none
    /// Exactly one does, or one is exactly this.
    case one(UDID)
    /// Several do, in the order in which they were given.
    case several([UDID])
  }

  /// Finds the phone that is meant. The same phone listed twice (over USB and over the network) is one phone.
  public func find(among candidates: some Sequence<UDID>) -> Match {
    var found: [UDID] = []
    for udid in candidates where !found.contains(udid) {
      let comparable = udid.comparable
      if comparable == digits { return .one(udid) }
      if comparable.hasPrefix(digits) { found.append(udid) }
    }
    guard let first = found.first else { return .none }
    return found.count == 1 ? .one(first) : .several(found)
  }
}
