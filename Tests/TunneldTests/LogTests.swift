import Foundation
import JSON
import Testing
import USBMux

@testable import tunneld

@Suite("Lines of the log")
struct LogTextTests {
  @Test("As text and as JSON")
  func formats() {
    var options = LogOptions()
    #expect(
      LogText.line(LogRecord(level: .error, connection: 7, message: "no"), program: "tunneld", options)
        == "tunneld: error: [7] no")
    #expect(
      LogText.line(LogRecord(level: .info, connection: nil, message: "yes"), program: "iproxy", options)
        == "iproxy: yes")
    options.format = .json
    #expect(
      LogText.line(
        LogRecord(level: .notice, connection: 7, message: "a \"b\"\n"), program: "tunneld", options, time: "T"
      )
        == #"{"time":"T","level":"notice","connection":7,"message":"a \"b\"\n"}"#)
    let time = LogText.now()
    #expect(time.wholeMatch(of: /\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/) != nil, "\(time)")
  }

  @Test(
    "UDIDs lose what tells phones apart, but for the last digits",
    arguments: [
      ("device 00008110-000A1B2C3D4E5F60 is", "device ...5F60 is"),
      ("00008110000A1B2C3D4E5F60", "...5F60"),
      ("(0123456789abcdef0123456789abcdef01234567):22", "(...4567):22"),
      ("port 8765 of 127.0.0.1, 0xdeadbeef", "port 8765 of 127.0.0.1, 0xdeadbeef"),
      ("00008110-000A1B2C3D4E5F6", "00008110-000A1B2C3D4E5F6"),
      ("000081100-00A1B2C3D4E5F60", "000081100-00A1B2C3D4E5F60"), ("", ""),
    ])
  func redaction(text: String, expected: String) {
    #expect(LogText.redacted(text) == expected)
    var options = LogOptions(redactsUDIDs: true)
    options.format = .json
    #expect(
      !LogText.line(LogRecord(level: .info, connection: nil, message: text), program: "t", options).contains(
        "000A1B2C3D4E5F60"))
  }
}

@Suite("A reader of the log that does not read")
struct LogSinkTests {
  /// Takes all that is in a pipe now.
  private func drain(_ descriptor: CInt) -> String {
    _ = fcntl(descriptor, F_SETFL, O_NONBLOCK)
    var all: [UInt8] = []
    var piece = [UInt8](repeating: 0, count: 65536)
    while true {
      let count = Foundation.read(descriptor, &piece, piece.count)
      if count <= 0 { return String(decoding: all, as: UTF8.self) }
      all += piece[..<count]
    }
  }

  private enum Kind: CaseIterable { case pipe, socket }

  @Test("costs lines, which are counted and told of, and no time")
  func full() throws {
    for kind in Kind.allCases {
      var ends: [CInt] = [0, 0]
      switch kind {
      case .pipe: #expect(pipe(&ends) == 0)
      case .socket: #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
      }
      defer { for end in ends { close(end) } }
      let (reader, writer) = (ends[0], ends[1])
      let sink = LogSink(program: "t", descriptor: writer)
      let line = String(repeating: "x", count: 1000)
      for _ in 0..<2000 { sink.write(.info, line) }
      let dropped = sink.dropped
      #expect(dropped > 0 && dropped < 2000)
      let first = drain(reader)
      sink.write(.info, "again")
      let all = first + drain(reader)
      let lines = all.split(separator: "\n")
      #expect(lines.dropLast(2).allSatisfy { $0 == "t: " + line }, "whole lines only")
      #expect(UInt64(lines.count - 2) + dropped == 2000)
      #expect(
        lines.suffix(2).map { $0 + "\n" }.joined()
          == "t: warning: \(dropped) lines of the log were dropped, since nobody read them\nt: again\n")
      #expect(sink.dropped == dropped)
      #expect(fcntl(writer, F_GETFL) & O_NONBLOCK == 0, "the descriptor is shared with others")
    }
  }

  @Test("A message has a longest length, one below, at and above")
  func length() {
    for count in [1999, 2000, 2001] {
      let line = LogText.line(
        LogRecord(level: .info, connection: nil, message: String(repeating: "x", count: count)), program: "t",
        LogOptions())
      #expect(line.utf8.count == 3 + min(count, 2000))
    }
    let wide = LogText.line(
      LogRecord(level: .info, connection: nil, message: String(repeating: "é", count: 1500)), program: "tt",
      LogOptions())
    #expect(wide == "tt: " + String(repeating: "é", count: 1000), "no half character")
  }
}
