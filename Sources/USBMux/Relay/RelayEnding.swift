/// How the device's side of a connection ended.
enum DeviceEnd: Equatable, Sendable {
  /// The stream is over, but a usbmuxd shows a closed app, a lost phone and its own death in the same way:
  /// the owner of the transport is being asked which it was.
  case unverified
  /// The app closed its side.
  case clean
  /// The device or the daemon is lost, or the connection was reset.
  case reset
}

/// When a relay may end, and what each side is shown. No I/O: the relay reports, and does what ``next`` says.
///
/// The device link has no half-close, and a usbmuxd ends a connection when its client does. So a client that
/// has ended its sending side keeps the connection, until the device closes or nothing moves for a bounded
/// time; a client that is gone does not.
struct RelayEnding {
  /// What the client has said.
  enum ClientEnd: Equatable {
    case open
    /// It has ended its sending side and still reads.
    case halfClosed
    /// No process owns the client's socket any more, or it is broken: nobody will read what the device sends.
    case gone
  }

  enum Action: Equatable {
    case keepGoing
    /// All is delivered to the client: end its stream cleanly, close towards the device, and wait for the
    /// client to end.
    case endClientStream
    /// Show the client a reset and close towards the device.
    case resetClient
    /// Nothing is left to do: close both sides.
    case finish
  }

  private(set) var client = ClientEnd.open
  private(set) var device: DeviceEnd?
  private(set) var isLingering = false

  /// The client's stream has ended.
  mutating func clientEnded(gone: Bool) {
    if client != .gone { client = gone ? .gone : .halfClosed }
  }

  /// The device's stream has ended.
  mutating func deviceEnded(_ end: DeviceEnd) {
    if device == nil || device == .unverified { device = end }
  }

  /// Whether bytes from the device have a reader.
  var clientReads: Bool { client != .gone && !isLingering }
  /// Whether bytes from the client can still go somewhere.
  var deviceTakes: Bool { device == nil }

  /// What is to be done now. The upload is empty when nothing that the client sent waits to be delivered to the
  /// device, the download when nothing taken from the device waits to be delivered to the client.
  mutating func next(uploadIsEmpty: Bool, downloadIsEmpty: Bool) -> Action {
    if isLingering { return client == .open ? .keepGoing : .finish }
    if client == .gone { return device != nil || uploadIsEmpty ? .finish : .keepGoing }
    switch device {
    case nil, .unverified:
      return .keepGoing
    case .reset:
      return .resetClient
    case .clean:
      guard downloadIsEmpty else { return .keepGoing }
      if client == .halfClosed { return .finish }
      isLingering = true
      return .endClientStream
    }
  }
}
