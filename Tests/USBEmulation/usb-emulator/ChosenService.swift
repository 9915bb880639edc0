import SimulatedPhone

/// The benchmark's port (Benchmarks/phone.h): the first byte chooses the service. `e`: sends back what it is sent;
/// `d`: takes in everything; `s`: sends without end.
struct ChosenService: PhoneService {
  static let port: UInt16 = 7000

  private var chosen: UInt8?
  private var waiting: [UInt8] = []
  private static let block = [UInt8](repeating: UInt8(ascii: "x"), count: 64 * 1024)

  mutating func receive(_ bytes: Span<UInt8>) -> Int {
    guard bytes.count > 0 else { return 0 }
    guard let chosen else {
      chosen = bytes[0]
      return 1
    }
    if chosen != UInt8(ascii: "e") { return bytes.count }
    // An echo that is not read stops reading.
    guard waiting.count < Self.block.count else { return 0 }
    bytes.withUnsafeBufferPointer { waiting.append(contentsOf: $0) }
    return bytes.count
  }

  mutating func produce(into output: inout ContiguousArray<UInt8>, limit: Int) {
    if chosen == UInt8(ascii: "s") {
      var left = limit
      while left > 0 {
        let count = min(left, Self.block.count)
        output.append(contentsOf: Self.block[..<count])
        left -= count
      }
    } else if !waiting.isEmpty {
      let count = min(limit, waiting.count)
      output.append(contentsOf: waiting[..<count])
      waiting.removeFirst(count)
    }
  }

  var isFinished: Bool { false }
}
