/// The message numbers of version 0.
enum BinaryMessage {
  static let result: UInt32 = 1
  static let connect: UInt32 = 2
  static let listen: UInt32 = 3
  static let attached: UInt32 = 4
  static let detached: UInt32 = 5
  static let paired: UInt32 = 6
}

/// Reads fields one after the other; nil when too few bytes are left.
struct LittleEndianReader {
  private let bytes: [UInt8]
  private(set) var offset = 0

  init(_ bytes: [UInt8]) {
    self.bytes = bytes
  }

  mutating func read<Value: FixedWidthInteger>(_ type: Value.Type = Value.self) -> Value? {
    guard let field = take(Value.bitWidth / 8) else { return nil }
    return field.reversed().reduce(0) { $0 << 8 | Value(truncatingIfNeeded: $1) }
  }

  mutating func take(_ count: Int) -> ArraySlice<UInt8>? {
    guard bytes.count - offset >= count else { return nil }
    defer { offset += count }
    return bytes[offset..<(offset + count)]
  }
}
