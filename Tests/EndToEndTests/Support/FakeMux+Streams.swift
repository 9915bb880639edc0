import Foundation

/// The servers on the phone's ports.
extension MuxState {
  func beginStream(_ channel: Channel, device: Int, port: UInt16, _ service: Service) {
    let stream = Stream(StreamReport(deviceID: device, port: port, openedAt: uptime()), service)
    streams.append(stream)
    openStreams += 1
    channel.role = .stream(stream)
    if gluesPayload && !channel.outbox.isEmpty {
      // Result and payload leave in one write; an echo service has nothing to say yet.
      let count = stream.started ? min(stream.service.sends, 1000) : 0
      channel.outbox += Pattern.bytes(0..<count)
      stream.report.sent = count
      flush(channel)
    }
    if !channel.inbox.isEmpty {
      let early = channel.inbox
      channel.inbox = []
      early.withUnsafeBytes { take($0, stream) }
    }
    if channel.isOpen { progress(channel, stream, readable: true, ended: false) }
  }

  /// Does what can be done now without waiting, and says what to wait for.
  func progress(_ channel: Channel, _ stream: Stream, readable: Bool, ended: Bool) {
    guard channel.isOpen else { return }
    if !channel.outbox.isEmpty {
      // The Result is still on its way.
      if channel.drips {
        setInterest(channel, reading: false, writing: false, watches: false)
      } else if ended || !readable {
        flush(channel)
      } else {
        setInterest(channel, reading: false, writing: true)
      }
      return
    }
    let service = stream.service
    var now = 0.0
    if service.readRate != nil || service.pace != nil {
      now = uptime()
      if let rate = service.readRate {
        stream.allowance = min(
          stream.allowance + (now - stream.allowanceAt) * Double(rate), Double(rate) / 20)
        stream.allowanceAt = now
      }
    }
    if readable || ended, service.reads, !channel.sawEnd { readStream(channel, stream) }
    if channel.isOpen && ended && !service.reads && !channel.livesHalfClosed { drop(channel, .byClientReset) }
    if channel.isOpen { writeStream(channel, stream, now) }
    guard channel.isOpen else { return }
    if isFinished(stream) || (channel.sawEnd && service.echoes && stream.backlogCount == 0) {
      drop(channel, .byApp)
      return
    }

    let throttled = service.readRate != nil && stream.allowance < 1
    let wantsRead =
      service.reads && !channel.sawEnd && !throttled && stream.backlogCount < Stream.backlogLimit
    let wantsWrite = stream.backlogCount > 0 || (service.pace == nil && sendable(stream) > 0)
    setInterest(
      channel, reading: wantsRead, writing: wantsWrite,
      watches: !throttled && !(channel.sawEnd && !wantsWrite))
    if throttled {
      setTimer(channel, now + 0.01)
    } else if service.pace != nil, sendable(stream) > 0 {
      setTimer(channel, stream.nextPiece)
    }
  }

  private func sendable(_ stream: Stream) -> Int {
    stream.started ? stream.service.sends - min(stream.service.sends, stream.report.sent) : 0
  }

  private func isFinished(_ stream: Stream) -> Bool {
    switch stream.service.finish {
    case .never: false
    case .whenSent: stream.started && sendable(stream) == 0
    case .whenReceived(let count): stream.started && sendable(stream) == 0 && stream.report.received >= count
    }
  }

  private func readStream(_ channel: Channel, _ stream: Stream) {
    var rounds = 0
    while rounds < 8 {
      rounds += 1
      var room = min(scratch.count, Stream.backlogLimit - stream.backlogCount)
      if stream.service.readRate != nil { room = min(room, Int(stream.allowance)) }
      if room <= 0 { return }
      let count = Socket.receive(channel.fd, UnsafeMutableRawBufferPointer(rebasing: scratch.prefix(room)))
      if count > 0 {
        take(UnsafeRawBufferPointer(rebasing: scratch[..<count]), stream)
        if stream.service.readRate != nil { stream.allowance -= Double(count) }
        if count < room { return }
      } else if count == 0 {
        if channel.livesHalfClosed {
          channel.sawEnd = true
        } else {
          // As usbmuxd: the end of the client's bytes is the end of the connection.
          drop(channel, .byClient)
        }
        return
      } else if errno == EAGAIN {
        return
      } else if errno != EINTR {
        drop(channel, .byClientReset)
        return
      }
    }
  }

  private func take(_ bytes: UnsafeRawBufferPointer, _ stream: Stream) {
    if stream.service.checks && stream.report.mismatch == nil {
      stream.report.mismatch = Pattern.mismatch(in: bytes, at: stream.report.received)
    }
    stream.report.received += bytes.count
    if stream.service.echoes { stream.backlog.append(contentsOf: bytes) }
    guard !stream.started else { return }
    switch stream.service.start {
    case .atOnce:
      stream.started = true
    case .afterBytes(let count):
      stream.started = stream.report.received >= count
    case .afterHeader:
      stream.tail += bytes
      let end = Array("\r\n\r\n".utf8)
      stream.started = stream.tail.indices.contains { stream.tail[$0...].starts(with: end) }
      if stream.tail.count > 3 { stream.tail = Array(stream.tail.suffix(3)) }
    }
  }

  private func writeStream(_ channel: Channel, _ stream: Stream, _ now: Double) {
    while stream.backlogCount > 0 {
      let count = stream.backlog.withUnsafeBytes {
        Socket.send(channel.fd, UnsafeRawBufferPointer(rebasing: $0[stream.backlogStart...]))
      }
      guard wrote(count, channel) else { return }
      stream.backlogStart += count
      stream.report.sent += count
      if stream.backlogStart == stream.backlog.count {
        stream.backlog.removeAll(keepingCapacity: true)
        stream.backlogStart = 0
      }
    }
    if let pace = stream.service.pace {
      guard sendable(stream) > 0, now >= stream.nextPiece else { return }
      let count = Pattern.withBytes(at: stream.report.sent, count: min(pace.size, sendable(stream))) {
        Socket.send(channel.fd, $0)
      }
      stream.nextPiece = now + pace.interval
      if wrote(count, channel) { stream.report.sent += count }
      return
    }
    var rounds = 0
    while sendable(stream) > 0, rounds < 8 {
      rounds += 1
      let count = Pattern.withBytes(at: stream.report.sent, count: sendable(stream)) {
        Socket.send(channel.fd, $0)
      }
      guard wrote(count, channel) else { return }
      stream.report.sent += count
    }
  }

  /// False when nothing was written: full, or the connection is gone.
  private func wrote(_ count: Int, _ channel: Channel) -> Bool {
    if count > 0 { return true }
    if errno != EAGAIN && errno != EINTR { drop(channel, .byClientReset) }
    return false
  }
}
