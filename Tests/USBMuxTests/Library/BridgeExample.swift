import Testing
import USBMux

// What docs/LIBRARY.md shows, compiled and run.

/// A bridge's way to the app: one forward for HTTP clients, and streams of its own.
struct Bridge {
  let mux: Mux
  let app: DevicePort

  /// Forwards a free local port to the app; the URL is for any HTTP client of this process.
  func startForward() async throws(MuxError) -> (forward: Forward, url: String) {
    let forward = try await mux.forward(.localhost(port: 0), to: app)
    return (forward, "http://127.0.0.1:\(forward.port ?? 0)/")
  }

  /// One request over a stream of its own: everything that the app answers.
  func get(_ path: String) async throws(MuxError) -> [UInt8] {
    let stream = try await mux.connect(port: app, wait: .seconds(5))
    try await stream.write(Array("GET \(path) HTTP/1.1\r\nHost: app\r\nConnection: close\r\n\r\n".utf8))
    var answer: [UInt8] = []
    while let bytes = try await stream.read() { answer += bytes }
    return answer
  }

  /// What to tell the person at the desk.
  func advice(_ error: MuxError) -> String {
    switch error {
    case .refused: "start the app and keep it in the foreground"
    case .noSuchDevice, .deviceGone: "plug the phone in"
    case .ambiguousDevice: "say which phone is meant"
    default: "\(error)"
    }
  }
}

@Suite("The bridge of docs/LIBRARY.md")
struct BridgeExampleTests {
  @Test func itReachesTheApp() async throws {
    let app = try #require(DevicePort(8765))
    let bridge = Bridge(mux: try Mux(.init(transport: .simulated(SimulationConfiguration()))), app: app)
    let answer = String(decoding: try await bridge.get("/small"), as: UTF8.self)
    #expect(answer.hasPrefix("HTTP/1.1 200"))
    let (forward, url) = try await bridge.startForward()
    #expect(url.hasPrefix("http://127.0.0.1:") && (forward.port ?? 0) > 0)
    await forward.stop()
  }

  @Test func itKnowsWhatToSay() async throws {
    let nobody = try #require(DevicePort(1))
    let bridge = Bridge(mux: try Mux(.init(transport: .simulated(SimulationConfiguration()))), app: nobody)
    let error = await #expect(throws: MuxError.self) { _ = try await bridge.get("/") }
    #expect(error == .refused(nobody))
    #expect(bridge.advice(.refused(nobody)).contains("foreground"))
  }
}
