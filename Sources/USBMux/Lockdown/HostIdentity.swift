/// What phones know this host by.
///
/// Protocol: `SystemConfiguration.plist`, key `SystemBUID`: an upper-case UUID made on first use.
struct HostIdentity: Equatable {
  static let fileName = "SystemConfiguration.plist"
  private static let key = "SystemBUID"
  /// What is taken for an identity, bytes; a UUID has 36.
  private static let maximumLength = 64

  let text: String

  private init(text: String) { self.text = text }

  /// A new one: a UUID of version 4.
  static func random(using generator: inout some RandomNumberGenerator) -> HostIdentity {
    var text = ""
    for index in 0..<16 {
      var byte = UInt8.random(in: 0...255, using: &generator)
      // RFC 9562: the version in the upper half of byte 6, the variant in the upper bits of byte 8.
      if index == 6 { byte = byte & 0x0F | 0x40 }
      if index == 8 { byte = byte & 0x3F | 0x80 }
      if [4, 6, 8, 10].contains(index) { text += "-" }
      let digits = String(byte, radix: 16, uppercase: true)
      text += byte < 16 ? "0" + digits : digits
    }
    return HostIdentity(text: text)
  }

  static func random() -> HostIdentity {
    var generator = SystemRandomNumberGenerator()
    return random(using: &generator)
  }

  /// The identity in a file; nil when there is none in it.
  init?(file: [UInt8]) {
    guard let text = (try? PropertyList(parsing: file))?.dictionary?[Self.key]?.string, !text.isEmpty,
      text.utf8.count <= Self.maximumLength
    else { return nil }
    self.text = text
  }

  /// The file with this identity in it. What else is in `old` stays, where it can be written.
  func file(replacing old: [UInt8]?) throws(PropertyListError) -> [UInt8] {
    var dictionary = old.flatMap { try? PropertyList(parsing: $0) }?.dictionary ?? [:]
    dictionary[Self.key] = .string(text)
    if let bytes = try? PropertyList.dictionary(dictionary).xml() { return bytes }
    return try PropertyList.dictionary([Self.key: .string(text)]).xml()
  }
}
