import Foundation

/// How the other side ended a connection.
enum Ending: Equatable {
  /// A clean end of the stream.
  case end
  /// RST: `ECONNRESET` (or `EPIPE` when writing).
  case reset
  /// Nothing of the kind within the time.
  case stillOpen
}

/// What came in until the end of a connection, compared with `Pattern`.
struct Reception: Equatable {
  var count = 0
  var mismatch: Int?
  var ending = Ending.stillOpen

  /// All bytes, none of them wrong, and the clean end.
  static func whole(_ count: Int) -> Reception { Reception(count: count, ending: .end) }
  /// So many right bytes, and the connection goes on.
  static func part(_ count: Int) -> Reception { Reception(count: count) }
}

/// A program that uses a forwarded port, with its hand on every detail of the socket.
final class Client {
  private(set) var fd: Int32
  /// Bytes handed to the kernel and taken from it so far; positions in the pattern.
  private(set) var sent = 0
  private(set) var received = 0
  /// The connection was reset before `connect` had even returned.
  private var wasReset = false
  private static let pieceSize = 256 * 1024

  init(_ endpoint: Endpoint, receiveBuffer: Int32? = nil, within seconds: Double = 5) throws {
    (fd, wasReset) = try Socket.connect(endpoint, within: seconds)
    if let receiveBuffer { Socket.set(fd, SOL_SOCKET, SO_RCVBUF, receiveBuffer) }
    if case .unix = endpoint {} else { Socket.set(fd, Int32(IPPROTO_TCP), TCP_NODELAY, 1) }
  }

  convenience init(port: UInt16, receiveBuffer: Int32? = nil) throws {
    try self.init(.loopback(port), receiveBuffer: receiveBuffer)
  }

  deinit { close() }

  /// The program ends: nobody holds the socket any more.
  func close() {
    if fd >= 0 { Foundation.close(fd) }
    fd = -1
  }

  /// The program ends in a hurry: RST instead of FIN.
  func reset() {
    var option = linger(l_onoff: 1, l_linger: 0)
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
    close()
  }

  /// No more bytes will be sent; answers are still wanted.
  func finishSending() { shutdown(fd, Int32(SHUT_WR)) }

  var localPort: UInt16 { Socket.localPort(fd) }

  /// Sends all of `bytes`.
  func send(_ bytes: [UInt8], within seconds: Double = 5) throws {
    let deadline = Deadline(in: seconds)
    var offset = 0
    while offset < bytes.count {
      let count = bytes.withUnsafeBytes { raw in
        Socket.send(fd, UnsafeRawBufferPointer(rebasing: raw[offset...]))
      }
      if count >= 0 {
        offset += count
        sent += count
      } else if errno == EAGAIN {
        if deadline.passed { throw Unmet("sending stopped after \(offset) of \(bytes.count) bytes") }
        Socket.waitFor(fd, Int16(POLLOUT), deadline)
      } else if errno != EINTR {
        throw SystemFailure("send")
      }
    }
  }

  func send(_ text: String, within seconds: Double = 5) throws { try send(Array(text.utf8), within: seconds) }

  /// Sends the next `count` bytes of the pattern; stops early after `seconds`. Returns how many went out.
  @discardableResult
  func sendPattern(_ count: Int, within seconds: Double = 10) throws -> Int {
    let result = try exchange(send: count, receive: 0, within: seconds)
    return result.sent
  }

  /// Receives exactly `count` bytes.
  func receive(_ count: Int, within seconds: Double = 5) throws -> [UInt8] {
    let deadline = Deadline(in: seconds)
    var bytes = [UInt8](repeating: 0, count: count)
    var have = 0
    while have < count {
      let got = bytes.withUnsafeMutableBytes { raw in
        Socket.receive(fd, UnsafeMutableRawBufferPointer(rebasing: raw[have...]))
      }
      if got > 0 {
        have += got
        received += got
      } else if got == 0 {
        throw Unmet("the stream ended after \(have) of \(count) bytes")
      } else if errno == EAGAIN {
        if deadline.passed { throw Unmet("only \(have) of \(count) bytes came in \(seconds) s") }
        Socket.waitFor(fd, Int16(POLLIN), deadline)
      } else if errno != EINTR {
        throw Unmet("\(SystemFailure("recv")) after \(have) of \(count) bytes")
      }
    }
    return bytes
  }

  /// Everything until the connection ends, at most `limit` bytes.
  func receiveAll(limit: Int = 64 * mebibyte, within seconds: Double = 10) -> (bytes: [UInt8], ending: Ending)
  {
    let deadline = Deadline(in: seconds)
    var bytes: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65536)
    while bytes.count < limit {
      let got = recv(fd, &piece, piece.count, dontWait)
      if got > 0 {
        bytes.append(contentsOf: piece[..<got])
        received += got
      } else if wasReset {
        return (bytes, .reset)
      } else if got == 0 {
        return (bytes, .end)
      } else if errno == EAGAIN {
        if deadline.passed { return (bytes, .stillOpen) }
        Socket.waitFor(fd, Int16(POLLIN), deadline)
      } else if errno != EINTR {
        return (bytes, .reset)
      }
    }
    return (bytes, .stillOpen)
  }

  /// How the connection ends; bytes that still come are skipped.
  func ending(within seconds: Double = 5) -> Ending { receiveAll(limit: .max, within: seconds).ending }

  /// Reads pattern bytes until the end, or until `limit` are there.
  func receivePattern(limit: Int = .max, pieces: Int = Client.pieceSize, within seconds: Double = 15)
    -> Reception
  {
    let deadline = Deadline(in: seconds)
    var reception = Reception()
    var piece = [UInt8](repeating: 0, count: pieces)
    while reception.count < limit {
      let got = recv(fd, &piece, min(piece.count, limit - reception.count), dontWait)
      if got > 0 {
        note(piece, got, &reception)
      } else if wasReset {
        reception.ending = .reset
        return reception
      } else if got == 0 {
        reception.ending = .end
        return reception
      } else if errno == EAGAIN {
        if deadline.passed { return reception }
        Socket.waitFor(fd, Int16(POLLIN), deadline)
      } else if errno != EINTR {
        reception.ending = .reset
        return reception
      }
    }
    return reception
  }

  /// Sends and receives pattern bytes at the same time, until both counts are reached, the
  /// connection ends, or the time is over.
  func exchange(
    send toSend: Int,
    receive toReceive: Int,
    within seconds: Double
  ) throws -> (sent: Int, reception: Reception) {
    let deadline = Deadline(in: seconds)
    var reception = Reception()
    var out = 0
    var piece = [UInt8](repeating: 0, count: Client.pieceSize)
    while (out < toSend || reception.count < toReceive) && reception.ending == .stillOpen {
      var events: Int16 = 0
      if out < toSend { events |= Int16(POLLOUT) }
      if reception.count < toReceive { events |= Int16(POLLIN) }
      let came = Socket.waitFor(fd, events, deadline)
      if came == 0 { break }
      if reception.count < toReceive && came & Int16(POLLIN | POLLHUP | POLLERR) != 0 {
        let got = recv(fd, &piece, min(piece.count, toReceive - reception.count), dontWait)
        if got > 0 {
          note(piece, got, &reception)
        } else if got == 0 {
          reception.ending = .end
        } else if errno != EAGAIN && errno != EINTR {
          reception.ending = .reset
        }
      }
      if out < toSend && came & Int16(POLLOUT | POLLHUP | POLLERR) != 0 {
        let count = Pattern.withBytes(at: sent, count: toSend - out) {
          Socket.send(fd, $0)
        }
        if count > 0 {
          out += count
          sent += count
        } else if count < 0 && errno != EAGAIN && errno != EINTR {
          reception.ending = .reset
        }
      }
    }
    return (out, reception)
  }

  private func note(_ piece: [UInt8], _ count: Int, _ reception: inout Reception) {
    piece.withUnsafeBytes { raw in
      let bytes = UnsafeRawBufferPointer(rebasing: raw[..<count])
      if reception.mismatch == nil { reception.mismatch = Pattern.mismatch(in: bytes, at: received) }
    }
    reception.count += count
    received += count
  }
}

/// Sends a few bytes to an echo service and wants them back: the connection works.
func echoes(_ client: Client, _ text: String = "hello, phone", within seconds: Double = 5) -> Bool {
  guard (try? client.send(text, within: seconds)) != nil else { return false }
  return (try? client.receive(text.utf8.count, within: seconds)) == Array(text.utf8)
}

/// The same with a new connection.
func echoes(_ port: UInt16, within seconds: Double = 5) -> Bool {
  guard let client = try? Client(port: port) else { return false }
  return echoes(client, within: seconds)
}
