import Testing

@testable import SimulatedPhone

@Suite("Servers of a simulated phone")
struct ServiceTests {
  /// Feeds a server in pieces and collects what it says, at most `limit` bytes at a time.
  private func talk(
    to service: inout some PhoneService, _ input: [UInt8], pieces: Int = .max, limit: Int = 4096
  ) -> [UInt8] {
    var output = ContiguousArray<UInt8>()
    var offered = 0
    while true {
      let before = output.count
      let piece = ArraySlice(input[offered..<min(offered + min(pieces, input.count), input.count)])
      let taken = piece.isEmpty ? 0 : service.receive(piece.span)
      offered += taken
      service.produce(into: &output, limit: limit)
      #expect(output.count - before <= limit)
      if taken == 0, output.count == before { return Array(output) }
    }
  }

  private func http(_ request: String, pieces: Int = .max, limit: Int = 4096) -> (
    text: String, finished: Bool
  ) {
    var service = HTTPService()
    let answer = talk(to: &service, Array(request.utf8), pieces: pieces, limit: limit)
    return (String(decoding: answer, as: UTF8.self), service.isFinished)
  }

  /// Everything behind the first empty line.
  private func body(_ text: String) -> String {
    let end = Array("\r\n\r\n".utf8)
    let bytes = Array(text.utf8)
    for index in bytes.indices where bytes[index...].starts(with: end) {
      return String(decoding: bytes[(index + 4)...], as: UTF8.self)
    }
    return ""
  }

  @Test("echo, with less room than it is given")
  func echo() {
    var service = EchoService()
    let bytes = testBytes(300_000)
    #expect(talk(to: &service, bytes, limit: 777) == bytes)
    #expect(!service.isFinished)
  }

  @Test("discard takes in all and says nothing")
  func discard() {
    var service = DiscardService()
    #expect(talk(to: &service, testBytes(300_000)) == [])
  }

  @Test("characters: 72 in a line, each line one further on")
  func characters() {
    var service = CharacterGeneratorService()
    var output = ContiguousArray<UInt8>()
    while output.count < 74 * 200 { service.produce(into: &output, limit: 1000) }
    for line in 0..<200 {
      let bytes = output[(line * 74)..<(line * 74 + 74)]
      #expect(bytes.first == UInt8(32 + line % 95))
      #expect(bytes.dropFirst(71).first == UInt8(32 + (line + 71) % 95))
      #expect(Array(bytes.suffix(2)) == [0x0d, 0x0a])
    }
  }

  @Test("GET / in every piece size", arguments: [1, 2, 3, 7, .max])
  func page(pieces: Int) {
    let (text, finished) = http("GET / HTTP/1.1\r\nHost: phone\r\n\r\n", pieces: pieces, limit: 100)
    #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
    #expect(text.contains("Content-Length: \(body(text).utf8.count)\r\n"))
    #expect(text.contains("<h1>It works</h1>"))
    #expect(!finished)
  }

  @Test("GET /small has 200 bytes; HEAD has none of them")
  func small() {
    #expect(body(http("GET /small HTTP/1.1\r\n\r\n").text).utf8.count == 200)
    let head = http("HEAD /small HTTP/1.1\r\n\r\n").text
    #expect(head.contains("Content-Length: 200\r\n"))
    #expect(body(head) == "")
  }

  @Test("GET /big streams the pattern", arguments: [0, 1, 250, 251, 252, 1_000_000])
  func big(count: Int) {
    var service = HTTPService()
    let answer = talk(to: &service, Array("GET /big?bytes=\(count) HTTP/1.0\r\n\r\n".utf8), limit: 999)
    let body = answer.suffix(count)
    #expect(answer.dropLast(count).suffix(4).elementsEqual([0x0d, 0x0a, 0x0d, 0x0a]))
    #expect(body.elementsEqual((0..<count).map { UInt8($0 % 251) }))
    #expect(Pattern.mismatch(in: body.span, from: 0) == nil)
    #expect(service.isFinished)
  }

  @Test("uploads are counted, and checked on request", arguments: ["POST", "PUT"])
  func upload(method: String) {
    var service = HTTPService()
    var pattern = ContiguousArray<UInt8>()
    Pattern.append(100_000, from: 0, to: &pattern)
    func request(_ target: String, _ body: some Sequence<UInt8>) -> [UInt8] {
      let body = Array(body)
      return Array("\(method) \(target) HTTP/1.1\r\ncontent-length: \(body.count)\r\n\r\n".utf8) + body
    }
    // Three requests on one connection, pipelined.
    let input =
      request("/upload", testBytes(70_000)) + request("/upload?check=1", pattern)
      + request("/upload?check=1", pattern.dropFirst())
    let text = String(decoding: talk(to: &service, input, pieces: 1000), as: UTF8.self)
    #expect(text.contains("70000 bytes\n"))
    #expect(text.contains("100000 bytes\n"))
    #expect(text.contains("HTTP/1.1 422 Unprocessable Content\r\n"))
    #expect(text.contains("byte 0 is not the pattern's\n"))
  }

  @Test("Expect: 100-continue is answered before the body comes")
  func expect() {
    var service = HTTPService()
    let head = "POST /upload HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n"
    let first = talk(to: &service, Array(head.utf8))
    #expect(String(decoding: first, as: UTF8.self) == "HTTP/1.1 100 Continue\r\n\r\n")
    #expect(String(decoding: talk(to: &service, [1, 2, 3]), as: UTF8.self).contains("3 bytes\n"))
  }

  @Test(
    "connections are kept or closed as the client says",
    arguments: [
      ("HTTP/1.1", "", false), ("HTTP/1.1", "Connection: close", true), ("HTTP/1.0", "", true),
      ("HTTP/1.0", "Connection: Keep-Alive", false),
    ])
  func keepAlive(version: String, field: String, closes: Bool) {
    let (text, finished) = http("GET /small \(version)\r\nX: y\r\n\(field.isEmpty ? "" : field + "\r\n")\r\n")
    #expect(finished == closes)
    #expect(text.contains("Connection: \(closes ? "close" : "keep-alive")\r\n"))
  }

  @Test(
    "what cannot be served gets the right status",
    arguments: [
      ("GET /none HTTP/1.1\r\n\r\n", "404"), ("POST / HTTP/1.1\r\n\r\n", "405"),
      ("GET /upload HTTP/1.1\r\n\r\n", "405"), ("BREW / HTTP/1.1\r\n\r\n", "405"),
      ("GET /\r\n\r\n", "400"), ("GET / HTTP/2.0\r\n\r\n", "505"), ("GET none HTTP/1.1\r\n\r\n", "400"),
      ("GET / HTTP/1.1\r\nno colon\r\n\r\n", "400"),
      ("GET /big?bytes=x HTTP/1.1\r\n\r\n", "400"), ("GET /big?bytes=-1 HTTP/1.1\r\n\r\n", "400"),
      ("GET /big?bytes=1099511627777 HTTP/1.1\r\n\r\n", "400"),
      ("POST /upload HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", "400"),
      ("POST /upload HTTP/1.1\r\nContent-Length: 1099511627777\r\n\r\n", "413"),
      ("POST /upload HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", "411"),
      ("\r\nGET /small HTTP/1.1\n\n", "200"), ("HEAD /big?bytes=1099511627776 HTTP/1.1\r\n\r\n", "200"),
    ])
  func status(request: String, status: String) {
    let text = http(request).text
    #expect(text.hasPrefix("HTTP/1.1 \(status) "))
  }

  @Test(
    "a head of 8192 bytes is read, one of 8193 is not",
    arguments: [(8191, "200"), (8192, "200"), (8193, "431")])
  func headLimit(count: Int, status: String) {
    let start = "GET /small HTTP/1.1\r\nX: "
    let filler = String(repeating: "x", count: count - start.utf8.count - 4)
    #expect(
      http(start + filler + "\r\n\r\n" + "GET / HTTP/1.1\r\n\r\n").text.hasPrefix("HTTP/1.1 \(status) "))
  }

  @Test("bytes without sense never trap", arguments: 0..<32 as Range<UInt64>)
  func chaos(seed: UInt64) {
    var random = SplitMix64(seed: seed)
    let words = [
      "GET ", "POST ", "/upload", "/big?bytes=9", " HTTP/1.1", "\r\n", "\n", "\r", ":", "Content-Length: 5",
      "\0", "\u{ff}", "?", "&", "=",
    ]
    var service = HTTPService()
    let text = (0..<500).map { _ in words.randomElement(using: &random) ?? "" }.joined()
    _ = talk(to: &service, Array(text.utf8), pieces: 13)
  }
}
