/// Looks through XML before libplist does.
///
/// libplist frees its trees by recursion, without a limit in version 2.2: 600,000 nested arrays, which fit
/// into 4 MiB, overflow the stack. The library is lenient about what it takes for a tag and a comment, so
/// that a second reading of the nesting could be led astray; what counts here is only what no reading can
/// hide, every `<` that may open a container and every `<` at all.
struct XMLPropertyListScreen {
  let limits: PropertyListLimits

  /// - Returns: The offset at which the library is to begin: behind a byte order mark, which it does not know.
  func check(_ bytes: Span<UInt8>) throws(PropertyListError) -> Int {
    let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
    let start = bytes.count >= 3 && (0..<3).allSatisfy { bytes[$0] == mark[$0] } ? 3 : 0
    return start
  }
}
