/// Looks through a binary property list before libplist does, and refuses what the library would pay too
/// much for, or end the process for.
///
///     "bplist00"
///     objects: u8 marker, then what the marker says
///     offset table: one offset per object
///     trailer of 32 bytes: 5 unused, u8 sort version, u8 bytes per offset, u8 bytes per reference,
///                          u64 objects, u64 top object, u64 offset of the offset table
///
/// All numbers are big-endian. Containers refer to their elements by number, so that one object can stand at
/// many places: the library copies it to each of them, and a hundred bytes unfold to as many gigabytes.
/// Therefore everything is counted as often as it is reached. A NUL inside a string makes version 2.2 abort.
struct BinaryPropertyListScreen {
  private let limits: PropertyListLimits
  private var layout = Layout()
  private var values = 0
  private var containers = 0
  /// Bytes of strings and data, counted as often as they are reached.
  private var payload = 0

  init(limits: PropertyListLimits) {
    self.limits = limits
  }

  /// Whether these bytes claim to be of the binary form.
  static func recognizes(_ bytes: Span<UInt8>) -> Bool {
    let magic = "bplist".utf8
    guard bytes.count >= magic.count else { return false }
    return magic.enumerated().allSatisfy { bytes[$0.offset] == $0.element }
  }

  /// - Throws: ``PropertyListError``.
  mutating func check(_ bytes: Span<UInt8>) throws(PropertyListError) {
    layout = try Layout(bytes, limits: limits)
    try checkObject(layout.topObject, in: bytes, depth: 0)
  }

  private mutating func checkObject(_ number: Int, in bytes: Span<UInt8>, depth: Int)
    throws(PropertyListError)
  {
    values += 1
    guard values <= limits.values else { throw .tooManyValues(limit: limits.values) }
    let object = try Object(at: layout.offset(ofObject: number, in: bytes), in: bytes, end: layout.objectsEnd)
    switch object.kind {
    case .scalar: break
    case .bytes: try addPayload(object.count)
    case .text(let unit):
      try addPayload(object.count * unit)
      try object.checkText(unit: unit, in: bytes)
    case .array, .dictionary:
      containers += 1
      guard containers <= limits.containers else { throw .tooManyContainers(limit: limits.containers) }
      guard depth < limits.depth else { throw .tooDeep(limit: limits.depth) }
      try checkElements(of: object, in: bytes, depth: depth + 1)
    }
  }

  private mutating func checkElements(of object: Object, in bytes: Span<UInt8>, depth: Int)
    throws(PropertyListError)
  {
    let isDictionary = object.kind == .dictionary
    // All keys, then all values.
    let references = isDictionary ? 2 * object.count : object.count
    let (size, overflow) = references.multipliedReportingOverflow(by: layout.referenceSize)
    guard !overflow, size <= layout.objectsEnd - object.content else {
      throw .malformed(offset: object.content)
    }
    for index in 0..<references {
      let offset = object.content + index * layout.referenceSize
      let number = try layout.reference(at: offset, in: bytes)
      if isDictionary, index < object.count {
        let key = try Object(
          at: layout.offset(ofObject: number, in: bytes), in: bytes, end: layout.objectsEnd)
        guard case .text = key.kind else { throw .malformed(offset: offset) }
      }
      try checkObject(number, in: bytes, depth: depth)
    }
  }

  private mutating func addPayload(_ count: Int) throws(PropertyListError) {
    payload += count
    guard payload <= limits.bytes else { throw .tooLarge(bytes: payload, limit: limits.bytes) }
  }
}

extension BinaryPropertyListScreen {
  /// The trailer, with every number proven to lie inside the bytes.
  private struct Layout {
    static let headerSize = 8
    static let trailerSize = 32

    var offsetSize = 0
    var referenceSize = 0
    var objects = 0
    var topObject = 0
    /// Where the offset table begins and the objects end.
    var objectsEnd = 0

    init() {}

    init(_ bytes: Span<UInt8>, limits: PropertyListLimits) throws(PropertyListError) {
      let trailer = bytes.count - Self.trailerSize
      guard trailer > Self.headerSize else { throw .malformed(offset: bytes.count) }
      offsetSize = Int(bytes[trailer + 6])
      referenceSize = Int(bytes[trailer + 7])
      guard (1...8).contains(offsetSize), (1...8).contains(referenceSize) else {
        throw .malformed(offset: trailer + 6)
      }
      guard let objects = Self.number(at: trailer + 8, size: 8, in: bytes), objects > 0 else {
        throw .malformed(offset: trailer + 8)
      }
      guard objects <= limits.values else { throw .tooManyValues(limit: limits.values) }
      guard let top = Self.number(at: trailer + 16, size: 8, in: bytes), top < objects else {
        throw .malformed(offset: trailer + 16)
      }
      guard let table = Self.number(at: trailer + 24, size: 8, in: bytes), table > Self.headerSize,
        table <= trailer, objects * offsetSize <= trailer - table
      else { throw .malformed(offset: trailer + 24) }
      self.objects = objects
      topObject = top
      objectsEnd = table
    }

    func offset(ofObject number: Int, in bytes: Span<UInt8>) throws(PropertyListError) -> Int {
      let entry = objectsEnd + number * offsetSize
      guard let offset = Self.number(at: entry, size: offsetSize, in: bytes),
        (Self.headerSize..<objectsEnd).contains(offset)
      else { throw .malformed(offset: entry) }
      return offset
    }

    func reference(at offset: Int, in bytes: Span<UInt8>) throws(PropertyListError) -> Int {
      guard let number = Self.number(at: offset, size: referenceSize, in: bytes), number < objects else {
        throw .malformed(offset: offset)
      }
      return number
    }

    /// Up to 8 bytes, big-endian; nil above `Int.max`. The caller has checked that they are there.
    static func number(at offset: Int, size: Int, in bytes: Span<UInt8>) -> Int? {
      var value: UInt64 = 0
      for index in offset..<(offset + size) { value = value << 8 | UInt64(bytes[index]) }
      return Int(exactly: value)
    }
  }

  /// A marker and its count, with the content proven to lie among the objects, but for that of containers,
  /// whose size depends on the references.
  private struct Object {
    enum Kind: Equatable {
      case scalar
      case bytes
      /// Bytes per code unit: 1 or 2.
      case text(unit: Int)
      case array
      case dictionary
    }

    let kind: Kind
    /// Bytes, code units, elements, or pairs.
    let count: Int
    /// Where the content begins.
    let content: Int

    init(at offset: Int, in bytes: Span<UInt8>, end: Int) throws(PropertyListError) {
      let marker = bytes[offset]
      let low = Int(marker & 0x0F)
      let malformed = PropertyListError.malformed(offset: offset)
      switch marker >> 4 {
      case 0x0:
        guard low == 0 || low == 8 || low == 9 else { throw malformed }
        (kind, count, content) = (.scalar, 0, offset + 1)
      case 0x1:
        guard low <= 4 else { throw malformed }
        (kind, count, content) = (.scalar, 1 << low, offset + 1)
      case 0x2, 0x3:
        guard low == 3 || (low == 2 && marker == 0x22) else { throw malformed }
        (kind, count, content) = (.scalar, 1 << low, offset + 1)
      case 0x8:
        guard [0, 1, 3, 7].contains(low) else { throw malformed }
        (kind, count, content) = (.scalar, low + 1, offset + 1)
      case let high:
        switch high {
        case 0x4: kind = .bytes
        case 0x5: kind = .text(unit: 1)
        case 0x6: kind = .text(unit: 2)
        case 0xA: kind = .array
        case 0xD: kind = .dictionary
        default: throw malformed
        }
        (count, content) = try Self.count(low, after: offset, in: bytes, end: end)
      }
      let unit =
        switch kind {
        case .scalar, .bytes: 1
        case .text(let unit): unit
        case .array, .dictionary: 0
        }
      // A count above the number of bytes is wrong for every kind, and what is left cannot overflow.
      guard content <= end, count <= bytes.count, count * unit <= end - content else { throw malformed }
    }

    /// 0 to 14 stand in the marker; 15 says that an integer of 1, 2, 4 or 8 bytes follows.
    private static func count(
      _ low: Int, after offset: Int, in bytes: Span<UInt8>, end: Int
    ) throws(PropertyListError) -> (count: Int, content: Int) {
      guard low == 0x0F else { return (low, offset + 1) }
      guard end - offset >= 2, bytes[offset + 1] >> 4 == 0x1 else { throw .malformed(offset: offset + 1) }
      let exponent = bytes[offset + 1] & 0x0F
      guard exponent <= 3 else { throw .malformed(offset: offset + 1) }
      let size = 1 << Int(exponent)
      guard end - (offset + 2) >= size, let count = Layout.number(at: offset + 2, size: size, in: bytes)
      else {
        throw .malformed(offset: offset + 2)
      }
      return (count, offset + 2 + size)
    }

    func checkText(unit: Int, in bytes: Span<UInt8>) throws(PropertyListError) {
      for index in 0..<count {
        let offset = content + index * unit
        if bytes[offset] == 0, unit == 1 || bytes[offset + 1] == 0 { throw .malformed(offset: offset) }
      }
    }
  }
}
