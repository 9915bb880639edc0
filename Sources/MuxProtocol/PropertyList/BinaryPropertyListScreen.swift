/// Looks through a binary property list before libplist does.
struct BinaryPropertyListScreen {
  let limits: PropertyListLimits

  static func recognizes(_ bytes: Span<UInt8>) -> Bool {
    let magic = Array("bplist".utf8)
    return bytes.count >= magic.count && magic.indices.allSatisfy { bytes[$0] == magic[$0] }
  }

  mutating func check(_ bytes: Span<UInt8>) throws(PropertyListError) {
  }
}
