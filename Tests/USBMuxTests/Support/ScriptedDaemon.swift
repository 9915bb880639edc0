import CSystem
import Dispatch
import EventLoop
import Foundation
import MuxProtocol

@testable import USBMux

/// A usbmuxd that does what a test says, on a Unix socket in a directory of its own. Each of its connections has
/// a thread.
final class ScriptedDaemon: @unchecked Sendable {
  /// What a Connect is answered with.
  enum Answer {
    /// Accepted; the bytes follow the Result in the same write, and then the test has the stream.
    case accept([UInt8] = [], (@Sendable (Peer) -> Void) = { _ in })
    case result(ResultCode)
    /// These bytes, whatever they mean, and then an end or silence.
    case raw([UInt8], ends: Bool)
    /// Nothing, ever.
    case silence
    /// The usual, once the semaphore lets it.
    case late(DispatchSemaphore)
  }

  let path: String
  private let directory: String
  private let state = Box(State())
  private var listener: CInt = -1

  private struct State {
    var devices: [DeviceRecord] = []
    var connect: @Sendable (DeviceID, DevicePort) -> Answer = { _, _ in .result(.connectionRefused) }
    var listen: Answer?
    var list: Answer?
    var listeners: [Peer] = []
    var peers: [Peer] = []
    var requests: [ClientRequest] = []
    var isRunning = false
    var onePieceAtATime = false
  }

  init(devices: [DeviceRecord] = [], starts: Bool = true) throws {
    directory = FileManager.default.temporaryDirectory.path + "/daemon-\(UUID().uuidString.prefix(8))"
    path = directory + "/socket"
    try FileManager.default.createDirectory(atPath: directory, withIntermediateDirectories: true)
    state.change { $0.devices = devices }
    if starts { try start() }
  }

  deinit {
    kill()
    try? FileManager.default.removeItem(atPath: directory)
  }

  static func device(_ id: UInt32, _ serial: String = "00008110000000000000000A") -> DeviceRecord {
    DeviceRecord(
      id: DeviceID(rawValue: id), serialNumber: serial,
      connection: .usb(DeviceRecord.USB(speed: 480_000_000, locationID: id, productID: 0x12a8)))
  }

  static func networkDevice(
    _ id: UInt32, _ serial: String = "00008110000000000000000A", at address: NetworkAddress?
  ) -> DeviceRecord {
    DeviceRecord(
      id: DeviceID(rawValue: id), serialNumber: serial,
      connection: .network(DeviceRecord.Network(address: address)))
  }

  var address: DaemonAddress { .unix(path: path) }
  var requests: [ClientRequest] { state.value.requests }

  // MARK: Script

  func onConnect(_ answer: @escaping @Sendable (DeviceID, DevicePort) -> Answer) {
    state.change { $0.connect = answer }
  }

  func onListen(_ answer: Answer?) { state.change { $0.listen = answer } }
  func onListDevices(_ answer: Answer?) { state.change { $0.list = answer } }
  /// From now on each byte is written by itself.
  func dribble() { state.change { $0.onePieceAtATime = true } }

  func attach(_ device: DeviceRecord) throws {
    let listeners = state.change { state in
      state.devices.append(device)
      return state.listeners
    }
    for listener in listeners { try? send(.attached(device), to: listener, tag: 0) }
  }

  func detach(_ id: UInt32) throws {
    let listeners = state.change { state in
      state.devices.removeAll { $0.id.rawValue == id }
      return state.listeners
    }
    for listener in listeners { try? send(.detached(DeviceID(rawValue: id)), to: listener, tag: 0) }
  }

  /// Ends the Listen connections only.
  func dropListeners() {
    let listeners = state.change { state in
      let listeners = state.listeners
      state.listeners = []
      return listeners
    }
    for listener in listeners { shutdown(listener.number, CInt(SHUT_RDWR)) }
  }

  /// Dies: everything closes, and the path goes.
  func kill() {
    guard listener >= 0 else { return }
    let peers = state.change { state in
      state.isRunning = false
      let peers = state.peers
      state.peers = []
      state.listeners = []
      return peers
    }
    unlink(path)
    shutdown(listener, CInt(SHUT_RDWR))
    listener = -1
    for peer in peers { shutdown(peer.number, CInt(SHUT_RDWR)) }
  }

  // MARK: Serving

  func start() throws {
    let address = try required(SocketAddress(path: path))
    let socket = try address.makeSocket()
    try address.bind(socket.number)
    try ListeningSocket.listen(socket.number, backlog: 128)
    state.change { $0.isRunning = true }
    let number = socket.release()
    listener = number
    Thread.detachNewThread { [weak self] in
      defer { close(number) }
      while true {
        var entry = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
        _ = poll(&entry, 1, 1000)
        guard let self, state.value.isRunning else { return }
        let accepted = cs_accept(number)
        guard accepted >= 0 else {
          if errno == EAGAIN { continue }
          return
        }
        let peer = Peer(owning: accepted)
        state.change { $0.peers.append(peer) }
        Thread.detachNewThread { [weak self] in self?.serve(peer) }
      }
    }
  }

  private func serve(_ peer: Peer) {
    defer {
      state.change { state in
        state.peers.removeAll { $0 === peer }
        state.listeners.removeAll { $0 === peer }
      }
    }
    do {
      while true {
        let header = try peer.receive(exactly: 16)
        let length = (0..<4).reduce(0) { $0 | Int(header[$1]) << (8 * $1) }
        let body = try peer.receive(exactly: max(length - 16, 0))
        var decoder = FrameDecoder(limit: FrameLimit.request)
        decoder.append((header + body).span)
        guard let frame = try decoder.nextFrame() else { return }
        let request = try ClientRequest.decode(frame)
        state.change { $0.requests.append(request.request) }
        guard try answer(request, on: peer) else { return }
      }
    } catch {
      // The client is gone, or the daemon is.
    }
  }

  /// False when the connection is somebody else's, or over.
  private func answer(_ request: ReceivedRequest, on peer: Peer) throws -> Bool {
    switch request.request {
    case .listen:
      if let answer = state.value.listen { return try give(answer, to: request, on: peer) }
      try send(.result(.ok), to: peer, tag: request.tag)
      let devices = state.change { state in
        state.listeners.append(peer)
        return state.devices
      }
      for device in devices { try send(.attached(device), to: peer, tag: 0) }
      return true
    case .listDevices:
      switch state.value.list {
      case .late(let go): go.wait()
      case let answer?: return try give(answer, to: request, on: peer)
      case nil: break
      }
      try send(.deviceList(state.value.devices), to: peer, tag: request.tag)
      return true
    case .connect(let device, let port):
      let answer = state.value.connect(device, port)
      return try give(answer, to: request, on: peer)
    default:
      try send(.result(.badCommand), to: peer, tag: request.tag)
      return true
    }
  }

  private func give(_ answer: Answer, to request: ReceivedRequest, on peer: Peer) throws -> Bool {
    switch answer {
    case .accept(let bytes, let stream):
      let result = EncodedFrame(try DaemonMessage.result(.ok).frame(tag: request.tag)).bytes
      try write(result + bytes, to: peer)
      stream(peer)
      return false
    case .result(let code):
      try send(.result(code), to: peer, tag: request.tag)
      return true
    case .raw(let bytes, let ends):
      try write(bytes, to: peer)
      if ends {
        shutdown(peer.number, CInt(SHUT_RDWR))
        return false
      }
      _ = try peer.receiveToEnd()
      return false
    case .silence, .late:
      _ = try peer.receiveToEnd()
      return false
    }
  }

  private func send(_ message: DaemonMessage, to peer: Peer, tag: UInt32) throws {
    try write(EncodedFrame(try message.frame(tag: tag)).bytes, to: peer)
  }

  private func write(_ bytes: [UInt8], to peer: Peer) throws {
    guard state.value.onePieceAtATime else { return try peer.send(bytes) }
    for byte in bytes { try peer.send([byte]) }
  }
}
