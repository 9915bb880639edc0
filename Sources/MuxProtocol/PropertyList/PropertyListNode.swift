internal import CLibPlist

/// Owns a tree of the library's nodes.
@safe
struct PropertyListNode: ~Copyable {
  private let root: UnsafeMutableRawPointer

  init?(xml bytes: UnsafeRawBufferPointer, count: UInt32) {
    guard let base = bytes.baseAddress,
      let root = unsafe propertylist_from_xml(base.assumingMemoryBound(to: CChar.self), count)
    else { return nil }
    unsafe self.root = root
  }

  init?(binary bytes: UnsafeRawBufferPointer, count: UInt32) {
    guard let base = bytes.baseAddress,
      let root = unsafe propertylist_from_binary(base.assumingMemoryBound(to: CChar.self), count)
    else { return nil }
    unsafe self.root = root
  }

  /// Builds the tree of `value`.
  ///
  /// - Throws: ``PropertyListError/notWritable``.
  init(building value: borrowing PropertyList) throws(PropertyListError) {
    unsafe root = try Self.build(value)
  }

  deinit {
    unsafe propertylist_free(root)
  }

  /// The tree as a value, whose containers may lie `depth` deep in each other.
  ///
  /// - Throws: ``PropertyListError/tooDeep(limit:)``.
  func value(depth: Int) throws(PropertyListError) -> PropertyList {
    guard let value = unsafe Self.value(of: root, depth: depth) else { throw .tooDeep(limit: depth) }
    return value
  }

  /// Nil when containers lie deeper in each other than `depth` says.
  private static func value(of node: UnsafeMutableRawPointer?, depth: Int) -> PropertyList? {
    switch unsafe propertylist_kind_of(node) {
    case propertylist_kind_boolean: return unsafe .boolean(propertylist_boolean(node))
    case propertylist_kind_integer: return unsafe .integer(Int64(bitPattern: propertylist_integer(node)))
    case propertylist_kind_real: return unsafe .real(propertylist_real(node))
    case propertylist_kind_string:
      var count: UInt64 = 0
      let bytes = unsafe propertylist_string(node, &count)
      return unsafe .string(String(decoding: buffer(bytes, count), as: UTF8.self))
    case propertylist_kind_data:
      var count: UInt64 = 0
      let bytes = unsafe propertylist_data(node, &count)
      return unsafe .data(Array(buffer(bytes, count)))
    case propertylist_kind_array:
      guard depth > 0 else { return nil }
      var items: [PropertyList] = []
      var walk = unsafe propertylist_walk_start(node)
      defer { unsafe propertylist_walk_end(&walk) }
      while unsafe walk.current != nil {
        guard let item = unsafe value(of: walk.current, depth: depth - 1) else { return nil }
        items.append(item)
        unsafe propertylist_walk_next(&walk)
      }
      return .array(items)
    case propertylist_kind_dictionary:
      guard depth > 0 else { return nil }
      var dictionary = PropertyList.Dictionary()
      var walk = unsafe propertylist_walk_start(node)
      defer { unsafe propertylist_walk_end(&walk) }
      while unsafe walk.current != nil {
        guard let item = unsafe value(of: walk.current, depth: depth - 1) else { return nil }
        if let key = unsafe walk.key { unsafe dictionary.append(String(cString: key), item) }
        unsafe propertylist_walk_next(&walk)
      }
      return .dictionary(dictionary)
    default: return .opaque
    }
  }

  private static func buffer(_ bytes: UnsafePointer<CChar>?, _ count: UInt64) -> UnsafeRawBufferPointer {
    unsafe UnsafeRawBufferPointer(start: bytes, count: bytes == nil ? 0 : Int(clamping: count))
  }

  private static func build(_ value: PropertyList) throws(PropertyListError) -> UnsafeMutableRawPointer {
    switch value {
    case .dictionary(let dictionary):
      return try unsafe container(propertylist_new_dictionary()) { node throws(PropertyListError) in
        for entry in dictionary.entries {
          unsafe propertylist_set(node, entry.key.textOnly, try build(entry.value))
        }
      }
    case .array(let items):
      return try unsafe container(propertylist_new_array()) { node throws(PropertyListError) in
        for item in items { unsafe propertylist_append(node, try build(item)) }
      }
    case .string(let text): return try unsafe made(propertylist_new_string(text.textOnly))
    case .integer(let number): return try unsafe made(propertylist_new_integer(number))
    case .boolean(let flag): return try unsafe made(propertylist_new_boolean(flag))
    case .real(let number): return try unsafe made(propertylist_new_real(number))
    case .data(let bytes):
      return try unsafe made(
        bytes.withUnsafeBufferPointer {
          unsafe propertylist_new_data($0.baseAddress, UInt64($0.count))
        })
    case .opaque: throw .notWritable
    }
  }

  private static func made(_ node: UnsafeMutableRawPointer?) throws(PropertyListError)
    -> UnsafeMutableRawPointer
  {
    guard let node = unsafe node else { throw .notWritable }
    return unsafe node
  }

  /// A container is freed, with what is in it already, when the rest cannot be built.
  private static func container(
    _ node: UnsafeMutableRawPointer?, fill: (UnsafeMutableRawPointer) throws(PropertyListError) -> Void
  ) throws(PropertyListError) -> UnsafeMutableRawPointer {
    let node = try unsafe made(node)
    do {
      try unsafe fill(node)
    } catch {
      unsafe propertylist_free(node)
      throw error
    }
    return unsafe node
  }

  func xml() -> [UInt8]? {
    var count: UInt32 = 0
    return unsafe Self.taken(propertylist_to_xml(root, &count), count)
  }

  func binary() -> [UInt8]? {
    var count: UInt32 = 0
    return unsafe Self.taken(propertylist_to_binary(root, &count), count)
  }

  private static func taken(_ bytes: UnsafeMutablePointer<CChar>?, _ count: UInt32) -> [UInt8]? {
    guard let bytes = unsafe bytes else { return nil }
    defer { unsafe free(bytes) }
    return unsafe Array(UnsafeRawBufferPointer(start: bytes, count: Int(count)))
  }
}

extension String {
  /// XML knows no control characters but tab, line feed and carriage return, and a NUL would end a C string;
  /// a device's serial number may hold any. They become U+FFFD.
  fileprivate var textOnly: String {
    let isText = utf8.allSatisfy { $0 >= 0x20 || $0 == 0x09 || $0 == 0x0A || $0 == 0x0D }
    guard !isText else { return self }
    var text = String.UnicodeScalarView()
    for scalar in unicodeScalars {
      let isControl = scalar.value < 0x20 && scalar != "\t" && scalar != "\n" && scalar != "\r"
      text.append(isControl ? "\u{FFFD}" : scalar)
    }
    return String(text)
  }
}
