/// The name of a pair record, which is a phone's UDID.
///
/// A record ID names a file, so anything that is not `[0-9A-Za-z-]` is refused, and so is the name under
/// which the host's own identity lies in the same directory.
package struct RecordID: Hashable, Sendable, CustomStringConvertible {
  /// The longest name that is accepted, in bytes; a UDID has 40 at most.
  package static let maximumLength = 64

  package let description: String

  /// - Throws: ``RecordIDError``.
  package init(_ text: String) throws(RecordIDError) {
    guard !text.isEmpty else { throw .empty }
    guard text.utf8.count <= Self.maximumLength else { throw .tooLong(bytes: text.utf8.count) }
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"):
        continue
      default: throw .unexpectedCharacter
      }
    }
    // Without regard to case: file systems on macOS have none.
    guard text.lowercased() != "systemconfiguration" else { throw .reserved }
    description = text
  }

  /// The record of this phone, or nil for a phone whose name cannot be a file's.
  package init?(_ udid: UDID) {
    guard let record = try? RecordID(udid.description) else { return nil }
    self = record
  }
}

/// Why a text cannot name a pair record.
package enum RecordIDError: Error, Hashable, Sendable {
  case empty
  case tooLong(bytes: Int)
  case unexpectedCharacter
  case reserved
}
