/// An IP address as it stands in packets.
package enum HostAddress: Hashable, Sendable {
  /// In host order: 127.0.0.1 is 0x7f000001.
  case v4(UInt32)
  /// The upper and the lower half, in host order.
  case v6(UInt64, UInt64)
}

/// One end of a stream.
package struct StreamAddress: Hashable, Sendable {
  package let address: HostAddress
  package let port: UInt16

  package init(_ address: HostAddress, port: UInt16) {
    self.address = address
    self.port = port
  }
}

/// Which end of a stream.
package enum StreamSide: Sendable {
  case client
  case device

  var other: StreamSide { self == .client ? .device : .client }
}

/// What does not change of a stream that is captured. A stream is no TCP connection all the way: it is shown as
/// one.
package final class CapturedStream: Sendable {
  package let client: StreamAddress
  package let device: StreamAddress
  /// Stands at the stream's first packet.
  package let comment: String
  /// Where the sequence numbers begin. Two streams between the same ends must differ in them, or the second one
  /// looks like a repetition of the first.
  let clientStart: UInt32
  let deviceStart: UInt32

  /// - Parameters:
  ///   - client: Who asked for the stream.
  ///   - device: Whom it leads to; an address of the same family.
  ///   - number: Another one for each stream of a file.
  ///   - comment: For whoever reads the file.
  package init(client: StreamAddress, device: StreamAddress, number: UInt64, comment: String) {
    self.client = client
    self.device = device
    self.comment = comment
    // An odd factor makes different numbers of different numbers, far from each other.
    clientStart = UInt32(truncatingIfNeeded: number) &* 0x9e37_79b1
    deviceStart = ~clientStart
  }

  func end(_ side: StreamSide) -> StreamAddress { side == .client ? client : device }
  func start(_ side: StreamSide) -> UInt32 { side == .client ? clientStart : deviceStart }

  /// Bytes of the IP header and the TCP header without options.
  var headerSize: Int {
    switch client.address {
    case .v4: 40
    case .v6: 60
    }
  }

  /// Bytes that one packet carries: the length fields of both versions have 16 bits, and that of version 6 does
  /// not count its own header.
  package var segmentSize: Int {
    switch client.address {
    case .v4: 65_535 - 40
    case .v6: 65_535 - 20
    }
  }
}

/// What happens to a stream.
package enum StreamEvent: Equatable, Sendable {
  /// The device is asked for it.
  case asked
  case accepted
  /// The device does not accept.
  case refused
  /// Nobody waits for the device's answer any more.
  case abandoned
  /// Bytes have been taken from this side and delivered to the other one.
  case bytes(from: StreamSide)
  /// This side has ended its sending.
  case ended(StreamSide)
  /// This side, or tunneld in its place, has torn the stream down.
  case reset(by: StreamSide)
}

/// How far a stream had come before an event.
package struct StreamPosition: Equatable, Sendable {
  /// Bytes from the client.
  package var sent: UInt64 = 0
  /// Bytes from the device.
  package var received: UInt64 = 0
  package var clientHasEnded = false
  package var deviceHasEnded = false

  package init() {}

  /// Moves it over an event that had `count` bytes.
  package mutating func pass(_ event: StreamEvent, _ count: Int = 0) {
    switch event {
    case .bytes(from: .client): sent &+= UInt64(count)
    case .bytes(from: .device): received &+= UInt64(count)
    case .ended(.client): clientHasEnded = true
    case .ended(.device): deviceHasEnded = true
    case .asked, .accepted, .refused, .abandoned, .reset: break
    }
  }

  /// What a side has used of its sequence numbers, after those of its SYN; the end takes one.
  func used(_ side: StreamSide) -> UInt64 {
    switch side {
    case .client: sent &+ (clientHasEnded ? 1 : 0)
    case .device: received &+ (deviceHasEnded ? 1 : 0)
    }
  }
}
