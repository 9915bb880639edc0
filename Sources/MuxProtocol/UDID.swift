/// The name of a phone that never changes, as people and programs write it.
///
/// Newer devices have 24 hexadecimal digits, written in upper case as 8 digits, a dash and 16 digits;
/// older ones have 40 digits in lower case. The USB serial number and older multiplexers leave the dash
/// out, and users type what they please: every spelling of one phone makes the same `UDID`.
///
/// A device that names itself in some other way (restore mode, a T2 chip) keeps that name.
public struct UDID: Hashable, Sendable, CustomStringConvertible {
  /// The canonical spelling.
  public let description: String

  /// Reads what a user typed or a program passed: 24 or 40 hexadecimal digits in any case, the former
  /// with or without a dash after the eighth.
  ///
  /// - Throws: ``UDIDFormatError`` when the text has any other shape.
  public init(parsing text: some StringProtocol) throws(UDIDFormatError) {
    let digits = try HexadecimalDigits(parsing: text)
    guard let canonical = digits.canonical else {
      throw .incomplete(text: String(text), digits: digits.count)
    }
    description = canonical
  }

  /// Reads what a device or a daemon calls a serial number. Nothing is refused here: trailing NULs are cut
  /// off, characters that do not belong into a line of text are dropped, and what is not of the two known
  /// shapes is kept as it is.
  ///
  /// A phone in restore mode reports nothing but `f`, which would make all of them one phone; such a serial
  /// number ends in `location` instead, the USB location (bus number << 16 | device address).
  package init(serialNumber: some StringProtocol, location: UInt32 = 0) {
    let text = Self.cleaned(serialNumber)
    guard let digits = try? HexadecimalDigits(parsing: text), let canonical = digits.canonical else {
      description = text
      return
    }
    guard digits.isAllF else {
      description = canonical
      return
    }
    let hex = String(location, radix: 16)
    let suffix = String(repeating: "0", count: 8 - min(hex.utf8.count, 8)) + hex
    let unique = HexadecimalDigits(unchecked: digits.lowercase.dropLast(8) + suffix)
    description = unique.canonical ?? canonical
  }

  /// The serial number without what cannot be shown: everything from the first NUL on, control characters.
  package static func cleaned(_ serialNumber: some StringProtocol) -> String {
    var text = String.UnicodeScalarView()
    for scalar in serialNumber.unicodeScalars.prefix(while: { $0 != "\0" }) {
      if scalar.value >= 0x20, !(0x7F...0x9F).contains(scalar.value) { text.append(scalar) }
    }
    return String(text)
  }

  /// What is compared with a prefix: no dash, lower case.
  var comparable: String { HexadecimalDigits.comparable(description) }
}

/// Why a text is not a UDID or the beginning of one.
public enum UDIDFormatError: Error, Hashable, Sendable, CustomStringConvertible {
  /// There is nothing in it.
  case empty
  /// Something other than hexadecimal digits and a dash after the eighth digit.
  case unexpectedCharacter(text: String)
  /// Digits only, but neither 24 nor 40 of them.
  case incomplete(text: String, digits: Int)
  /// More than 40 digits.
  case tooLong(digits: Int)

  /// One line for a person.
  public var description: String {
    switch self {
    case .empty:
      "an empty UDID; it has 24 or 40 hexadecimal digits"
    case .unexpectedCharacter(let text):
      "\"\(text)\" is not a UDID: it has 24 hexadecimal digits, with a dash after the eighth, or 40"
    case .incomplete(let text, let digits):
      "\"\(text)\" has \(digits) digits; a UDID has 24 or 40 hexadecimal digits"
    case .tooLong(let digits):
      "\(digits) digits are too many for a UDID, which has 24 or 40"
    }
  }
}

/// Hexadecimal digits without the dash, in lower case: the shape that all comparisons use.
struct HexadecimalDigits {
  let lowercase: String

  var count: Int { lowercase.utf8.count }
  var isAllF: Bool { lowercase.utf8.allSatisfy { $0 == UInt8(ascii: "f") } }

  /// 8-16 with a dash for 24 digits, the digits themselves for 40, nil for any other number.
  var canonical: String? {
    switch count {
    case 24:
      let upper = lowercase.uppercased()
      return "\(upper.prefix(8))-\(upper.dropFirst(8))"
    case 40: return lowercase
    default: return nil
    }
  }

  init(unchecked lowercase: String) {
    self.lowercase = lowercase
  }

  init(parsing text: some StringProtocol) throws(UDIDFormatError) {
    guard !text.isEmpty else { throw .empty }
    var digits = ""
    var count = 0
    for (offset, character) in text.utf8.enumerated() {
      switch character {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
        UInt8(ascii: "A")...UInt8(ascii: "F"):
        count += 1
        if count <= 40 { digits.unicodeScalars.append(Unicode.Scalar(character)) }
      case UInt8(ascii: "-") where offset == 8: continue
      default: throw .unexpectedCharacter(text: Self.excerpt(text))
      }
    }
    guard count <= 40 else { throw .tooLong(digits: count) }
    // The dash belongs to the form of 24 digits, which a prefix may not have reached.
    if text.utf8.count != count, count > 24 { throw .unexpectedCharacter(text: Self.excerpt(text)) }
    lowercase = digits.lowercased()
  }

  static func comparable(_ text: String) -> String {
    text.lowercased().filter { $0 != "-" }
  }

  /// An error message repeats a bounded part of what it complains of.
  private static func excerpt(_ text: some StringProtocol) -> String {
    text.count <= 48 ? UDID.cleaned(text) : UDID.cleaned(text.prefix(48)) + "..."
  }
}
