package import EventLoop

/// Who answers the clients of a ``ControlSocket``, on the loop's thread.
package protocol ControlSocketHandler: AnyObject {
  /// A client has sent a line. ``ControlSocket/reply(_:to:)`` must follow, once; the client's next line waits
  /// for it.
  func received(_ line: [UInt8], from client: UInt64)
  /// A client is gone, or has ended its sending side and has all its answers.
  func left(_ client: UInt64)
  /// Somebody was turned away.
  func denied(user: UInt32?)
}

/// A Unix socket over which tunneld is asked and told things, in lines of at most 64 KiB.
///
/// What the lines say is the handler's matter. Each client has one line in work at a time and is not read
/// while its answer has not been taken, so one that does not read costs bounded memory.
package final class ControlSocket: ListenerOwner {
  package struct Options: Equatable, Sendable {
    /// Permission bits of the socket's file.
    package var mode: UInt16 = 0o660
    /// The group of the socket's file, by name or number; nil: the one that the system picks.
    package var group: String?

    package init(mode: UInt16 = 0o660, group: String? = nil) {
      self.mode = mode
      self.group = group
    }
  }

  /// Clients at a time; others wait.
  static let maximumClients = 64
  /// Bytes of a line.
  package static let maximumLine = 65536

  /// Where it listens.
  package let path: String
  private let loop: EventLoop
  private let rule: PeerRule
  private unowned let handler: any ControlSocketHandler
  private var listeners: [Listener] = []
  private var identity: UnixSocketFile.Identity?
  private var clients: [UInt64: ControlClient] = [:]
  private var lastClient: UInt64 = 0
  private var pause: LoopTimer?

  /// Listens from now on. `handler` outlives the socket.
  ///
  /// - Throws: ``MuxError/cannotListen(address:_:reason:)``; nothing is bound then.
  package init(
    _ path: String, options: Options = Options(), on loop: EventLoop, handler: any ControlSocketHandler
  ) throws(MuxError) {
    self.path = path
    self.loop = loop
    self.handler = handler
    var access = UnixSocketAccess(mode: options.mode & 0o777, group: nil)
    if let group = options.group {
      access.group = UnixSocketAccess.group(named: group)
      guard access.group != nil else {
        throw .cannotListen(address: "unix:\(path)", .unusable, reason: "there is no group \(group)")
      }
    }
    var bound: BoundSockets
    do throws(MuxError) {
      bound = try BoundSockets(.unix(path: path), access: access)
    } catch {
      // The advice for ports does not fit a path.
      guard case .cannotListen(let address, let kind, let reason) = error else { throw error }
      let advice = kind == .inUse ? "another tunneld serves it" : reason
      throw .cannotListen(address: address, .unusable, reason: advice)
    }
    identity = UnixSocketFile.identity(path)
    rule = PeerRule(access, group: identity?.group)
    do throws(SystemError) {
      guard let socket = bound.take(0), let address = bound.addresses.first else { return }
      listeners = [try Listener(socket, at: address, on: loop, owner: self)]
    } catch {
      UnixSocketFile.remove(path, if: identity)
      throw .system("\(error)")
    }
  }

  /// Stops to listen, removes the file, and ends all clients, without a word to the handler.
  package func close() {
    for listener in listeners { listener.close() }
    listeners = []
    UnixSocketFile.remove(path, if: identity)
    identity = nil
    pause = nil
    let ending = clients.values
    clients = [:]
    for client in ending { client.end() }
  }

  /// Answers the line that a client has in work; a client that has left is told nothing.
  package func reply(_ line: String, to client: UInt64) { clients[client]?.reply(line) }

  // MARK: Listener

  var mayAccept: Bool { clients.count < Self.maximumClients && pause == nil }

  func accepted(_ socket: consuming Descriptor, isUnix: Bool) {
    let peer = PeerCredentials(socket.number)
    guard rule.admits(peer) else { return handler.denied(user: peer?.user) }
    lastClient &+= 1
    let client = ControlClient(lastClient, socket, on: loop, owner: self)
    clients[lastClient] = client
    client.start()
  }

  func cannotAccept(_ error: SystemError) {
    guard pause == nil else { return }
    let timer = LoopTimer(on: loop) { [unowned self] in
      pause = nil
      acceptAgain()
    }
    timer.set(after: 100_000_000)
    pause = timer
  }

  private func acceptAgain() { for listener in listeners { listener.acceptAgain() } }

  // MARK: Clients

  func received(_ line: [UInt8], from client: ControlClient) {
    handler.received(line, from: client.identifier)
  }

  func ended(_ client: ControlClient) {
    guard clients.removeValue(forKey: client.identifier) != nil else { return }
    handler.left(client.identifier)
    acceptAgain()
  }
}
