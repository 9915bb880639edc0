/// Looks through XML before libplist does, and refuses what the library would pay too much for.
///
/// The library frees its trees by recursion, in version 2.2 without a limit: 600,000 nested arrays, which fit
/// into 4 MiB, overflow the stack. It also moves the rest of a text for every entity in it, which takes hours
/// for 4 MiB of `&lt;`. It is lenient about what it takes for a tag, a comment or a CDATA section, so that a
/// second reading of the structure could be led astray. What counts here is only what no reading can hide:
/// every `<` that may open a value, every `<a` and `<d` that may open a container, every `&`.
struct XMLPropertyListScreen {
  let limits: PropertyListLimits

  /// - Returns: The offset at which the library is to begin: behind a byte order mark, which it does not know.
  /// - Throws: ``PropertyListError``.
  func check(_ bytes: Span<UInt8>) throws(PropertyListError) -> Int {
    let start = Self.afterByteOrderMark(bytes)
    var values = 0
    var containers = 0
    var entities = 0
    for offset in start..<bytes.count {
      switch bytes[offset] {
      case UInt8(ascii: "<"):
        guard offset + 1 < bytes.count else { throw .malformed(offset: offset) }
        switch bytes[offset + 1] {
        case UInt8(ascii: "/"), UInt8(ascii: "!"), UInt8(ascii: "?"): continue
        case UInt8(ascii: "a"), UInt8(ascii: "d"): containers += 1
        default: break
        }
        values += 1
      case UInt8(ascii: "&"): entities += 1
      // No XML has one, and the library's strings would end there.
      case 0: throw .malformed(offset: offset)
      default: continue
      }
      guard values <= limits.values else { throw .tooManyValues(limit: limits.values) }
      guard containers <= limits.containers else { throw .tooManyContainers(limit: limits.containers) }
      guard entities <= limits.entities else { throw .tooManyEntities(limit: limits.entities) }
    }
    return start
  }

  private static func afterByteOrderMark(_ bytes: Span<UInt8>) -> Int {
    bytes.count >= 3 && bytes[0] == 0xEF && bytes[1] == 0xBB && bytes[2] == 0xBF ? 3 : 0
  }
}
