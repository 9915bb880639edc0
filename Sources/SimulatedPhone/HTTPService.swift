/// The small HTTP server of the simulated phone (port 8765).
///
/// - `GET /`: a page that says where one has arrived.
/// - `GET /small`: 200 bytes.
/// - `GET /big?bytes=N`: `N` bytes of ``Pattern`` (10,000,000 unless given).
/// - `POST /upload`, `PUT /upload`: counts the body; with `?check=1` it must be ``Pattern``.
///
/// HEAD, keep-alive, `Connection: close` and `Expect: 100-continue` work as in HTTP/1.1. Requests may
/// be pipelined; nothing is read while an answer is being sent.
struct HTTPService: PhoneService {
  private enum State: Sendable {
    /// Reading a request's head, or between two requests.
    case head
    /// Reading a body of which `left` bytes are to come.
    case body(HTTPRequest, left: UInt64, mismatch: UInt64?)
    /// Sending what waits in `output`, then `left` bytes of pattern.
    case answering(left: UInt64, sent: UInt64, keepsAlive: Bool)
    /// All is said.
    case finished
  }

  private var state = State.head
  private var head = ContiguousArray<UInt8>()
  private var output = ByteQueue(capacity: .max)

  /// Bytes of the longest head.
  static let headLimit = 8192
  /// Bytes of the largest answer or upload: 1 TiB.
  static let bodyLimit: UInt64 = 1 << 40

  var isFinished: Bool {
    switch state {
    case .finished: output.isEmpty
    case .head, .body, .answering: false
    }
  }

  mutating func receive(_ bytes: Span<UInt8>) -> Int {
    var taken = 0
    while taken < bytes.count {
      switch state {
      case .head:
        // An answer that waits is sent before the next request is looked at.
        guard output.isEmpty else { return taken }
        taken += receiveHead(bytes.extracting(droppingFirst: taken))
      case .body(let request, let left, let mismatch):
        let rest = bytes.extracting(droppingFirst: taken)
        let piece = rest.extracting(first: Int(clamping: min(left, UInt64(rest.count))))
        taken += piece.count
        receiveBody(piece, of: request, left: left, mismatch: mismatch)
      case .answering:
        return taken
      case .finished:
        // What comes after the last request is nobody's.
        return bytes.count
      }
    }
    return taken
  }

  mutating func produce(into target: inout ContiguousArray<UInt8>, limit: Int) {
    let text = min(limit, output.count)
    output.move(text, to: &target)
    guard case .answering(let left, let sent, let keepsAlive) = state else { return }
    let count = min(UInt64(limit - text), left)
    Pattern.append(Int(clamping: count), from: sent, to: &target)
    if left > count {
      state = .answering(left: left - count, sent: sent + count, keepsAlive: keepsAlive)
    } else {
      state = keepsAlive ? .head : .finished
    }
  }

  private mutating func receiveHead(_ bytes: Span<UInt8>) -> Int {
    for index in bytes.indices {
      head.append(bytes[index])
      if head.elementsEqual([0x0d, 0x0a]) || head.elementsEqual([0x0a]) {
        // Empty lines before a request are passed over.
        head.removeAll(keepingCapacity: true)
        continue
      }
      guard bytes[index] == 0x0a, let end = headEnd else {
        guard head.count < Self.headLimit else {
          fail(.headTooLarge)
          return index + 1
        }
        continue
      }
      let request = Result { () throws(HTTPRequest.Failure) in try HTTPRequest(head: ArraySlice(head[..<end]))
      }
      head.removeAll(keepingCapacity: true)
      switch request {
      case .success(let request): begin(request)
      case .failure(let failure): fail(failure)
      }
      return index + 1
    }
    return bytes.count
  }

  /// Where the head ends if its last line is empty.
  private var headEnd: Int? {
    if head.suffix(4).elementsEqual([0x0d, 0x0a, 0x0d, 0x0a]) { return head.count - 4 }
    if head.suffix(2).elementsEqual([0x0a, 0x0a]) { return head.count - 2 }
    return nil
  }

  private mutating func begin(_ request: HTTPRequest) {
    guard request.bodyCount > 0 else { return answer(request, mismatch: nil) }
    guard request.bodyCount <= Self.bodyLimit else {
      return respond("413 Content Too Large", "The limit is \(Self.bodyLimit) bytes.\n", keepsAlive: false)
    }
    if request.expectsContinue {
      _ = output.append(ContiguousArray("HTTP/1.1 100 Continue\r\n\r\n".utf8).span)
    }
    state = .body(request, left: request.bodyCount, mismatch: nil)
  }

  private mutating func receiveBody(
    _ piece: Span<UInt8>, of request: HTTPRequest, left: UInt64, mismatch: UInt64?
  ) {
    var mismatch = mismatch
    if mismatch == nil, request.query["check"] == "1" {
      mismatch = Pattern.mismatch(in: piece, from: request.bodyCount - left)
    }
    let left = left - UInt64(piece.count)
    if left > 0 {
      state = .body(request, left: left, mismatch: mismatch)
    } else {
      answer(request, mismatch: mismatch)
    }
  }

  private mutating func answer(_ request: HTTPRequest, mismatch: UInt64?) {
    let isRead = request.method == .get || request.method == .head
    func respond(_ status: String, _ body: String, type: String = "text/plain") {
      self.respond(
        status, body, type: type, omitsBody: request.method == .head, keepsAlive: request.keepsAlive)
    }
    switch request.path {
    case "/" where isRead:
      respond("200 OK", Self.page, type: "text/html")
    case "/small" where isRead:
      respond("200 OK", Self.small)
    case "/big" where isRead:
      let text = request.query["bytes"] ?? "10000000"
      guard let count = UInt64(text), text.first != "+", count <= Self.bodyLimit else {
        return respond("400 Bad Request", "bytes must be a number up to \(Self.bodyLimit).\n")
      }
      startAnswer(
        "200 OK", type: "application/octet-stream", bodyCount: count, keepsAlive: request.keepsAlive)
      state = .answering(
        left: request.method == .head ? 0 : count, sent: 0, keepsAlive: request.keepsAlive)
    case "/upload" where !isRead:
      if let mismatch {
        respond("422 Unprocessable Content", "byte \(mismatch) is not the pattern's\n")
      } else {
        respond("200 OK", "\(request.bodyCount) bytes\n")
      }
    case "/", "/small", "/big", "/upload":
      respond("405 Method Not Allowed", "Not with \(request.method.rawValue).\n")
    default:
      respond("404 Not Found", "There is /, /small, /big?bytes=N and /upload.\n")
    }
  }

  private mutating func fail(_ failure: HTTPRequest.Failure) {
    let status =
      switch failure {
      case .badRequest: "400 Bad Request"
      case .methodNotAllowed: "405 Method Not Allowed"
      case .lengthRequired: "411 Length Required"
      case .headTooLarge: "431 Request Header Fields Too Large"
      case .versionNotSupported: "505 HTTP Version Not Supported"
      }
    head.removeAll()
    respond(status, status + "\n", keepsAlive: false)
  }

  private mutating func respond(
    _ status: String, _ body: String, type: String = "text/plain", omitsBody: Bool = false, keepsAlive: Bool
  ) {
    let body = ContiguousArray(body.utf8)
    startAnswer(status, type: type, bodyCount: UInt64(body.count), keepsAlive: keepsAlive)
    if !omitsBody { _ = output.append(body.span) }
    state = .answering(left: 0, sent: 0, keepsAlive: keepsAlive)
  }

  private mutating func startAnswer(_ status: String, type: String, bodyCount: UInt64, keepsAlive: Bool) {
    let text = """
      HTTP/1.1 \(status)\r
      Server: simulated-phone\r
      Content-Type: \(type)\r
      Content-Length: \(bodyCount)\r
      Connection: \(keepsAlive ? "keep-alive" : "close")\r
      \r

      """
    _ = output.append(ContiguousArray(text.utf8).span)
  }

  private static let small = String(repeating: "0123456789abcdef", count: 12) + "1234567\n"

  private static let page = """
    <!DOCTYPE html>
    <html lang="en"><head><meta charset="utf-8"><title>Simulated phone</title></head><body>
    <h1>It works</h1>
    <p>This page came from a simulated phone, through the multiplexer protocol that real ones speak.</p>
    <p>There is also <a href="/small">/small</a>, <a href="/big?bytes=1000000">/big?bytes=N</a> and
    POST to /upload.</p>
    </body></html>

    """
}
