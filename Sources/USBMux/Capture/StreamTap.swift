internal import PacketCapture

/// What a relay tells of its stream to the capture. Belongs to the relay, and moves with it from thread to thread.
final class StreamTap {
  private let capture: Capture
  private let stream: CapturedStream
  private var position = StreamPosition()
  private var isOver = false

  init(_ capture: Capture, _ stream: CapturedStream) {
    self.capture = capture
    self.stream = stream
  }

  private func tell(_ event: StreamEvent) {
    unsafe tell(event, UnsafeRawBufferPointer(start: nil, count: 0))
  }

  private func tell(_ event: StreamEvent, _ bytes: UnsafeRawBufferPointer) {
    guard !isOver else { return }
    unsafe capture.take(event, of: stream, at: position, bytes)
    // Also of an event that is dropped: what comes after it keeps its place.
    position.pass(event, bytes.count)
  }

  // MARK: Opening

  func asked() { tell(.asked) }

  func accepted() { tell(.accepted) }

  /// The attempt has failed.
  func failed(_ error: OpenError) {
    if case .failed(.refused) = error { tell(.refused) } else { tell(.abandoned) }
    isOver = true
  }

  /// Nobody waits for the stream any more.
  func abandoned() {
    tell(.abandoned)
    isOver = true
  }

  // MARK: Relaying

  /// The other side has taken `count` bytes.
  func delivered(from side: StreamSide, _ bytes: UnsafeRawPointer, _ count: Int) {
    guard count > 0 else { return }
    unsafe tell(.bytes(from: side), UnsafeRawBufferPointer(start: bytes, count: count))
  }

  /// The client has ended its sending side, and the device has had all of it.
  func clientEnded() { if !position.clientHasEnded { tell(.ended(.client)) } }

  /// The app has closed its side, and the client has had all of it.
  func deviceEnded() { if !position.deviceHasEnded { tell(.ended(.device)) } }

  /// The relay is over.
  func over(_ reason: RelaySummary.Reason, _ client: RelayEnding.ClientEnd, isBroken: Bool, resets: Bool) {
    if isBroken {
      tell(.reset(by: .client))
    } else if resets {
      tell(.reset(by: .device))
    } else {
      switch reason {
      case .ended, .clientGone, .idleAfterHalfClose:
        if client != .open { clientEnded() }
        // Where the app has not closed its side, this one is closed in its place: the client's socket shows the same.
        deviceEnded()
      case .deviceLost, .stopped: tell(.reset(by: .device))
      }
    }
    isOver = true
  }
}
