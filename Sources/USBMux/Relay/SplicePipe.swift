#if os(Linux)
  internal import CSystem
  internal import EventLoop

  /// A kernel pipe through which `splice(2)` moves pages from one socket to another without copying.
  struct SplicePipe: ~Copyable {
    /// Bytes that the pipe is asked to hold.
    static let capacity = 1 << 20

    private let readEnd: Descriptor
    private let writeEnd: Descriptor

    /// Nil when the process or the user has no more descriptors or pipe pages: the stream is copied then.
    init?() {
      var ends: (CInt, CInt) = (-1, -1)
      let status = unsafe withUnsafeMutablePointer(to: &ends) {
        unsafe $0.withMemoryRebound(to: CInt.self, capacity: 2) {
          unsafe cs_splice_pipe($0, CInt(SplicePipe.capacity))
        }
      }
      guard status == 0 else { return nil }
      readEnd = Descriptor(owning: ends.0)
      writeEnd = Descriptor(owning: ends.1)
    }

    @inline(__always)
    func fill(from socket: CInt, atMost count: Int) -> Transfer {
      Self.move(socket, writeEnd.number, count)
    }

    @inline(__always)
    func drain(to socket: CInt, count: Int) -> Transfer {
      let moved = Self.move(readEnd.number, socket, count)
      // The pipe holds bytes, so an end cannot come from it.
      if case .end = moved { return .wouldBlock }
      return moved
    }

    private static func move(_ from: CInt, _ to: CInt, _ count: Int) -> Transfer {
      while true {
        let moved = cs_splice(from, to, count)
        if moved > 0 { return .bytes(moved) }
        if moved == 0 { return .end }
        let error = SystemError.last("splice")
        if error.isInterruption { continue }
        return error.isWouldBlock ? .wouldBlock : .failed(error)
      }
    }
  }

  /// Empty pipes of one loop thread, ready to be used again.
  final class PipePool {
    private var free: [Box] = []
    private static let kept = 16

    final class Box {
      let pipe: SplicePipe
      /// Bytes that are in the pipe.
      var held = 0
      init(_ pipe: consuming SplicePipe) { self.pipe = pipe }
    }

    func take() -> Box? {
      if let box = free.popLast() { return box }
      guard let pipe = SplicePipe() else { return nil }
      return Box(pipe)
    }

    func giveBack(_ box: Box) {
      if box.held == 0 && free.count < PipePool.kept { free.append(box) }
    }
  }
#endif
