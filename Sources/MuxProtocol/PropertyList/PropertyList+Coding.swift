extension PropertyList {
  /// Reads XML (with or without byte order mark, declaration and final newline) or the binary form.
  ///
  /// - Throws: ``PropertyListError``.
  package init(parsing bytes: Span<UInt8>, limits: PropertyListLimits = .standard) throws(PropertyListError) {
    guard !bytes.isEmpty else { throw .empty }
    guard bytes.count <= limits.bytes, let count = UInt32(exactly: bytes.count) else {
      throw .tooLarge(bytes: bytes.count, limit: limits.bytes)
    }
    let root: PropertyListNode?
    if BinaryPropertyListScreen.recognizes(bytes) {
      var screen = BinaryPropertyListScreen(limits: limits)
      try screen.check(bytes)
      root = unsafe bytes.withUnsafeBytes { unsafe PropertyListNode(binary: $0, count: count) }
    } else {
      let start = try XMLPropertyListScreen(limits: limits).check(bytes)
      root = unsafe bytes.extracting(start...).withUnsafeBytes {
        unsafe PropertyListNode(xml: $0, count: UInt32(truncatingIfNeeded: $0.count))
      }
    }
    guard let root else { throw .refused }
    self = try root.value(depth: limits.depth)
  }

  /// As ``init(parsing:limits:)``.
  package init(parsing bytes: [UInt8], limits: PropertyListLimits = .standard) throws(PropertyListError) {
    try self.init(parsing: bytes.span, limits: limits)
  }
}

extension PropertyList {
  /// XML with Apple's document type, as all programs of this protocol read it.
  ///
  /// - Throws: ``PropertyListError/notWritable``.
  package func xml() throws(PropertyListError) -> [UInt8] {
    guard let bytes = try PropertyListNode(building: self).xml() else { throw .notWritable }
    return bytes
  }

  /// The binary form.
  ///
  /// - Throws: ``PropertyListError/notWritable``.
  package func binary() throws(PropertyListError) -> [UInt8] {
    guard let bytes = try PropertyListNode(building: self).binary() else { throw .notWritable }
    return bytes
  }
}
