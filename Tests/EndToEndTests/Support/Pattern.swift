import Foundation

/// An endless byte sequence in which each position is recognisable, so that a lost, doubled or
/// moved piece is found, and where. Its period is a prime larger than any buffer size in use.
enum Pattern {
  static let period = 131_071
  /// The period and, behind it, as much again: every window of `period` bytes is contiguous.
  static let table: [UInt8] = {
    var state: UInt64 = 0x9E37_79B9_7F4A_7C15
    var bytes = [UInt8](repeating: 0, count: 2 * period)
    bytes.withUnsafeMutableBufferPointer { bytes in
      for index in 0..<period {
        state ^= state << 13
        state ^= state >> 7
        state ^= state << 17
        bytes[index] = UInt8(truncatingIfNeeded: state >> 24)
        bytes[index + period] = bytes[index]
      }
    }
    return bytes
  }()

  /// Calls `body` with up to `count` bytes from `offset` on (at most one period).
  static func withBytes<Result>(
    at offset: Int,
    count: Int,
    _ body: (UnsafeRawBufferPointer) throws -> Result
  ) rethrows -> Result {
    try table.withUnsafeBytes { table in
      let start = offset % period
      return try body(UnsafeRawBufferPointer(rebasing: table[start..<start + min(count, period)]))
    }
  }

  static func bytes(_ range: Range<Int>) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(range.count)
    var offset = range.lowerBound
    while offset < range.upperBound {
      withBytes(at: offset, count: range.upperBound - offset) {
        result.append(contentsOf: $0)
        offset += $0.count
      }
    }
    return result
  }

  /// The absolute position of the first byte that differs from the pattern.
  static func mismatch(in bytes: UnsafeRawBufferPointer, at offset: Int) -> Int? {
    guard let base = bytes.baseAddress else { return nil }
    var done = 0
    while done < bytes.count {
      let piece = min(bytes.count - done, period)
      let equal = withBytes(at: offset + done, count: piece) { expected in
        expected.baseAddress.map { memcmp($0, base + done, piece) == 0 } ?? true
      }
      if !equal {
        for index in done..<done + piece where bytes[index] != table[(offset + index) % period] {
          return offset + index
        }
      }
      done += piece
    }
    return nil
  }
}

/// A small generator with a seed, so that a failing run can be repeated.
struct SeededGenerator: RandomNumberGenerator {
  private var state: UInt64
  init(seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 | 1 }
  mutating func next() -> UInt64 {
    state ^= state << 13
    state ^= state >> 7
    state ^= state << 17
    return state &* 0x2545_F491_4F6C_DD1D
  }
}

let mebibyte = 1 << 20
