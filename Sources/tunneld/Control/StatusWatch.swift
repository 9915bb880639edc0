import EventLoop
import JSON

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// `tunneld status --watch`: asks every second and shows the answer, on a screen of its own where there is a
/// terminal, else one after the other. Lives on the loop's thread.
final class StatusWatch: ReadinessHandler {
  /// Between questions, nanoseconds.
  private static let interval: Int64 = 1_000_000_000

  private let loop: EventLoop
  private var connection: ControlConnection
  private var watcher: Watcher?
  private var keys: Watcher?
  private var timer: LoopTimer?
  private var signals: [SignalWatcher] = []
  private var terminal: Terminal?
  private var before: JSONValue?
  private var shown: JSONValue?
  private var asked: Int64 = 0
  private var isWaiting = false
  private var failure: ControlFailure?

  private init(_ connection: consuming ControlConnection, on loop: EventLoop) {
    self.loop = loop
    self.connection = connection
    terminal = Terminal()
  }

  /// Goes on until the user ends it.
  ///
  /// - Throws: when tunneld answers no more.
  static func run(_ connection: consuming ControlConnection) throws(ControlFailure) {
    let loop: EventLoop
    let watch: StatusWatch
    do throws(SystemError) {
      loop = try EventLoop()
      watch = StatusWatch(connection, on: loop)
      watch.watcher = try Watcher(watch.connection.number, on: loop, handler: watch)
    } catch {
      throw ControlFailure("\(error)")
    }
    watch.start()
    loop.run()
    watch.terminal?.leave()
    watch.watcher.drop()
    watch.keys.drop()
    if let failure = watch.failure { throw failure }
  }

  private func start() {
    for number in [SIGINT, SIGTERM, SIGHUP] {
      signals.append(SignalWatcher(number, on: loop) { [unowned self] in loop.stop() })
    }
    if terminal != nil {
      signals.append(SignalWatcher(SIGWINCH, on: loop) { [unowned self] in show() })
      signals.append(SignalWatcher(SIGTSTP, on: loop) { [unowned self] in pause() })
      enter()
    }
    timer = LoopTimer(on: loop) { [unowned self] in timeIsUp() }
    ask()
  }

  private func enter() {
    terminal?.enter()
    // Where it cannot be watched there is still Ctrl-C.
    guard terminal?.hasKeys == true else { return }
    keys = try? Watcher(levelTriggered: STDIN_FILENO, for: .read, on: loop, handler: self)
  }

  /// Ctrl-Z: the shell finds its terminal as it was.
  private func pause() {
    keys.drop()
    terminal?.leave()
    _ = kill(getpid(), SIGSTOP)
    enter()
    show()
  }

  private func end(_ failure: ControlFailure?) {
    self.failure = failure
    loop.stop()
  }

  // MARK: Asking

  private func ask() {
    asked = loop.now
    isWaiting = true
    timer?.set(after: ControlConnection.patience)
    do throws(ControlFailure) {
      try connection.send(ControlRequest.Command.status.rawValue)
      try receive()
    } catch {
      end(error)
    }
  }

  private func timeIsUp() {
    if isWaiting { end(connection.tooSlow) } else { ask() }
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) {
    if watcher === keys { return readKeys() }
    do throws(ControlFailure) {
      try receive()
    } catch {
      end(error)
    }
  }

  private func receive() throws(ControlFailure) {
    while isWaiting {
      guard let answer = try connection.answerNow() else {
        watcher?.wait(for: .read)
        return
      }
      isWaiting = false
      (before, shown) = (shown, answer)
      show()
      timer?.set(after: max(0, asked + Self.interval - loop.now))
    }
  }

  /// One read, which does not wait; of what is left the loop tells again.
  private func readKeys() {
    var key: UInt8 = 0
    switch unsafe systemRead(STDIN_FILENO, &key, 1) {
    case 1: if key == UInt8(ascii: "q") { loop.stop() }
    case 0: keys.drop()
    default: break
    }
  }

  // MARK: Showing

  private func show() {
    guard let shown else { return }
    let isSeen: Bool
    if let terminal {
      let (columns, rows) = terminal.size
      isSeen = terminal.draw(StatusScreen(columns: columns, rows: rows).frame(shown, before: before))
    } else {
      isSeen = Console.write(StatusText.table(shown, before: before) + "\n\n", to: STDOUT_FILENO)
    }
    if !isSeen { loop.stop() }
  }
}
