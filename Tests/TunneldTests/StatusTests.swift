import JSON
import Testing

@testable import tunneld

@Suite("A status for people")
struct StatusTests {
  private func status(
    devices: Int = 1, forwards: Int = 2, connections: Int = 3, uptime: Double = 10, moved: Int64 = 0
  ) -> JSONValue {
    let udid = "00008110-000000C0FFEE0001"
    func list(_ count: Int, _ element: (Int64) -> [JSONValue.Member]) -> JSONValue {
      .array((0..<Int64(count)).map { .object(element($0)) })
    }
    return .object([
      JSONValue.Member("version", "1"), JSONValue.Member("pid", .integer(7)),
      JSONValue.Member("uptime", .number(uptime)),
      JSONValue.Member(
        "devices",
        list(devices) { _ in
          [
            JSONValue.Member("udid", .string(udid)), JSONValue.Member("connection", "usb"),
            JSONValue.Member("speed", .integer(480_000_000)), JSONValue.Member("transport", "usbmuxd"),
            JSONValue.Member("connections", .integer(3)),
          ]
        }),
      JSONValue.Member(
        "forwards",
        list(forwards) { number in
          let port = 8000 + number
          return [
            JSONValue.Member("id", .integer(number)),
            JSONValue.Member("name", "a-name-as-long-as-names-may-be-40-letters"),
            JSONValue.Member(
              "listen",
              .array(
                ["127.0.0.1", "::1"].map {
                  .object([
                    JSONValue.Member("address", .string($0)), JSONValue.Member("port", .integer(port)),
                  ])
                })),
            JSONValue.Member("device_port", .integer(8765)), JSONValue.Member("udid", .string(udid)),
            JSONValue.Member("connections", .integer(1)), JSONValue.Member("accepted", .integer(12345)),
          ]
        }),
      JSONValue.Member(
        "connections",
        list(connections) { number in
          [
            JSONValue.Member("id", .integer(100_000 + number)), JSONValue.Member("forward", .integer(1)),
            JSONValue.Member("udid", .string(udid)), JSONValue.Member("port", .integer(8765)),
            JSONValue.Member("state", "open"), JSONValue.Member("age", .number(uptime + 200_000)),
            // The later a connection, the more it has moved.
            JSONValue.Member("sent", .integer(1000 + moved * number)),
            JSONValue.Member("received", .integer(987_654_321 + moved * number)),
          ]
        }),
      JSONValue.Member(
        "counters",
        .object([
          JSONValue.Member("accepted", .integer(5)), JSONValue.Member("sent", .integer(1)),
          JSONValue.Member("errors", .object([JSONValue.Member("refused", .integer(2))])),
        ])),
      JSONValue.Member(
        "loops",
        .array([.object([JSONValue.Member("name", "main"), JSONValue.Member("p99", .number(0.001))])])),
    ])
  }

  @Test(
    "A picture never exceeds the terminal",
    arguments: [1, 2, 5, 9, 12, 19, 20, 24, 60, 300], [1, 20, 40, 79, 80, 132, 250])
  func fits(rows: Int, columns: Int) {
    for (devices, forwards, connections) in [(0, 0, 0), (1, 1, 1), (1, 3, 100), (40, 40, 40), (1, 200, 5000)]
    {
      let status = status(devices: devices, forwards: forwards, connections: connections, moved: 5)
      for before in [nil, status] {
        let lines = StatusScreen(columns: columns, rows: rows).frame(status, before: before)
        #expect(lines.count <= rows)
        #expect(lines.allSatisfy { $0.count <= columns })
      }
    }
  }

  @Test("What has no room is counted")
  func counts() throws {
    let now = status(forwards: 2, connections: 100)
    let lines = StatusScreen(columns: 80, rows: 24).frame(now, before: now)
    let rest = try #require(lines.first { $0.hasPrefix("and ") })
    let shown = lines.count { $0.contains(" open ") }
    #expect(rest == "and \(100 - shown) more" && shown >= 6)
    #expect(lines.contains { $0.contains("SENT/S") && $0.contains("AGE") && $0.contains("UDID") }, "\(lines)")
    #expect(lines.contains { $0.contains("localhost:8000") }, "\(lines)")
    let small = StatusScreen(columns: 80, rows: 10).frame(now, before: nil)
    #expect(small.contains("2 forwards") && small.contains { $0.hasPrefix("and ") }, "\(small)")
    let tiny = StatusScreen(columns: 80, rows: 4).frame(now, before: nil)
    #expect(tiny.count == 4 && tiny.last?.hasSuffix("more lines") == true, "\(tiny)")
  }

  @Test("Those that move most come first, with what they move in a second")
  func rates() throws {
    let lines = StatusScreen(columns: 200, rows: 40).frame(
      status(connections: 30, uptime: 12, moved: 2048), before: status(connections: 30, uptime: 10))
    let rows = lines.filter { $0.contains(" open ") }
    #expect(rows.first?.hasPrefix("100029") == true)
    #expect(rows.first?.hasSuffix("29.0 KiB  29.0 KiB") == true, "\(rows)")
  }

  @Test("Lines are told apart by nothing that a terminal would obey")
  func controls() {
    let status = JSONValue.object([
      JSONValue.Member(
        "configuration",
        .object([JSONValue.Member("path", "/etc/\u{1b}[2J\u{9b}x"), JSONValue.Member("problem", "a\nb")]))
    ])
    let lines = StatusScreen(columns: 80, rows: 24).frame(status, before: nil)
    #expect(lines[0].hasSuffix("/etc/?[2J?x") && lines[1].hasSuffix("a?b"), "\(lines)")
  }

  @Test("A table drops what matters least")
  func columns() {
    let table = TextTable([
      TextTable.Column("NUMBER", ["1", "22"]),
      TextTable.Column("LONG NAME", ["abcdefghi", "x"], short: ("NAME", ["abcd", "x"]), dispensability: 1),
      TextTable.Column("LEAST", ["a", "b"], dispensability: 2),
    ])
    #expect(table.lines()[1] == "1       abcdefghi  a")
    #expect(table.lines(width: 24).first == "NUMBER  LONG NAME  LEAST")
    #expect(table.lines(width: 23).first == "NUMBER  NAME  LEAST")
    #expect(table.lines(width: 18) == ["NUMBER  NAME", "1       abcd", "22      x"])
    #expect(table.lines(width: 11).first == "NUMBER")
    #expect(table.lines(width: 3) == ["NU>", "1", "22"])
  }

  @Test(
    "Amounts in five characters",
    arguments: [
      (0, "0"), (1023, "1023"), (1024, "1.0K"), (102_300, "99.9K"), (102_400, "100K"), (1_048_064, "1024K"),
      (1_048_576, "1.0M"), (5e14, "455T"), (1e300, "909T"), (-1, "0"),
    ])
  func amounts(bytes: Double, text: String) {
    #expect(StatusText.shortBytes(bytes) == text)
  }

  @Test("A UDID is known by its end")
  func ends() {
    #expect("00008110-000000C0FFEE0001".ending(atMost: 10) == "..FFEE0001")
    #expect("short".ending(atMost: 10) == "short")
    #expect(StatusText.shortTime(93_784) == "1d 02h" && StatusText.shortTime(59) == "00:00:59")
  }
}
