import Foundation
import Testing

extension EndToEnd {
  /// `tunneld status --watch` in a terminal.
  @Suite(.serialized) struct Watch {
    /// All of it lives as long as the test holds it.
    private struct Scene {
      let mux: FakeMux
      let service: ConfiguredTunnel
      let clients: [Client]
    }

    private func scene(connections count: Int) throws -> Scene {
      let mux = try FakeMux()
      mux.attach(phone)
      let service = try ConfiguredTunnel(mux, section("echo", "0", 7), ready: [7])
      let clients = try (0..<count).map { _ in try service.tunnel.client() }
      for client in clients { #expect(echoes(client)) }
      return Scene(mux: mux, service: service, clients: clients)
    }

    private func watch(_ scene: Scene, in terminal: PseudoTerminal) throws -> Tunnel {
      try Tunnel(
        arguments: ["status", "--watch", "--control-socket", scene.service.socket], terminal: terminal.path)
    }

    private func isBack(_ terminal: PseudoTerminal) -> Bool {
      terminal.waitForOutput { $0.hasSuffix("\u{1b}[?25h\u{1b}[?1049l") } && terminal.echoes
    }

    @Test func itFitsAndRedraws() throws {
      let scene = try scene(connections: 50)
      let terminal = try PseudoTerminal(columns: 80, rows: 24)
      let watch = try watch(scene, in: terminal)
      #expect(
        terminal.waitForOutput {
          $0.components(separatedBy: "\u{1b}[H").count > 3 && $0.hasSuffix("\u{1b}[J")
        })
      #expect(!terminal.echoes, "keys would stand in the picture")
      let output = terminal.output
      #expect(output.hasPrefix("\u{1b}[?1049h\u{1b}[?25l"))
      #expect(!output.contains("\u{1b}[2J"), "it flickers")
      let screen = PseudoTerminal.screen(output, columns: 80, rows: 24)
      #expect(screen.contains { $0.contains("RECV/S") }, "\(screen)")
      #expect(screen.contains { $0.hasPrefix("and ") && $0.hasSuffix(" more") }, "\(screen)")
      #expect(screen.last?.contains("loop: median") == true, "\(screen)")

      // At once, not with the next question.
      terminal.resize(columns: 132, rows: 70)
      #expect(
        terminal.waitForOutput { $0.contains("RECEIVED/S") && $0.hasSuffix("\u{1b}[J") },
        "\(terminal.output.suffix(500))")
      let wide = PseudoTerminal.screen(
        output + terminal.output.dropFirst(output.count), columns: 132, rows: 70)
      #expect(!wide.contains { $0.hasSuffix(" more") }, "\(wide)")
      #expect(wide.count { $0.contains(" open ") } == scene.clients.count)

      terminal.type("xq")
      #expect(watch.waitForExit() == .exited(0))
      #expect(isBack(terminal), "\(terminal.output.suffix(100))")
    }

    @Test(arguments: [SIGINT, SIGTERM, SIGHUP])
    func aSignalLeavesTheTerminalAsItWas(_ signal: Int32) throws {
      let scene = try scene(connections: 1)
      let terminal = try PseudoTerminal(columns: 80, rows: 24)
      let watch = try watch(scene, in: terminal)
      #expect(terminal.waitForOutput { $0.hasSuffix("\u{1b}[J") })
      if signal == SIGINT { terminal.type("\u{03}") } else { watch.signal(signal) }
      #expect(watch.waitForExit() == .exited(0))
      #expect(isBack(terminal), "\(terminal.output.suffix(100))")
    }

    @Test func stoppedItGivesTheTerminalBack() throws {
      let scene = try scene(connections: 1)
      let terminal = try PseudoTerminal(columns: 80, rows: 24)
      let watch = try watch(scene, in: terminal)
      #expect(terminal.waitForOutput { $0.hasSuffix("\u{1b}[J") })
      watch.signal(SIGTSTP)
      #expect(isBack(terminal), "\(terminal.output.suffix(100))")
      let before = terminal.output.count
      watch.signal(SIGCONT)
      #expect(terminal.waitForOutput { $0.count > before && $0.hasSuffix("\u{1b}[J") })
      #expect(!terminal.echoes)
      watch.signal(SIGINT)
      #expect(watch.waitForExit() == .exited(0))
    }

    @Test func theDaemonsEndIsTold() throws {
      let scene = try scene(connections: 1)
      let terminal = try PseudoTerminal(columns: 80, rows: 24)
      let watch = try watch(scene, in: terminal)
      #expect(terminal.waitForOutput { $0.hasSuffix("\u{1b}[J") })
      scene.service.tunnel.signal(SIGTERM)
      #expect(watch.waitForExit() == .exited(1))
      #expect(isBack(terminal))
      #expect(watch.log.contains("has ended the connection") && !watch.log.contains("group"), "\(watch.log)")
    }

    @Test func aReaderThatLeavesEndsIt() throws {
      let scene = try scene(connections: 1)
      let watch = try Tunnel(
        wrapper: ["/bin/sh", "-c", "\"$0\" \"$@\" | head -n 1"],
        arguments: ["status", "--watch", "--control-socket", scene.service.socket])
      #expect(watch.waitForExit() == .exited(0))
      #expect(watch.outputLines.count == 1)
    }
  }
}
