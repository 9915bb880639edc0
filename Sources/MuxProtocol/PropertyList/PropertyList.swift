/// A property list as a value.
package enum PropertyList: Hashable, Sendable {
  case dictionary(Dictionary)
  case array([PropertyList])
  case string(String)
  /// 64 bits, signed. A number above `Int64.max` appears negative: libplist 2.2 does not tell the two apart.
  case integer(Int64)
  case boolean(Bool)
  case real(Double)
  case data([UInt8])
  /// A date, a UID or a null: the protocol has no use for them, and they cannot be written.
  case opaque

  /// Keys and values in the order in which they were read or are to be written. The dictionaries of this
  /// protocol have a dozen keys, so that looking through them is the fastest search there is.
  package struct Dictionary: Hashable, Sendable, ExpressibleByDictionaryLiteral {
    package struct Entry: Hashable, Sendable {
      package var key: String
      package var value: PropertyList
    }

    package private(set) var entries: [Entry] = []

    package init() {}

    package init(dictionaryLiteral elements: (String, PropertyList)...) {
      for (key, value) in elements { self[key] = value }
    }

    package var count: Int { entries.count }

    package subscript(key: String) -> PropertyList? {
      get { entries.first { $0.key == key }?.value }
      set {
        let index = entries.firstIndex { $0.key == key }
        switch (index, newValue) {
        case (let index?, let value?): entries[index].value = value
        case (let index?, nil): entries.remove(at: index)
        case (nil, let value?): entries.append(Entry(key: key, value: value))
        case (nil, nil): break
        }
      }
    }

    /// For the decoder, which must not search. Of a key that a binary list repeats, the first counts.
    mutating func append(_ key: String, _ value: PropertyList) {
      entries.append(Entry(key: key, value: value))
    }
  }
}

// A value of the wanted type, or nil: an odd type counts as a missing key.
extension PropertyList {
  package var dictionary: Dictionary? {
    if case .dictionary(let value) = self { value } else { nil }
  }

  package var array: [PropertyList]? {
    if case .array(let value) = self { value } else { nil }
  }

  package var string: String? {
    if case .string(let value) = self { value } else { nil }
  }

  package var integer: Int64? {
    if case .integer(let value) = self { value } else { nil }
  }

  package var data: [UInt8]? {
    if case .data(let value) = self { value } else { nil }
  }

  /// Some programs write 0 and 1.
  package var boolean: Bool? {
    switch self {
    case .boolean(let value): value
    case .integer(let value): value != 0
    case .dictionary, .array, .string, .real, .data, .opaque: nil
    }
  }

  /// A number of 32 bits, which programs with signed integers may write as a negative one.
  package var bits32: UInt32? {
    guard let integer else { return nil }
    return UInt32(exactly: integer) ?? Int32(exactly: integer).map { UInt32(bitPattern: $0) }
  }

  /// A number of 16 bits, which programs with signed integers may write as a negative one.
  package var bits16: UInt16? {
    guard let integer else { return nil }
    return UInt16(exactly: integer) ?? Int16(exactly: integer).map { UInt16(bitPattern: $0) }
  }
}

/// What a property list may cost. Checked before the library sees the bytes.
package struct PropertyListLimits: Hashable, Sendable {
  /// Of the encoded form.
  package var bytes: Int
  /// How deep containers may lie in each other; 1 is a single dictionary.
  package var depth: Int
  /// Values and keys in all. In the binary form an object may be used many times and counts each time.
  package var values: Int
  /// Arrays and dictionaries in all. In XML this is also what bounds the depth while libplist has the bytes,
  /// which takes about 56 bytes of stack per level in version 2.2.
  package var containers: Int
  /// `&` in XML.
  package var entities: Int

  package init(
    bytes: Int = FrameLimit.reply, depth: Int = 32, values: Int = 65536, containers: Int = 4096,
    entities: Int = 1024
  ) {
    self.bytes = bytes
    self.depth = depth
    self.values = values
    self.containers = containers
    self.entities = entities
  }

  package static let standard = PropertyListLimits()
}

/// Why bytes are not a property list, or a property list cannot be written.
package enum PropertyListError: Error, Hashable, Sendable, CustomStringConvertible {
  case empty
  case tooLarge(bytes: Int, limit: Int)
  case tooDeep(limit: Int)
  case tooManyValues(limit: Int)
  case tooManyContainers(limit: Int)
  case tooManyEntities(limit: Int)
  /// The bytes at this offset belong to no property list.
  case malformed(offset: Int)
  /// The library refused it and does not say where.
  case refused
  /// The value holds a date, a UID or a null.
  case notWritable

  package var description: String {
    switch self {
    case .empty: "an empty property list"
    case .tooLarge(let bytes, let limit): "a property list of \(bytes) bytes, above \(limit)"
    case .tooDeep(let limit): "a property list nested deeper than \(limit)"
    case .tooManyValues(let limit): "a property list of more than \(limit) values"
    case .tooManyContainers(let limit): "a property list of more than \(limit) arrays and dictionaries"
    case .tooManyEntities(let limit): "a property list with more than \(limit) entities"
    case .malformed(let offset): "not a property list (offset \(offset))"
    case .refused: "not a property list"
    case .notWritable: "a property list that cannot be written"
    }
  }
}
