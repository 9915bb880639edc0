import Dispatch
import EventLoop
import Foundation

/// Something did not happen in time.
struct TooLate: Error, CustomStringConvertible {
  let description: String
  init(_ what: String) { description = "in time: \(what)" }
}

/// The longest that a test waits for something. Nothing waits so long when all is well.
let patience = 60.0

/// Waits until `condition` holds.
func eventually(
  _ what: String, within seconds: Double = patience, _ condition: () throws -> Bool
) throws {
  let deadline = DispatchTime.now() + seconds
  while try !condition() {
    guard DispatchTime.now() < deadline else { throw TooLate(what) }
    // Nothing can be waited on that covers every condition, so it is looked at each millisecond.
    usleep(1000)
  }
}

/// Runs `body`, which waits for what other tasks do, on a thread of its own: the tasks need those of the runtime,
/// which are few.
func offPool<T: Sendable>(_ body: @escaping @Sendable () throws -> T) async throws -> T {
  try await withCheckedThrowingContinuation { continuation in
    Thread.detachNewThread { continuation.resume(with: Result { try body() }) }
  }
}

/// A loop on a thread of its own, for a test on another one.
final class LoopThread: @unchecked Sendable {
  let loop: EventLoop

  init() throws {
    loop = try EventLoop()
    try loop.start()
  }

  deinit { loop.stop() }

  /// Runs `body` on the loop's thread and waits for it.
  @discardableResult
  func run<T>(_ body: @escaping () throws -> T) throws -> T {
    nonisolated(unsafe) let body = body
    nonisolated(unsafe) var result: Result<T, any Error>?
    let done = DispatchSemaphore(value: 0)
    loop.execute {
      result = Result { try body() }
      done.signal()
    }
    guard done.wait(timeout: .now() + patience) == .success, let result else {
      throw TooLate("code on the loop's thread")
    }
    return try result.get()
  }

  /// Waits until `condition`, which runs on the loop's thread, holds.
  func eventually(_ what: String, _ condition: @escaping () throws -> Bool) throws {
    try USBMuxTests.eventually(what) { try run(condition) }
  }
}

/// A value that several threads touch in turn; the test's own order makes that safe.
final class Box<Value>: @unchecked Sendable {
  private let lock = NSLock()
  private var stored: Value
  init(_ value: Value) { stored = value }

  var value: Value {
    get { lock.withLock { stored } }
    set { lock.withLock { stored = newValue } }
  }

  @discardableResult
  func change<T>(_ body: (inout Value) -> T) -> T { lock.withLock { body(&stored) } }
}
