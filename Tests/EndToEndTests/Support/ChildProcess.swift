import Foundation

/// A file of `/proc`, which shows its size as 0 and comes in pieces.
func kernelFile(_ path: String) -> String? {
  guard let file = fopen(path, "re") else { return nil }
  defer { fclose(file) }
  var bytes: [UInt8] = []
  var piece = [UInt8](repeating: 0, count: 65536)
  while true {
    let count = fread(&piece, 1, piece.count, file)
    if count == 0 { return String(decoding: bytes, as: UTF8.self) }
    bytes += piece[..<count]
  }
}

/// How a process ended.
enum ExitStatus: Equatable, CustomStringConvertible {
  case exited(Int32)
  case signalled(Int32)

  var description: String {
    switch self {
    case .exited(let code): "exit status \(code)"
    case .signalled(let number): "ended by signal \(number)"
    }
  }
}

/// A program under test with its output collected. It does not outlive the object.
class ChildProcess: @unchecked Sendable {
  let pid: pid_t
  private let monitor = Monitor()
  private var text: [[UInt8]] = [[], []]
  private var openPipes = 2
  private var status: ExitStatus?

  /// `arguments` includes argv[0]; the descriptors of `passing` become 3, 4, ... there. With a `terminal`, the path
  /// of one, it has a session of its own with that terminal, which is its standard input and output.
  init(
    executable: String, arguments: [String], environment: [String: String] = [:], passing: [Int32] = [],
    terminal: String? = nil
  ) throws {
    inheritance.lock()
    defer { inheritance.unlock() }
    var pipes: [[Int32]] = []
    for _ in 0..<2 {
      var pair: [Int32] = [0, 0]
      guard pipe(&pair) == 0 else { throw SystemFailure("pipe") }
      pair.forEach { _ = fcntl($0, F_SETFD, FD_CLOEXEC) }
      pipes.append(pair)
    }
    #if canImport(Darwin)
      var actions: posix_spawn_file_actions_t?
      var attributes: posix_spawnattr_t?
    #else
      var actions = posix_spawn_file_actions_t()
      var attributes = posix_spawnattr_t()
    #endif
    // The test's thread may have signals blocked, and it ignores SIGPIPE: neither is for the child.
    posix_spawnattr_init(&attributes)
    defer { posix_spawnattr_destroy(&attributes) }
    var signals = sigset_t()
    sigemptyset(&signals)
    posix_spawnattr_setsigmask(&attributes, &signals)
    sigfillset(&signals)
    posix_spawnattr_setsigdefault(&attributes, &signals)
    var flags = Int16(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
    if terminal != nil { flags |= newSession }
    posix_spawnattr_setflags(&attributes, flags)
    posix_spawn_file_actions_init(&actions)
    defer { posix_spawn_file_actions_destroy(&actions) }
    if let terminal {
      posix_spawn_file_actions_addopen(&actions, 0, terminal, O_RDWR, 0)
      posix_spawn_file_actions_adddup2(&actions, 0, 1)
    } else {
      posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
      posix_spawn_file_actions_adddup2(&actions, pipes[0][1], 1)
    }
    posix_spawn_file_actions_adddup2(&actions, pipes[1][1], 2)
    // Copies above all numbers that they are to get, so that none is overwritten before its turn.
    let copies = passing.map { fcntl($0, F_DUPFD_CLOEXEC, Int32(3 + passing.count)) }
    defer { copies.forEach { close($0) } }
    for (index, copy) in copies.enumerated() {
      posix_spawn_file_actions_adddup2(&actions, copy, Int32(3 + index))
    }

    var variables = [
      "PATH": "/usr/bin:/bin", "HOME": "/tmp", "SWIFT_BACKTRACE": "enable=no", "LC_ALL": "C.UTF-8",
    ]
    if let path = ProcessInfo.processInfo.environment["LD_LIBRARY_PATH"] {
      variables["LD_LIBRARY_PATH"] = path
    }
    variables.merge(environment) { $1 }
    var argv: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
    var envp: [UnsafeMutablePointer<CChar>?] = variables.map { strdup("\($0)=\($1)") } + [nil]
    defer { (argv + envp).forEach { free($0) } }
    var spawned: pid_t = 0
    let failure = posix_spawn(&spawned, executable, &actions, &attributes, &argv, &envp)
    for pair in pipes { close(pair[1]) }
    guard failure == 0 else {
      for pair in pipes { close(pair[0]) }
      throw SystemFailure("spawn \(executable)", code: failure)
    }
    let child = spawned
    pid = child
    for (index, pair) in pipes.enumerated() {
      let fd = pair[0]
      Thread { [weak self, monitor] in ChildProcess.collect(fd, monitor) { self?.append($0, to: index) } }
        .start()
    }
    Thread { [weak self, monitor] in
      var raw: Int32 = 0
      while waitpid(child, &raw, 0) < 0 && errno == EINTR {}
      let ended: ExitStatus = raw & 0x7f == 0 ? .exited(raw >> 8 & 0xff) : .signalled(raw & 0x7f)
      monitor.changing { self?.status = ended }
    }.start()
  }

  deinit { if status == nil { kill(pid, SIGKILL) } }

  private static func collect(_ fd: Int32, _ monitor: Monitor, _ append: (ArraySlice<UInt8>?) -> Void) {
    var piece = [UInt8](repeating: 0, count: 16384)
    while true {
      let count = Foundation.read(fd, &piece, piece.count)
      if count > 0 {
        monitor.changing { append(piece[..<count]) }
      } else if count == 0 || errno != EINTR {
        break
      }
    }
    monitor.changing { append(nil) }
    close(fd)
  }

  private func append(_ bytes: ArraySlice<UInt8>?, to index: Int) {
    if let bytes { text[index] += bytes } else { openPipes -= 1 }
  }

  // MARK: output

  var outputBytes: [UInt8] { monitor.reading { text[0] } }
  var logBytes: [UInt8] { monitor.reading { text[1] } }
  var output: String { String(decoding: outputBytes, as: UTF8.self) }
  /// Standard error.
  var log: String { String(decoding: logBytes, as: UTF8.self) }
  var outputLines: [String] { lines(output) }
  var logLines: [String] { lines(log) }

  private func lines(_ text: String) -> [String] {
    text.split(separator: "\n", omittingEmptySubsequences: true).map(String.init)
  }

  func waitForOutput(within seconds: Double = 10, _ condition: ([String]) -> Bool) -> Bool {
    monitor.wait(within: seconds) {
      condition(lines(String(decoding: text[0], as: UTF8.self))) || (status != nil && openPipes == 0)
    } && condition(outputLines)
  }

  func waitForLog(within seconds: Double = 5, _ condition: (String) -> Bool) -> Bool {
    monitor.wait(within: seconds) { condition(String(decoding: text[1], as: UTF8.self)) }
  }

  /// Waits for a line on standard error that contains all of `words`, whatever their case.
  func logs(_ words: String..., within seconds: Double = 5) -> Bool {
    waitForLog(within: seconds) { text in
      lines(text).contains { line in
        words.allSatisfy { line.range(of: $0, options: .caseInsensitive) != nil }
      }
    }
  }

  func logCount(_ words: String...) -> Int {
    logLines.count { line in words.allSatisfy { line.range(of: $0, options: .caseInsensitive) != nil } }
  }

  // MARK: life

  var isRunning: Bool { monitor.reading { status == nil } }
  var exitStatus: ExitStatus? { monitor.reading { status } }

  func signal(_ number: Int32) { kill(pid, number) }

  /// The exit status, with all output collected; nil when the process is still there after the time.
  func waitForExit(within seconds: Double = 10) -> ExitStatus? {
    _ = monitor.wait(within: seconds) { status != nil && openPipes == 0 }
    return exitStatus
  }

  // MARK: what the kernel says about it (Linux)

  var descriptors: Int {
    (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd").count) ?? -1
  }
  /// The same, when nothing that was begun at the start is still going on.
  var settledDescriptors: Int {
    _ = settles(for: 0.15, within: 5) { descriptors }
    return descriptors
  }
  var threads: Int { statusField("Threads:") }
  /// Resident memory in bytes.
  var residentBytes: Int { statusField("VmRSS:") * 1024 }
  var anonymousBytes: Int { statusField("RssAnon:") * 1024 }
  /// How often the main thread has been woken so far.
  var wakeUps: Int {
    let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/task")) ?? []
    return tasks.reduce(0) { $0 + statusField("voluntary_ctxt_switches:", of: "task/\($1)/status") }
  }

  /// Seconds of processor time used so far.
  var processorTime: Double {
    guard let text = contents("stat"), let end = text.lastIndex(of: ")") else { return 0 }
    let fields = text[end...].split(separator: " ")
    guard fields.count > 13, let user = Double(fields[12]), let system = Double(fields[13]) else { return 0 }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  private func contents(_ name: String) -> String? {
    kernelFile("/proc/\(pid)/\(name)")
  }

  private func statusField(_ name: String, of file: String = "status") -> Int {
    for line in (contents(file) ?? "").split(separator: "\n") where line.hasPrefix(name) {
      for word in line.dropFirst(name.count).split(whereSeparator: { $0 == " " || $0 == "\t" }) {
        if let value = Int(word) { return value }
      }
    }
    return -1
  }

  /// The addresses (as `/proc/net` writes them) on which the process listens over TCP.
  var listeningAddresses: [String] {
    var sockets: Set<String> = []
    for name in (try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd")) ?? [] {
      if let target = try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/\(pid)/fd/\(name)"),
        target.hasPrefix("socket:[")
      {
        sockets.insert(String(target.dropFirst(8).dropLast()))
      }
    }
    var found: [String] = []
    for table in ["net/tcp", "net/tcp6"] {
      for line in (contents(table) ?? "").split(separator: "\n").dropFirst() {
        let fields = line.split(separator: " ")
        if fields.count > 9, fields[3] == "0A", sockets.contains(String(fields[9])) {
          found.append(String(fields[1].prefix { $0 != ":" }))
        }
      }
    }
    return found
  }
}
