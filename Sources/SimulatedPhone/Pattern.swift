/// The bytes of large answers and of checked uploads: byte `n` is `n % 251`. As 251 is prime, a piece
/// that is missing, doubled or out of place shows.
package enum Pattern {
  /// The period.
  package static let period = 251

  private static let repeats = 64
  private static let bytes: ContiguousArray<UInt8> = ContiguousArray(
    (0..<period * repeats).map { UInt8($0 % period) })

  /// Appends `count` bytes of the pattern from position `start` on.
  package static func append(
    _ count: Int, from start: UInt64, to output: inout ContiguousArray<UInt8>
  ) {
    var position = Int(start % UInt64(period))
    var left = count
    while left > 0 {
      let piece = min(left, bytes.count - position)
      output.append(contentsOf: bytes[position..<position + piece])
      position = (position + piece) % period
      left -= piece
    }
  }

  /// The first position at which bytes that begin at `start` are not the pattern's.
  package static func mismatch(in input: Span<UInt8>, from start: UInt64) -> UInt64? {
    var expected = UInt8(start % UInt64(period))
    for index in input.indices {
      guard input[index] == expected else { return start + UInt64(index) }
      expected = expected == UInt8(period - 1) ? 0 : expected + 1
    }
    return nil
  }
}
