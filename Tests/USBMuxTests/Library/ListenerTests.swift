import CSystem
import EventLoop
import Foundation
import Testing

@testable import USBMux

@Suite("Accepting")
struct ListenerTests {
  private final class Owner: ListenerOwner {
    let failures = Box<[SystemError]>([])
    var mayAccept: Bool { true }
    func accepted(_ client: consuming Descriptor, isUnix: Bool) { Issue.record("nobody connects") }
    func cannotAccept(_ error: SystemError) { failures.change { $0.append(error) } }
  }

  @Test("Where every accept fails, accepting pauses until it is tried again")
  func persistentError() throws {
    let thread = try LoopThread()
    let owner = Owner()
    nonisolated(unsafe) var listener: Listener?
    let address = try #require(SocketAddress(host: "127.0.0.1", port: 0))
    try thread.run {
      // Nobody listens on it: poll says that it is broken, and accept that it is no listener.
      let socket = Descriptor(owning: cs_socket(AF_INET, CInt(SOCK_STREAM.rawValue)))
      listener = try Listener(socket, at: address, on: thread.loop, owner: owner)
    }
    try eventually("the first try") { owner.failures.value.count == 1 }
    // A hundred turns later it is still the only one.
    for _ in 0..<100 { try thread.run {} }
    #expect(owner.failures.value.map(\.code) == [EINVAL])
    try thread.run { listener?.acceptAgain() }
    try eventually("the second try") { owner.failures.value.count == 2 }
    try thread.run {
      listener?.close()
      listener = nil
    }
  }
}
