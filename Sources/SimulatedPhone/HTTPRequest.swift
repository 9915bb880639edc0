/// The head of an HTTP/1 request, as far as the phone's small server needs it.
struct HTTPRequest: Equatable, Sendable {
  enum Method: String, Sendable {
    case get = "GET"
    case head = "HEAD"
    case post = "POST"
    case put = "PUT"
  }

  /// Why a head cannot be served, as the status that answers it.
  enum Failure: Error, Equatable {
    case badRequest
    case methodNotAllowed
    case lengthRequired
    case headTooLarge
    case versionNotSupported
  }

  var method: Method
  var path: String
  /// The part behind the question mark.
  var query: [Substring: Substring]
  var bodyCount: UInt64 = 0
  /// Whether the connection stays open for another request.
  var keepsAlive: Bool
  /// Whether the client waits for "100 Continue" before it sends its body.
  var expectsContinue = false

  /// Reads a head, the empty line at its end not included.
  init(head: ArraySlice<UInt8>) throws(Failure) {
    guard !head.contains(0) else { throw .badRequest }
    // Split as bytes: in a String, CR LF is one character.
    var lines = head.split(separator: 0x0a, omittingEmptySubsequences: false)
      .map { String(decoding: $0.last == 0x0d ? $0.dropLast() : $0, as: UTF8.self) }[...]
    let words = (lines.popFirst() ?? "").split(separator: " ", omittingEmptySubsequences: false)
    guard words.count == 3, words[1].hasPrefix("/") else { throw .badRequest }
    guard words[2] == "HTTP/1.1" || words[2] == "HTTP/1.0" else {
      throw words[2].hasPrefix("HTTP/") ? .versionNotSupported : .badRequest
    }
    guard let method = Method(rawValue: String(words[0])) else { throw .methodNotAllowed }
    self.method = method
    let target = words[1].split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
    path = String(target[0])
    query = [:]
    for item in target.dropFirst().joined().split(separator: "&") {
      let pair = item.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      query[pair[0]] = pair.count == 2 ? pair[1] : ""
    }
    keepsAlive = words[2] == "HTTP/1.1"
    for line in lines {
      try readField(line)
    }
  }

  private mutating func readField(_ line: String) throws(Failure) {
    let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[0].isEmpty, !parts[0].contains(" ") else { throw .badRequest }
    let value = Self.trimmed(parts[1])
    switch parts[0].lowercased() {
    case "content-length":
      guard let count = UInt64(value), value.first != "+" else { throw .badRequest }
      bodyCount = count
    case "transfer-encoding":
      throw .lengthRequired
    case "connection":
      let words = value.lowercased().split(separator: ",").map { Self.trimmed($0) }
      if words.contains("close") { keepsAlive = false }
      if words.contains("keep-alive") { keepsAlive = true }
    case "expect":
      expectsContinue = value.lowercased() == "100-continue"
    default:
      break
    }
  }

  private static func trimmed(_ text: Substring) -> Substring {
    var text = text
    while let first = text.first, first == " " || first == "\t" { text.removeFirst() }
    while let last = text.last, last == " " || last == "\t" { text.removeLast() }
    return text
  }
}
