import CSystem
import Testing

@testable import EventLoop

/// For libraries that ask themselves what there is to do.
@Suite("Level-triggered watchers")
struct LevelTriggerTests {
  private final class Nothing: Resumable {
    func resume() {}
  }

  private func turn(_ loop: EventLoop, times: Int) {
    for _ in 0..<times {
      loop.resume(Nothing())
      loop.poller.turn(loop)
    }
  }

  @Test("What lasts is told in every turn, and nothing else")
  func reading() throws {
    let loop = try EventLoop()
    let (number, peer) = try Pair.unix()
    let socket = Peer(owning: number)
    let ear = Ear()
    ear.watcher = try Watcher(levelTriggered: socket.number, for: .read, on: loop, handler: ear)
    turn(loop, times: 3)
    #expect(ear.told.isEmpty, "it is writable, which nobody asked for")
    try peer.send([1])
    turn(loop, times: 5)
    #expect(ear.told.count == 5)
    #expect(ear.told.allSatisfy { $0.contains(.read) && !$0.contains(.hangUp) })
    // Asking as an edge-triggered owner would changes nothing.
    ear.watcher?.wait(for: .write)
    ear.told = []
    turn(loop, times: 3)
    #expect(ear.told.count == 3)
    ear.watcher.drop()
    turn(loop, times: 3)
    #expect(ear.told.count == 3)
  }

  @Test("Writability alone: bytes that wait to be read are not told")
  func writing() throws {
    let loop = try EventLoop()
    let (number, peer) = try Pair.unix()
    let socket = Peer(owning: number)
    try peer.send([1])
    let ear = Ear()
    ear.watcher = try Watcher(levelTriggered: socket.number, for: .write, on: loop, handler: ear)
    turn(loop, times: 4)
    #expect(ear.told.count == 4)
    #expect(ear.told.allSatisfy { $0.contains(.write) && !$0.contains(.read) })
    ear.watcher.drop()
  }
}
