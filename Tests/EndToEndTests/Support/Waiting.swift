import Foundation

/// Seconds on a clock that never goes back.
func uptime() -> Double {
  var time = timespec()
  clock_gettime(CLOCK_MONOTONIC, &time)
  return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
}

/// A moment after which waiting is given up.
struct Deadline {
  let moment: Double

  init(in seconds: Double) { moment = uptime() + seconds }

  var left: Double { max(0, moment - uptime()) }
  var passed: Bool { uptime() >= moment }
  /// What `poll` wants to hear, rounded up so that it does not spin during the last millisecond.
  var milliseconds: Int32 { Int32((left * 1000).rounded(.up)) }
}

/// Something that the test needed did not happen.
struct Unmet: Error, CustomStringConvertible {
  let description: String
  init(_ description: String) { self.description = description }
}

/// A system call that failed in the test's own process.
struct SystemFailure: Error, CustomStringConvertible {
  let call: String
  let code: Int32
  init(_ call: String, code: Int32 = errno) {
    self.call = call
    self.code = code
  }
  var description: String { "\(call): \(String(cString: strerror(code)))" }
}

/// Values that one thread changes and others wait for.
final class Monitor: @unchecked Sendable {
  private let condition = NSCondition()

  func changing<Result>(_ body: () throws -> Result) rethrows -> Result {
    condition.lock()
    defer {
      condition.broadcast()
      condition.unlock()
    }
    return try body()
  }

  func reading<Result>(_ body: () throws -> Result) rethrows -> Result {
    condition.lock()
    defer { condition.unlock() }
    return try body()
  }

  /// True as soon as `body` is true, false when the time has run out first.
  func wait(within seconds: Double, until body: () -> Bool) -> Bool {
    let deadline = Deadline(in: seconds)
    condition.lock()
    defer { condition.unlock() }
    while !body() {
      if deadline.passed { return false }
      _ = condition.wait(until: Date(timeIntervalSinceNow: min(deadline.left, 0.25) + 0.001))
    }
    return true
  }
}

/// For what nobody announces (`/proc`, the file system): asks again until it is so.
func eventually(within seconds: Double, _ body: () throws -> Bool) rethrows -> Bool {
  let deadline = Deadline(in: seconds)
  while true {
    if try body() { return true }
    if deadline.passed { return false }
    usleep(5_000)
  }
}

/// True once `value` has stayed the same for `seconds`; false if it still moves at the deadline.
func settles(for seconds: Double, within limit: Double, _ value: () -> Int) -> Bool {
  let deadline = Deadline(in: limit)
  var last = value()
  var since = uptime()
  while !deadline.passed {
    usleep(10_000)
    let now = value()
    if now != last {
      last = now
      since = uptime()
    } else if uptime() - since >= seconds {
      return true
    }
  }
  return false
}

/// Runs `body` on `count` threads of their own and returns when all of them have ended.
func inParallel(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
  let group = DispatchGroup()
  for index in 0..<count {
    group.enter()
    Thread {
      body(index)
      group.leave()
    }.start()
  }
  group.wait()
}

/// Some tests hold thousands of sockets on both sides; the hard limit decides what is possible.
/// Returns the limit that is now in force.
@discardableResult
func raiseDescriptorLimit() -> Int {
  var limit = rlimit()
  #if canImport(Darwin)
    let resource = RLIMIT_NOFILE
  #else
    let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
  #endif
  getrlimit(resource, &limit)
  if limit.rlim_cur < limit.rlim_max {
    limit.rlim_cur = limit.rlim_max
    setrlimit(resource, &limit)
    getrlimit(resource, &limit)
  }
  return Int(min(limit.rlim_cur, 1 << 30))
}
