import Testing

/// Writes binary property lists that no library would.
struct BinaryPropertyListBuilder {
  private(set) var objects: [[UInt8]] = []
  /// Bytes per reference and per offset.
  var referenceSize = 2
  var offsetSize = 3

  /// - Returns: The number of the object.
  @discardableResult
  mutating func add(_ bytes: [UInt8]) -> Int {
    objects.append(bytes)
    return objects.count - 1
  }

  @discardableResult
  mutating func add(ascii text: String) -> Int {
    add(Self.marker(0x5, count: text.utf8.count) + Array(text.utf8))
  }

  @discardableResult
  mutating func add(utf16 units: [UInt16]) -> Int {
    add(Self.marker(0x6, count: units.count) + units.flatMap { [UInt8($0 >> 8), UInt8($0 & 0xFF)] })
  }

  @discardableResult
  mutating func add(data bytes: [UInt8]) -> Int {
    add(Self.marker(0x4, count: bytes.count) + bytes)
  }

  @discardableResult
  mutating func add(array references: [Int]) -> Int {
    add(Self.marker(0xA, count: references.count) + encode(references))
  }

  @discardableResult
  mutating func add(keys: [Int], values: [Int]) -> Int {
    add(Self.marker(0xD, count: keys.count) + encode(keys + values))
  }

  private func encode(_ references: [Int]) -> [UInt8] {
    references.flatMap { Self.bigEndian($0, size: referenceSize) }
  }

  static func marker(_ high: UInt8, count: Int) -> [UInt8] {
    count < 15
      ? [high << 4 | UInt8(count)] : [high << 4 | 0xF, 0x12] + bigEndian(count, size: 4)
  }

  static func bigEndian(_ value: Int, size: Int) -> [UInt8] {
    (0..<size).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
  }

  /// The whole, with any field of the trailer replaced.
  func build(
    top: Int? = nil, objectCount: Int? = nil, tableOffset: Int? = nil, offsetSize: Int? = nil,
    referenceSize: Int? = nil
  ) -> [UInt8] {
    var bytes = Array("bplist00".utf8)
    var table: [UInt8] = []
    for object in objects {
      table += Self.bigEndian(bytes.count, size: self.offsetSize)
      bytes += object
    }
    let start = bytes.count
    bytes += table
    bytes += [
      0, 0, 0, 0, 0, 0, UInt8(offsetSize ?? self.offsetSize), UInt8(referenceSize ?? self.referenceSize),
    ]
    bytes += Self.bigEndian(objectCount ?? objects.count, size: 8)
    bytes += Self.bigEndian(top ?? objects.count - 1, size: 8)
    bytes += Self.bigEndian(tableOffset ?? start, size: 8)
    return bytes
  }
}
