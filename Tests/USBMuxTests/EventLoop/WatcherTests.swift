import CSystem
import Foundation
import Testing

@testable import EventLoop

/// Collects what it is told.
final class Ear: ReadinessHandler {
  var told: [Readiness] = []
  var watcher: Watcher?
  var action: (Readiness) -> Void = { _ in }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    told.append(readiness)
    action(readiness)
  }

  func watch(_ descriptor: CInt, on loop: EventLoop) throws {
    watcher = try Watcher(descriptor, on: loop, handler: self)
  }
}

/// The loop runs on the test's own thread, turn by turn where the order matters.
@Suite("Watchers")
struct WatcherTests {
  /// Turns the loop until `condition` holds.
  private func turn(_ loop: EventLoop, until condition: () -> Bool) throws {
    try eventually("an event") {
      // Something always waits to be called, so that no turn sleeps.
      loop.resume(Nothing())
      loop.poller.turn(loop)
      return condition()
    }
  }

  private final class Nothing: Resumable {
    func resume() {}
  }

  @Test("Bytes, room, an end and a hang-up are told")
  func readiness() throws {
    let loop = try EventLoop()
    let (number, peer) = try Pair.unix()
    let socket = Descriptor(owning: number)
    let ear = Ear()
    try ear.watch(socket.number, on: loop)
    try turn(loop) { true }
    #expect(ear.told.isEmpty)

    try peer.send([1])
    try turn(loop) { !ear.told.isEmpty }
    #expect(ear.told.last?.contains(.read) == true && ear.told.last?.contains(.hangUp) == false)

    ear.told = []
    ear.watcher?.wait(for: .write)
    try turn(loop) { ear.told.contains { $0.contains(.write) } }

    ear.told = []
    ear.watcher?.wait(for: .read)
    peer.endSending()
    try turn(loop) { ear.told.contains { $0.contains(.hangUp) } }
    #expect(ear.told.allSatisfy { !$0.contains(.broken) }, "a half-closed peer is not gone")

    #if !PORTABLE_POLLER
      // Told of an end once, the portable set does not tell that the peer has gone since.
      ear.told = []
      peer.close()
      try turn(loop) { ear.told.contains { $0.contains(.broken) } }
    #endif
    ear.watcher.drop()
  }

  @Test("A cancelled watcher is told nothing, not even what was found in this very turn")
  func cancelInCallback() throws {
    let loop = try EventLoop()
    let (first, firstPeer) = try Pair.unix()
    let (second, secondPeer) = try Pair.unix()
    let sockets = [Peer(owning: first), Peer(owning: second)]
    let ears = [Ear(), Ear()]
    for (ear, socket) in zip(ears, sockets) { try ear.watch(socket.number, on: loop) }
    // Whoever comes first cancels the other one.
    for index in 0...1 {
      ears[index].action = { [unowned other = ears[1 - index]] _ in other.watcher.drop() }
    }
    try firstPeer.send([1])
    try secondPeer.send([1])
    try turn(loop) { ears.contains { !$0.told.isEmpty } }
    for _ in 0..<3 { try turn(loop) { true } }
    #expect(ears.map(\.told.count).sorted() == [0, 1])
    for ear in ears { ear.watcher.drop() }
  }

  @Test("An event for an earlier life of a descriptor's number is dropped")
  func generations() throws {
    let loop = try EventLoop()
    let (first, firstPeer) = try Pair.unix()
    let (second, secondPeer) = try Pair.unix()
    let killer = Ear()
    let victim = Ear()
    let heir = Ear()
    let numbers = [first, second]
    try killer.watch(first, on: loop)
    try victim.watch(second, on: loop)
    var heirPeer: Peer?
    // Both events are fetched in one turn. The first callback closes the other's descriptor and watches
    // a new one with the same number, in the same place: the second event is not for that one.
    for (own, other, number) in [(killer, victim, second), (victim, killer, first)] {
      own.action = { [unowned own, unowned other] _ in
        own.action = { _ in }
        other.action = { _ in }
        other.watcher.dropBeforeClose()
        do {
          let (fresh, peer) = try Pair.unix()
          heirPeer = peer
          // Closes it and gives the number away in one step: other tests open descriptors as well.
          guard dup2(fresh, number) == number else { throw SystemError.last("dup2") }
          close(fresh)
          try heir.watch(number, on: loop)
        } catch { Issue.record(error) }
      }
    }
    try firstPeer.send([1])
    try secondPeer.send([1])
    try turn(loop) { heir.watcher != nil }
    for _ in 0..<3 { try turn(loop) { true } }
    #expect(killer.told.count + victim.told.count == 1)
    #expect(heir.told.isEmpty, "it has no bytes yet")
    try #require(heirPeer).send([2])
    try turn(loop) { !heir.told.isEmpty }
    #expect(heir.told == [.read])
    for ear in [killer, victim, heir] { ear.watcher.drop() }
    for number in numbers { close(number) }
  }

  @Test("A thousand lives of one number are told their own events only")
  func reuse() throws {
    let loop = try EventLoop()
    for life in 0..<1000 {
      let (number, peer) = try Pair.unix()
      let socket = Peer(owning: number)
      let ear = Ear()
      try ear.watch(socket.number, on: loop)
      if life % 2 == 0 { try peer.send([UInt8(truncatingIfNeeded: life)]) }
      if life % 3 == 0 { try turn(loop) { life % 2 != 0 || !ear.told.isEmpty } }
      #expect(ear.told.count == (life % 6 == 0 ? 1 : 0))
      if life % 5 == 0 { ear.watcher.drop() } else { ear.watcher.dropBeforeClose() }
    }
  }

  @Test("A descriptor that cannot be watched throws")
  func refused() throws {
    let loop = try EventLoop()
    let ear = Ear()
    #expect(throws: SystemError.self) { try ear.watch(-1, on: loop) }
    let (number, _) = try Pair.unix()
    close(number)
    #expect(throws: SystemError.self) { try ear.watch(number, on: loop) }
    // A place that was given back is used again.
    let (other, peer) = try Pair.unix()
    let socket = Peer(owning: other)
    try ear.watch(socket.number, on: loop)
    try peer.send([1])
    try turn(loop) { !ear.told.isEmpty }
    ear.watcher.drop()
  }

  @Test("Work in slices lets descriptors have their turn between")
  func slices() throws {
    let loop = try EventLoop()
    let (number, peer) = try Pair.unix()
    let socket = Peer(owning: number)
    let ear = Ear()
    try ear.watch(socket.number, on: loop)
    final class Worker: Resumable {
      let loop: EventLoop
      var slices = 0
      init(_ loop: EventLoop) { self.loop = loop }
      func resume() {
        slices += 1
        loop.resume(self)
      }
    }
    let worker = Worker(loop)
    loop.resume(worker)
    for _ in 0..<10 { loop.poller.turn(loop) }
    #expect(worker.slices == 10, "one slice a turn")
    try peer.send([1])
    let before = worker.slices
    while ear.told.isEmpty && worker.slices < before + 100 { loop.poller.turn(loop) }
    #expect(worker.slices <= before + 2)
    ear.watcher.drop()
  }
}
