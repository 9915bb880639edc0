import CSystem
import Dispatch
import EventLoop
import Foundation

@testable import USBMux

/// A relay between a client and a device that the test plays, on a loop thread of its own.
final class RelayBench: RelayOwner, @unchecked Sendable {
  enum Kind: CaseIterable {
    case unix
    case tcp

    func make() throws -> (CInt, Peer) { self == .unix ? try Pair.unix() : try Pair.tcp() }
  }

  let client: Peer
  let device: Peer
  let thread: LoopThread
  private(set) var resources: RelayResources?
  private var relay: SocketRelay?
  private let ended = Box<RelaySummary?>(nil)
  /// What the device's end turns out to be; nil: nobody answers.
  let verdict = Box<DeviceEnd?>(.clean)
  /// Called on the loop's thread.
  var bulk: (SocketRelay) -> Void = { $0.goOn() }
  let bulkCalls = Box(0)

  init(
    client clientKind: Kind = .tcp, device deviceKind: Kind = .unix, needsVerdict: Bool = false,
    times: RelayTimes = RelayTimes(), tap: StreamTap? = nil
  ) throws {
    let (clientNumber, client) = try clientKind.make()
    let (deviceNumber, device) = try deviceKind.make()
    self.client = client
    self.device = device
    thread = try LoopThread()
    let loop = thread.loop
    nonisolated(unsafe) let tap = tap
    try thread.run { [self] in
      let resources = RelayResources(loop: loop)
      self.resources = resources
      relay = SocketRelay(
        identifier: 1, client: Descriptor(owning: clientNumber), clientIsUnix: clientKind == .unix,
        device: Descriptor(owning: deviceNumber), needsVerdict: needsVerdict, times: times,
        tap: tap, resources: resources, owner: self)
    }
  }

  /// Lets it run.
  func start() throws {
    try thread.run { [self] in
      if let relay, let resources { relay.attach(to: resources, owner: self) }
    }
  }

  /// Ends what is left, on its thread. To be called by every test.
  func tearDown() {
    _ = try? thread.run { [self] in
      relay?.stop()
      relay = nil
      resources = nil
    }
  }

  func onLoop(_ body: @escaping (SocketRelay) -> Void) throws {
    try thread.run { [self] in if let relay { body(relay) } }
  }

  /// How it ended, once it has.
  func summary() throws -> RelaySummary {
    try eventually("the relay ends") { ended.value != nil }
    return try required(ended.value)
  }

  var hasEnded: Bool { ended.value != nil }

  func relayNeedsVerdict(_ relay: SocketRelay) {
    guard let end = verdict.value else { return }
    // As a daemon's answer: later.
    thread.loop.execute { [self] in self.relay?.deviceEndVerified(end) }
  }

  func relayIsBulk(_ relay: SocketRelay) {
    bulkCalls.change { $0 += 1 }
    bulk(relay)
  }

  func relayEnded(_ relay: any Relay, _ summary: RelaySummary) { ended.value = summary }
}

/// Runs all at once, each on a thread of its own, and waits for all.
func together(_ bodies: (@Sendable () throws -> Void)...) throws {
  let errors = Box<[any Error]>([])
  let group = DispatchGroup()
  for body in bodies {
    group.enter()
    Thread.detachNewThread {
      do { try body() } catch { errors.change { $0.append(error) } }
      group.leave()
    }
  }
  // Each of them ends by itself: every wait in it is bounded.
  group.wait()
  if let error = errors.value.first { throw error }
}
