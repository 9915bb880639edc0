import Dispatch
import Foundation
import Testing

@testable import EventLoop

@Suite("Event loop")
struct EventLoopTests {
  @Test("Work from many threads runs on the loop's thread, each thread's in order")
  func work() throws {
    let bench = try LoopThread()
    let loop = bench.loop
    #expect(!loop.isCurrent)
    let order = Box<[[Int]]>(Array(repeating: [], count: 4))
    DispatchQueue.concurrentPerform(iterations: 4) { thread in
      for number in 0..<500 {
        loop.execute {
          #expect(loop.isCurrent)
          order.change { $0[thread].append(number) }
        }
      }
    }
    try eventually("all work") { order.value.allSatisfy { $0.count == 500 } }
    for numbers in order.value { #expect(numbers == Array(0..<500)) }
  }

  private actor Resident {
    let loop: EventLoop
    var visits = 0
    nonisolated var unownedExecutor: UnownedSerialExecutor { unsafe loop.asUnownedSerialExecutor() }
    init(on loop: EventLoop) { self.loop = loop }
    func visit() -> Bool {
      visits += 1
      return loop.isCurrent
    }
  }

  @Test("An actor on the loop runs there, called from many tasks")
  func executor() async throws {
    let bench = try LoopThread()
    let resident = Resident(on: bench.loop)
    await withTaskGroup(of: Bool.self) { group in
      for _ in 0..<200 { group.addTask { await resident.visit() } }
      for await isThere in group { #expect(isThere) }
    }
    #expect(await resident.visits == 200)
    // A callback of the loop may enter the actor without waiting.
    let visits = try bench.run { resident.assumeIsolated { $0.visits } }
    #expect(visits == 200)
  }

  #if os(Linux)
    @Test("The isolation check stops code that runs on another thread")
    func isolation() async {
      await #expect(processExitsWith: .failure) {
        let loop = try EventLoop()
        try loop.start()
        func enter(_ resident: Resident) { resident.assumeIsolated { _ in } }
        enter(Resident(on: loop))
      }
    }
  #endif

  @Test("The loop and its thread go when it is stopped: no descriptor is left")
  func lifetime() throws {
    // The first loop makes what libuv keeps for the process.
    do { _ = try EventLoop() }
    final class Witness: Sendable {}
    for _ in 0..<20 {
      weak var gone: EventLoop?
      do {
        let bench = try LoopThread()
        gone = bench.loop
        let timer = try bench.run { LoopTimer(on: bench.loop) {} }
        try bench.run { timer.set(after: 1_000_000_000_000) }
        let kept = Box<LoopTimer?>(consume timer)
        try bench.run { kept.value = nil }
      }
      try eventually("the loop is gone") { gone == nil }
    }
  }

  // MARK: Timers

  @Test("Timers fire once, in the order of their times, not early")
  func timers() throws {
    let bench = try LoopThread()
    let loop = bench.loop
    let fired = Box<[(Int, Int64)]>([])
    nonisolated(unsafe) var timers: [LoopTimer] = []
    let start = loop.now
    try bench.run {
      for milliseconds in [30, 10, 20, 0] {
        let timer = LoopTimer(on: loop) {
          let passed = loop.now - start
          fired.change { $0.append((milliseconds, passed)) }
        }
        timer.set(after: Int64(milliseconds) * 1_000_000)
        timers.append(timer)
      }
    }
    try eventually("all timers") { fired.value.count == 4 }
    #expect(fired.value.map(\.0) == [0, 10, 20, 30])
    for (milliseconds, passed) in fired.value {
      #expect(passed >= Int64(milliseconds) * 1_000_000 - 1_000_000)
    }
    #expect(try bench.run { timers.allSatisfy { !$0.isSet } })
    try bench.run { timers = [] }
  }

  @Test("A timer set again fires at the later time only; one that is cleared, or gone, does not")
  func resetting() throws {
    let bench = try LoopThread()
    let loop = bench.loop
    let fired = Box<[String]>([])
    let timers = Box<[LoopTimer]>([])
    try bench.run {
      let again = LoopTimer(on: loop) { fired.change { $0.append("again") } }
      again.set(after: 1_000_000)
      again.set(after: 20_000_000)
      let cleared = LoopTimer(on: loop) { fired.change { $0.append("cleared") } }
      cleared.set(after: 1_000_000)
      cleared.clear()
      LoopTimer(on: loop) { fired.change { $0.append("gone") } }.set(after: 1_000_000)
      let last = LoopTimer(on: loop) { fired.change { $0.append("last") } }
      last.set(after: 30_000_000)
      timers.value = [again, cleared, last]
    }
    try eventually("the last timer") { fired.value.last == "last" }
    #expect(fired.value == ["again", "last"])
    try bench.run { timers.value = [] }
  }

  @Test("A timer may let itself go, and set itself, from within")
  func withinCallback() throws {
    let bench = try LoopThread()
    let loop = bench.loop
    let count = Box(0)
    nonisolated(unsafe) var timer: LoopTimer?
    try bench.run {
      timer = LoopTimer(on: loop) {
        if count.change({
          $0 += 1; return $0
        }) < 3 {
          timer?.set(after: 0)
        } else {
          timer = nil
        }
      }
      timer?.set(after: 0)
    }
    try bench.eventually("three times") { timer == nil }
    #expect(count.value == 3)
  }

  @Test("The longest time does not overflow")
  func longTimer() throws {
    let bench = try LoopThread()
    nonisolated(unsafe) var timer: LoopTimer?
    try bench.run {
      timer = LoopTimer(on: bench.loop) { Issue.record("it fired") }
      timer?.set(after: .max)
    }
    for _ in 0..<10 { try bench.run {} }
    #expect(try bench.run { timer?.isSet } == true)
    try bench.run { timer = nil }
  }

  // MARK: Signals, paths, names

  @Test("A signal is told on the loop's thread")
  func signals() throws {
    let bench = try LoopThread()
    let loop = bench.loop
    let count = Box(0)
    let watcher = Box<SignalWatcher?>(nil)
    try bench.run {
      watcher.value = SignalWatcher(SIGUSR2, on: loop) {
        #expect(loop.isCurrent)
        count.change { $0 += 1 }
      }
    }
    try bench.run {}
    kill(getpid(), SIGUSR2)
    try eventually("the signal") { count.value == 1 }
    try bench.run { watcher.value = nil }
  }

  @Test("A path that comes and goes is told; its neighbours are not")
  func paths() throws {
    let directory = FileManager.default.temporaryDirectory.path + "/paths-\(UUID().uuidString.prefix(8))"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: directory) }
    let bench = try LoopThread()
    let count = Box(0)
    nonisolated(unsafe) var watcher: PathWatcher?
    try bench.run {
      watcher = PathWatcher(directory: directory, name: "wanted", on: bench.loop) { count.change { $0 += 1 } }
      #expect(watcher != nil)
      #expect(PathWatcher(directory: directory + "/none", name: "x", on: bench.loop) {} == nil)
    }
    // The loop has started it when it has turned once more.
    try bench.run {}
    _ = FileManager.default.createFile(atPath: directory + "/neighbour", contents: nil)
    _ = FileManager.default.createFile(atPath: directory + "/wanted", contents: nil)
    try eventually("it came") { count.value > 0 }
    let before = count.value
    unlink(directory + "/wanted")
    try eventually("it went") { count.value > before }
    try bench.run { watcher = nil }
  }

  @Test("localhost is looked up without blocking the loop; nonsense is not found")
  func names() throws {
    let bench = try LoopThread()
    let results = Box<[Result<[String], NameLookupError>]>([])
    let lookups = Box<[NameLookup]>([])
    try bench.run {
      lookups.value = [
        NameLookup("localhost", on: bench.loop) { result in results.change { $0.append(result) } }
      ]
      #expect(results.value.isEmpty, "never from within the call")
    }
    try eventually("the answer") { results.value.count == 1 }
    let hosts = try results.value[0].get()
    #expect(hosts.contains("127.0.0.1") || hosts.contains("::1"))
    // Longer than any name may be: this fails at once, and is told later all the same.
    try bench.run {
      lookups.value = [
        NameLookup(String(repeating: "a", count: 2000), on: bench.loop) { result in
          results.change { $0.append(result) }
        }
      ]
      #expect(results.value.count == 1)
    }
    try eventually("the failure") { results.value.count == 2 }
    #expect(throws: NameLookupError.self) { try results.value[1].get() }
    try bench.run { lookups.value = [] }
  }

  @Test("Many names share a thread, and the environment stays as it is")
  func manyNames() throws {
    let bench = try LoopThread()
    let count = Box(0)
    let lookups = Box<[NameLookup]>([])
    try bench.run {
      lookups.value = (0..<50).map { _ in
        NameLookup("localhost", on: bench.loop) { result in
          if case .success = result { count.change { $0 += 1 } }
        }
      }
    }
    try eventually("all answers") { count.value == 50 }
    #expect(getenv("UV_THREADPOOL_SIZE") == nil)
    try bench.run { lookups.value = [] }
  }

  @Test("A look-up that is let go tells nothing, and the loop can end meanwhile")
  func abandonedLookup() throws {
    let bench = try LoopThread()
    try bench.run { _ = NameLookup("localhost", on: bench.loop) { _ in Issue.record("it told") } }
    for _ in 0..<20 { try bench.run {} }
  }
}

// The portable set has no descriptor of its own.
#if os(Linux) && !PORTABLE_POLLER
  @Suite("Event loop without descriptors")
  struct EventLoopExhaustionTests {
    /// What a loop opens; other threads of this process open other things.
    private static func loopDescriptors() -> Int {
      let directory = "/proc/self/fd"
      let numbers = (try? FileManager.default.contentsOfDirectory(atPath: directory)) ?? []
      return numbers.count {
        let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "\(directory)/\($0)")
        return target?.contains("event") == true
      }
    }

    private static func limitDescriptors(to count: Int) {
      var limit = rlimit(rlim_cur: rlim_t(count), rlim_max: 4096)
      setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
    }

    @Test("A loop that cannot be made leaves nothing behind")
    func exhaustion() async {
      await #expect(processExitsWith: .success) {
        // The first loop makes what libuv keeps for the process.
        do { _ = try EventLoop() }
        func failingCall(room: Int) -> String? {
          Self.limitDescriptors(to: room)
          defer { Self.limitDescriptors(to: 4096) }
          do throws(SystemError) { _ = try EventLoop() } catch { return error.call }
          return nil
        }
        // From where there is room for all down to where it is ours that fails, and not libuv's part: version
        // 1.44 leaves an epoll set behind there. Other threads of the process open descriptors meanwhile, so this
        // may take more than one look.
        for _ in 0..<10 {
          let top = Process.descriptors() + 40
          guard
            let room = (0..<top).reversed().first(where: { failingCall(room: $0) != nil }),
            failingCall(room: room) == "epoll_create1"
          else { continue }
          let before = Self.loopDescriptors()
          var isSteady = true
          for _ in 0..<20 where failingCall(room: room) != "epoll_create1" { isSteady = false }
          guard isSteady else { continue }
          exit(Self.loopDescriptors() < before + 10 ? EXIT_SUCCESS : EXIT_FAILURE)
        }
        exit(EXIT_FAILURE)
      }
    }
  }
#endif
