import Foundation

/// The client protocol: frames and property lists.
extension MuxState {
  // MARK: devices

  func attach(_ serial: String, _ kind: FakeDevice.Kind, _ ports: [UInt16: Port]) -> Int {
    let device = FakeDevice(id: nextDeviceID(), serial: serial, kind: kind, ports: ports)
    devices.append(device)
    announce(device.announcement)
    return device.id
  }

  func detach(_ id: Int, eventFirst: Bool) {
    guard devices.contains(where: { $0.id == id }) else { return }
    devices.removeAll { $0.id == id }
    let event: [String: Any] = ["MessageType": "Detached", "DeviceID": id]
    if eventFirst { announce(event) }
    for channel in channels {
      if case .stream(let stream) = channel.role, stream.report.deviceID == id { drop(channel, .byDetach) }
      if channel.pending?.device == id {
        channel.pending?.verdict = .refuse(3)
        decide(channel)
      }
    }
    if !eventFirst { announce(event) }
  }

  private func announce(_ event: [String: Any]) {
    for channel in channels { if case .listening = channel.role { send(channel, .event, event, tag: 0) } }
  }

  /// The phones that were there before the Listen.
  func announceNext(_ channel: Channel) {
    while channel.isOpen, !channel.announcements.isEmpty {
      send(channel, .event, channel.announcements.removeFirst(), tag: 0)
      if announcementInterval > 0 && !channel.announcements.isEmpty {
        setTimer(channel, uptime() + announcementInterval)
        return
      }
    }
  }

  // MARK: requests

  func readRequests(_ channel: Channel) {
    while channel.isOpen {
      let count = Socket.receive(channel.fd, scratch)
      if count > 0 {
        channel.inbox.append(contentsOf: scratch[..<count])
        takeRequests(channel)
        if case .stream = channel.role { return }
      } else if count == 0 {
        drop(channel, .byClient)
      } else if errno == EAGAIN {
        return
      } else if errno != EINTR {
        drop(channel, .byClientReset)
      }
    }
  }

  private func takeRequests(_ channel: Channel) {
    while channel.isOpen, channel.inbox.count >= 16 {
      if channel.pending != nil {
        violations.append("bytes behind a Connect that is not answered")
        return
      }
      let fields = (0..<4).map { field in
        (0..<4).reduce(UInt32(0)) { $0 | UInt32(channel.inbox[field * 4 + $1]) << UInt32(8 * $1) }
      }
      let length = Int(fields[0])
      guard length >= 16, length <= 65536 else {
        violations.append("a frame of \(length) bytes")
        drop(channel, .byDeath)
        return
      }
      if channel.inbox.count < length { return }
      let body = Data(channel.inbox[16..<length])
      channel.inbox.removeFirst(length)
      if fields[1] != 1 { violations.append("header version \(fields[1])") }
      if fields[2] != 8 { violations.append("message \(fields[2])") }
      guard
        let list = try? PropertyListSerialization.propertyList(from: body, format: nil) as? [String: Any],
        let type = list["MessageType"] as? String
      else {
        violations.append("a request that is no property list")
        return
      }
      requests.append(type)
      handle(channel, type, list, fields[3])
      if case .stream = channel.role { return }
    }
  }

  private func handle(_ channel: Channel, _ type: String, _ list: [String: Any], _ tag: UInt32) {
    if case .listening = channel.role {
      violations.append("\(type) after Listen")
      sendResult(channel, .other, 1, tag)
      return
    }
    for key in ["ClientVersionString", "ProgName", "kLibUSBMuxVersion"] where list[key] == nil {
      violations.append("\(type) without \(key)")
    }
    switch type {
    case "Listen":
      sendResult(channel, .listen, 0, tag)
      guard channel.isOpen else { return }
      channel.role = .listening
      channel.announcements = devices.map(\.announcement)
      announceNext(channel)
    case "ListDevices":
      send(channel, .listDevices, ["DeviceList": devices.map(\.announcement)], tag: tag)
    case "ReadBUID":
      send(channel, .other, ["BUID": "30142955-444094379208051516"], tag: tag)
    case "Connect":
      connect(channel, list, tag)
    default:
      sendResult(channel, .other, 1, tag)
    }
  }

  private func connect(_ channel: Channel, _ list: [String: Any], _ tag: UInt32) {
    guard let device = list["DeviceID"] as? Int, let raw = list["PortNumber"] as? Int,
      (0...65535).contains(raw)
    else {
      violations.append("a Connect without DeviceID and PortNumber")
      sendResult(channel, .connect, 1, tag)
      return
    }
    let port = UInt16(raw).byteSwapped
    connects.append(
      ConnectRequest(deviceID: device, rawPort: raw, port: port, time: uptime(), keys: Set(list.keys)))
    guard let found = devices.first(where: { $0.id == device }) else {
      sendResult(channel, .connect, 2, tag)
      return
    }
    let entry = found.ports[port] ?? ports[port] ?? .refusing()
    channel.pending = PendingConnect(
      device: device, port: port, tag: tag, verdict: entry.verdict, service: entry.service)
    if entry.delay > 0 {
      setTimer(channel, uptime() + entry.delay)
    } else {
      decide(channel)
    }
  }

  /// Answers a Connect.
  func decide(_ channel: Channel) {
    guard let pending = channel.pending, channel.isOpen else { return }
    switch pending.verdict {
    case .silence:
      return
    case .refuse(let code):
      channel.pending = nil
      sendResult(channel, .connect, code, pending.tag)
    case .accept:
      channel.pending = nil
      let style = styles[.connect] ?? .normal
      if gluesPayload {
        channel.outbox += frame(resultBody(0), tag: pending.tag)
      } else {
        sendResult(channel, .connect, 0, pending.tag)
      }
      guard channel.isOpen, style.leadsToStream else { return }
      beginStream(channel, device: pending.device, port: pending.port, pending.service)
    }
  }

  // MARK: replies

  private func resultBody(_ number: UInt32) -> [UInt8] {
    if let known = resultBodies[number] { return known }
    let body = encode(["MessageType": "Result", "Number": Int(number)])
    resultBodies[number] = body
    return body
  }

  private func sendResult(_ channel: Channel, _ kind: RequestKind, _ number: UInt32, _ tag: UInt32) {
    if (styles[kind] ?? .normal) == .normal {
      put(channel, frame(resultBody(number), tag: tag))
    } else {
      send(channel, kind, ["MessageType": "Result", "Number": Int(number)], tag: tag)
    }
  }

  private func send(_ channel: Channel, _ kind: RequestKind, _ message: [String: Any], tag: UInt32) {
    switch styles[kind] ?? .normal {
    case .normal:
      put(channel, frame(encode(message), tag: tag))
    case .oneByteAtATime:
      channel.drips = true
      put(channel, frame(encode(message), tag: tag))
    case .headerVersion0:
      put(channel, frame(encode(message), version: 0, tag: tag))
    case .binaryPropertyList:
      put(channel, frame(encode(message, .binary), tag: tag))
    case .decorated:
      var message = message
      message["Unknown"] = ["nested": [1, 2.5, true, Data([0, 255]), Date(timeIntervalSince1970: 0)]]
      message["Größe"] = "<&>\u{1F4F1}"
      put(channel, frame(encode(message), tag: tag))
    case .wrongTag:
      put(channel, frame(encode(message), tag: tag &+ 77))
    case .length(let length):
      put(channel, frame(encode(message), tag: tag, length: length))
    case .garbage:
      put(channel, frame(Array("<?xml version=\"1.0\"?><plist><dict><key>Mess\u{0}age</ke".utf8), tag: tag))
    case .noise(let seed):
      var generator = SeededGenerator(seed: seed)
      let count = Int.random(in: 1...400, using: &generator)
      put(channel, (0..<count).map { _ in UInt8.random(in: 0...255, using: &generator) })
    case .cut(let count):
      channel.closesWhenFlushed = true
      put(channel, Array(frame(encode(message), tag: tag).prefix(count)))
    case .empty:
      put(channel, frame(encode(["Something": "else"]), tag: tag))
    case .wrongTypes:
      let bent: [String: Any] = [
        "MessageType": message["MessageType"] ?? "Result", "Number": "none", "DeviceID": ["a"],
        "DeviceList": ["DeviceID": 4], "Properties": 17,
      ]
      put(channel, frame(encode(bent), tag: tag))
    case .silence:
      break
    case .hangUp:
      drop(channel, .byDeath)
    }
  }

  private func put(_ channel: Channel, _ bytes: [UInt8]) {
    channel.outbox += bytes
    flush(channel)
  }

  func flush(_ channel: Channel) {
    while channel.isOpen, !channel.outbox.isEmpty {
      let limit = channel.drips ? 1 : channel.outbox.count
      let count = channel.outbox.withUnsafeBytes {
        Socket.send(channel.fd, UnsafeRawBufferPointer(rebasing: $0.prefix(limit)))
      }
      if count > 0 {
        channel.outbox.removeFirst(count)
        if channel.drips && !channel.outbox.isEmpty {
          setTimer(channel, uptime() + 0.0005)
          break
        }
      } else if errno == EAGAIN {
        break
      } else if errno != EINTR {
        drop(channel, .byClientReset)
        return
      }
    }
    if channel.outbox.isEmpty && channel.closesWhenFlushed {
      drop(channel, .byDeath)
      return
    }
    switch channel.role {
    case .stream(let stream):
      if channel.outbox.isEmpty { progress(channel, stream, readable: true, ended: false) }
    case .wake, .muxListener, .plainListener, .control, .listening:
      setInterest(channel, reading: true, writing: !channel.outbox.isEmpty && !channel.drips)
    }
  }

  private func encode(_ message: [String: Any], _ format: PropertyListSerialization.PropertyListFormat = .xml)
    -> [UInt8]
  {
    guard
      let data = try? PropertyListSerialization.data(fromPropertyList: message, format: format, options: 0)
    else {
      violations.append("the fake cannot encode its own message")
      return []
    }
    return Array(data)
  }

  private func frame(_ body: [UInt8], version: UInt32 = 1, tag: UInt32, length: UInt32? = nil) -> [UInt8] {
    var bytes: [UInt8] = []
    let fields: [UInt32] = [length ?? UInt32(16 + body.count), version, 8, tag]
    for field in fields {
      withUnsafeBytes(of: field.littleEndian) { bytes.append(contentsOf: $0) }
    }
    return bytes + body
  }
}

extension ReplyStyle {
  /// After an acceptance in this style the socket carries the stream.
  var leadsToStream: Bool {
    switch self {
    case .normal, .oneByteAtATime, .headerVersion0, .binaryPropertyList, .decorated: true
    case .wrongTag, .length, .garbage, .noise, .cut, .empty, .wrongTypes, .silence, .hangUp: false
    }
  }
}
