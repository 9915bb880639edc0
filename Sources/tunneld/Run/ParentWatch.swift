import CSystem
import EventLoop

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// Tells when the process that started this one has ended.
///
/// Linux has a descriptor for that; its other way, PR_SET_PDEATHSIG, acts when the *thread* ends that did the
/// start, which many runtimes' threads do early. Elsewhere, and on old kernels, it is looked for each second.
final class ParentWatch: ReadinessHandler {
  private static let pause: Int64 = 1_000_000_000

  private let parent = getppid()
  private let ended: () -> Void
  private var descriptor: Descriptor?
  private var watcher: Watcher?
  private var timer: LoopTimer?

  /// `ended` is called once, on the loop's thread, perhaps soon.
  init(on loop: EventLoop, ended: @escaping () -> Void) {
    self.ended = ended
    let number = cs_process_descriptor(Int64(parent))
    if number >= 0 {
      descriptor = Descriptor(owning: number)
      watcher = try? Watcher(number, on: loop, handler: self)
    }
    // One look in any case: it may have ended before there was a descriptor for it.
    let timer = LoopTimer(on: loop) { [unowned self] in look() }
    timer.set(after: 0)
    self.timer = timer
  }

  func ready(_ readiness: Readiness, _ watcher: Watcher) { end() }

  private func look() {
    guard getppid() == parent else { return end() }
    if watcher == nil { timer?.set(after: Self.pause) }
  }

  private func end() {
    guard timer != nil else { return }
    timer = nil
    watcher.drop()
    descriptor = nil
    ended()
  }
}
