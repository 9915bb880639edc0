internal import EventLoop
internal import PacketCapture

/// One direction of a relay between two sockets: what is known of both ends, and what is on its way.
///
/// Bytes leave the source only when there is room for them: one buffer that could not be delivered stops the
/// reading, so the sender's own window closes. Nothing is ever skipped.
@safe
struct Flow {
  /// How bytes are moved. Measured on a Unix socket and a TCP socket (docs/PERFORMANCE.md).
  enum Method {
    /// Through a buffer: best towards TCP, and for small messages.
    case copy
    /// By `splice(2)` once the stream has shown itself to be bulk: best towards a Unix socket.
    case spliceWhenBusy
  }

  /// What a ``pump`` came to.
  enum Outcome {
    /// All is moved that can be; an event will tell when more can.
    case waits
    /// The slice is used up; more could be moved at once.
    case more
    case sourceFailed(SystemError)
    case sinkFailed(SystemError)
  }

  /// The slice after which other streams get their turn, bytes. It is not more than a full read: a stream whose
  /// source is filled again while it is read would be served at the cost of the others.
  static let slice = BufferPool.capacity
  /// A read while it is open whether a stream is worth a pipe, bytes.
  private static let smallRead = 64 * 1024
  /// Full reads in a row that make a stream bulk.
  private static let fullReadsOfBulk: UInt8 = 2
  /// Short waits in a row after which a spliced stream is copied again.
  private static let shortReadsOfQuiet: UInt8 = 4

  let method: Method
  /// Where the bytes come from.
  private let side: StreamSide
  /// Is shown all bytes that are delivered, where the stream is captured.
  let tap: StreamTap?
  /// The source may have bytes, as far as is known.
  var sourceIsReady = true
  /// The sink may have room, as far as is known.
  var sinkIsReady = true
  /// The source's peer has announced its end, so a short read is not the last one.
  var sourceHangsUp = false
  /// The source has said that it ended.
  private(set) var ended = false
  /// Bytes delivered to the sink.
  private(set) var delivered: UInt64 = 0
  /// Bytes read and forgotten.
  private(set) var discarded: UInt64 = 0
  private var streak: UInt8 = 0

  /// Bytes read and not yet delivered.
  private var held: UnsafeMutableRawPointer?
  private var heldStart = 0
  private var heldEnd = 0
  #if os(Linux)
    private var pipe: PipePool.Box?
  #endif

  /// A flow whose bytes are to be seen is not spliced.
  init(_ method: Method, from side: StreamSide, tap: StreamTap?) {
    self.method = tap == nil ? method : .copy
    self.side = side
    self.tap = tap
  }

  /// Whether nothing waits to be delivered.
  var isEmpty: Bool {
    #if os(Linux)
      if let pipe, pipe.held > 0 { return false }
    #endif
    return unsafe held == nil
  }

  /// Whether the flow cannot go on until its sink takes bytes.
  var waitsForSink: Bool { !sinkIsReady && !isEmpty }

  /// Moves bytes until an end is not ready, or the slice is used up. With `discards` they are read and delivered
  /// to nobody.
  mutating func pump(from source: CInt, to sink: CInt, discards: Bool = false, _ resources: RelayResources)
    -> Outcome
  {
    if discards { return discard(source, resources.buffers) }
    var moved = 0
    if let outcome = deliverHeld(to: sink, resources.buffers, &moved) { return outcome }
    #if os(Linux)
      if let pipe { return splice(pipe, source, sink, resources, moved) }
    #endif
    while sourceIsReady && !ended {
      if moved >= Flow.slice { return .more }
      let wanted = wantedBytes
      let scratch = unsafe resources.buffers.scratch
      switch unsafe Socket.receive(source, into: scratch, count: wanted) {
      case .bytes(let count):
        moved += count
        if let outcome = unsafe deliver(scratch, count, to: sink, resources.buffers) { return outcome }
        if count < wanted {
          streak = 0
          // The socket is empty, unless its end was announced: that will not be told again.
          if !sourceHangsUp { sourceIsReady = false }
        } else if method == .spliceWhenBusy {
          streak = min(streak + 1, Flow.fullReadsOfBulk)
          #if os(Linux)
            if streak == Flow.fullReadsOfBulk, let pipe = resources.pipes.take() {
              self.pipe = pipe
              streak = 0
              return splice(pipe, source, sink, resources, moved)
            }
          #endif
        }
      case .wouldBlock: sourceIsReady = false
      case .end: ended = true
      case .failed(let error): return .sourceFailed(error)
      }
    }
    return .waits
  }

  /// What a read asks for. A stream that would be spliced, and gets no pipe, is copied as the others are.
  private var wantedBytes: Int {
    method == .copy || streak >= Flow.fullReadsOfBulk ? BufferPool.capacity : Flow.smallRead
  }

  /// Delivers what was just read; keeps the buffer where the sink does not take all of it.
  private mutating func deliver(
    _ bytes: UnsafeMutableRawPointer, _ count: Int, to sink: CInt, _ buffers: BufferPool
  ) -> Outcome? {
    var sent = 0
    if sinkIsReady {
      switch unsafe Socket.send(sink, from: bytes, count: count) {
      case .bytes(let taken): sent = taken
      case .wouldBlock, .end: break
      case .failed(let error): return .sinkFailed(error)
      }
      delivered &+= UInt64(sent)
      if let tap { unsafe tap.delivered(from: side, bytes, sent) }
      if sent == count { return nil }
    }
    sinkIsReady = false
    unsafe held = buffers.take()
    heldStart = sent
    heldEnd = count
    return .waits
  }

  private mutating func deliverHeld(
    to sink: CInt, _ buffers: BufferPool, _ moved: inout Int
  ) -> Outcome? {
    guard let bytes = unsafe held else { return nil }
    guard sinkIsReady else { return .waits }
    switch unsafe Socket.send(sink, from: bytes + heldStart, count: heldEnd - heldStart) {
    case .bytes(let taken):
      if let tap { unsafe tap.delivered(from: side, bytes + heldStart, taken) }
      heldStart += taken
      moved += taken
      delivered &+= UInt64(taken)
    case .wouldBlock, .end: break
    case .failed(let error): return .sinkFailed(error)
    }
    guard heldStart == heldEnd else {
      sinkIsReady = false
      return .waits
    }
    dropHeld(buffers)
    return nil
  }

  private mutating func dropHeld(_ buffers: BufferPool) {
    guard let bytes = unsafe held else { return }
    unsafe buffers.giveBack(bytes)
    unsafe held = nil
  }

  /// Reads and forgets, so that a sender that waits for its reader goes on to read.
  private mutating func discard(_ source: CInt, _ buffers: BufferPool) -> Outcome {
    dropHeld(buffers)
    var moved = 0
    while sourceIsReady && !ended {
      if moved >= Flow.slice { return .more }
      switch unsafe Socket.receive(source, into: buffers.scratch, count: BufferPool.capacity) {
      case .bytes(let count):
        moved += count
        discarded &+= UInt64(count)
      case .wouldBlock: sourceIsReady = false
      case .end: ended = true
      case .failed(let error): return .sourceFailed(error)
      }
    }
    return .waits
  }

  /// Gives all that it holds back; what was not delivered is lost, as its sink is.
  mutating func release(_ resources: RelayResources) {
    dropHeld(resources.buffers)
    #if os(Linux)
      if let pipe { resources.pipes.giveBack(pipe) }
      pipe = nil
    #endif
  }

  #if os(Linux)
    private mutating func splice(
      _ pipe: PipePool.Box, _ source: CInt, _ sink: CInt, _ resources: RelayResources, _ alreadyMoved: Int
    ) -> Outcome {
      var moved = alreadyMoved
      while true {
        while pipe.held > 0 && sinkIsReady {
          switch pipe.pipe.drain(to: sink, count: pipe.held) {
          case .bytes(let count):
            pipe.held -= count
            moved += count
            delivered &+= UInt64(count)
          case .wouldBlock, .end: sinkIsReady = false
          case .failed(let error): return .sinkFailed(error)
          }
        }
        if moved >= Flow.slice { return .more }
        // A half-full pipe with a full sink waits for the sink.
        if pipe.held > 0 && !sinkIsReady && (pipe.held >= SplicePipe.capacity / 2 || !sourceIsReady || ended)
        {
          return .waits
        }
        if ended || !sourceIsReady { break }
        switch pipe.pipe.fill(from: source, atMost: SplicePipe.capacity - pipe.held) {
        case .bytes(let count):
          pipe.held += count
          if count >= Flow.smallRead / 2 { streak = 0 }
        case .wouldBlock:
          // Either end can be the one that would block: an empty pipe means the source, a full one the sink.
          if pipe.held == 0 { sourceIsReady = false } else if !sinkIsReady { return .waits }
        case .end: ended = true
        case .failed(let error): return .sourceFailed(error)
        }
      }
      guard pipe.held == 0 else { return .waits }
      streak += 1
      if streak > Flow.shortReadsOfQuiet || ended {
        streak = 0
        resources.pipes.giveBack(pipe)
        self.pipe = nil
      }
      return .waits
    }
  #endif
}

/// What the relays of one loop thread share.
final class RelayResources {
  let loop: EventLoop
  let buffers: BufferPool
  let presence = ClientPresence()
  #if os(Linux)
    let pipes = PipePool()
  #endif

  init(loop: EventLoop) {
    self.loop = loop
    buffers = BufferPool(loop: loop)
  }
}
