/// A TCP packet, its checksums verified.
package struct Packet: Sendable {
  package struct End: Hashable, Sendable, CustomStringConvertible {
    /// 4 or 16 bytes.
    package let address: [UInt8]
    package let port: Int

    package var description: String { "\(address.map(String.init).joined(separator: ".")):\(port)" }
  }

  package internal(set) var time: UInt64 = 0
  package internal(set) var comment: String?
  package let source: End
  package let destination: End
  package let sequence: UInt32
  package let acknowledges: UInt32
  /// Letters as tcpdump has them: S, F, R, P and a dot for ACK.
  package let flags: String
  package let window: Int
  package let options: [UInt8]
  package let payload: [UInt8]

  init(_ bytes: [UInt8]) throws {
    func number(_ offset: Int, _ count: Int) -> Int {
      bytes[offset..<offset + count].reduce(0) { $0 << 8 | Int($1) }
    }
    let isV4 = bytes[0] >> 4 == 4
    let header = isV4 ? 20 : 40
    let addresses: ArraySlice<UInt8>
    if isV4 {
      guard bytes[0] == 0x45, number(2, 2) == bytes.count, bytes[9] == 6 else {
        throw Malformed("a header of version 4: \(bytes.prefix(20))")
      }
      guard Self.sum(bytes.prefix(20)) == 0xffff else { throw Malformed("the header's checksum") }
      addresses = bytes[12..<20]
    } else {
      guard bytes[0] == 0x60, number(4, 2) == bytes.count - 40, bytes[6] == 6 else {
        throw Malformed("a header of version 6: \(bytes.prefix(40))")
      }
      addresses = bytes[8..<40]
    }
    let half = addresses.count / 2
    source = End(address: Array(addresses.prefix(half)), port: number(header, 2))
    destination = End(address: Array(addresses.suffix(half)), port: number(header + 2, 2))
    sequence = UInt32(number(header + 4, 4))
    acknowledges = UInt32(number(header + 8, 4))
    let start = header + Int(bytes[header + 12] >> 4) * 4
    let bits = bytes[header + 13]
    flags = [(2, "S"), (1, "F"), (4, "R"), (8, "P"), (16, ".")].filter { bits & UInt8($0.0) != 0 }
      .map(\.1).joined()
    window = number(header + 14, 2)
    options = Array(bytes[header + 20..<start])
    payload = Array(bytes[start...])
    let length = bytes.count - header
    let pseudo = addresses + [0, 6, UInt8(length >> 8), UInt8(length & 0xff)]
    guard Self.sum(pseudo + bytes[header...]) == 0xffff else { throw Malformed("TCP's checksum") }
  }

  private static func sum(_ bytes: ArraySlice<UInt8>) -> Int {
    var sum = 0
    for (index, byte) in bytes.enumerated() { sum += index % 2 == 0 ? Int(byte) << 8 : Int(byte) }
    while sum > 0xffff { sum = (sum & 0xffff) + (sum >> 16) }
    return sum
  }
}

extension Sequence<Packet> {
  /// As a trace, the end that sent the first packet called C and the other one D; numbers count from the beginnings
  /// of the streams. The packets are of one stream.
  package var trace: [String] {
    var starts: [Packet.End: UInt32] = [:]
    var first: Packet.End?
    return map { packet in
      if first == nil { first = packet.source }
      if packet.flags.contains("S") { starts[packet.source] = packet.sequence }
      let sequence = packet.sequence &- (starts[packet.source] ?? 0)
      let acknowledges = packet.acknowledges &- (starts[packet.destination] ?? 0)
      var text = "\(packet.source == first ? "C" : "D") \(packet.flags) \(sequence)"
      if packet.flags.contains(".") { text += " ack \(acknowledges)" }
      if !packet.payload.isEmpty { text += " len \(packet.payload.count)" }
      return text
    }
  }
}
