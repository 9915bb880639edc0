/// Why something could not be done. Each case asks a different thing of the user, and says so.
public enum MuxError: Error, Hashable, Sendable, CustomStringConvertible {
  /// No usbmuxd answers at the address.
  case noDaemon(address: String, reason: String)
  /// The system denies access to the daemon's socket or to the device.
  case permissionDenied(what: String, remedy: String)
  /// No such device is attached. `wanted` is what was asked for, nil when any would have done.
  case noSuchDevice(wanted: String?)
  /// The device is there over Wi-Fi only, which was not asked for.
  case onlyOverNetwork(UDID)
  /// Several devices are attached and none was named, or the beginning of a UDID fits several.
  case ambiguousDevice([UDID])
  /// The device refused the port: nobody listens on its loopback there, or the app is suspended.
  case refused(DevicePort)
  /// The device went away, or the way to it.
  case deviceGone
  /// The daemon or the device broke the protocol.
  case protocolViolation(String)
  /// No answer came in time.
  case timeout(what: String, seconds: Double)
  /// A local address cannot be listened on.
  case cannotListen(address: String, ListenFailure, reason: String)
  /// The system refused a resource.
  case system(String)
  /// This end was closed, by ``DeviceStream/close()``, ``Forward/stop()`` or ``Mux/shutdown(drain:)``.
  case closed

  /// Why a local address cannot be listened on.
  public enum ListenFailure: Hashable, Sendable {
    /// Another socket has it.
    case inUse
    /// The system reserves it.
    case denied
    /// The address is not one of this machine, or the path cannot be used.
    case unusable
  }

  /// One line for a person: the cause, and what to do.
  public var description: String {
    switch self {
    case .noDaemon(let address, let reason):
      "no usbmuxd answers at \(address) (\(reason)): start it, or name another one with --usbmuxd"
    case .permissionDenied(let what, let remedy): "access to \(what) is denied: \(remedy)"
    case .noSuchDevice(nil): "no device is attached: plug one in, unlock it and trust this computer"
    case .noSuchDevice(let wanted?):
      "no device \(wanted) is attached: check its cable, or list what is there with `tunneld devices`"
    case .onlyOverNetwork(let udid):
      "device \(udid) is present via Wi-Fi only: plug it in, or allow the network with --network"
    case .ambiguousDevice(let udids):
      "several devices are attached (\(udids.map(\.description).joined(separator: ", "))): "
        + "name one with --udid, or take the first one with --any"
    case .refused(let port):
      "the device refused port \(port): is the app running and in the foreground, and does it listen on "
        + "the device's loopback?"
    case .deviceGone: "the device is gone: it was unplugged, or its daemon ended"
    case .protocolViolation(let what): "the other side broke the protocol: \(what)"
    case .timeout(let what, let seconds): "\(what) took longer than \(MuxError.text(seconds)) s"
    case .cannotListen(let address, .inUse, let reason):
      "cannot listen on \(address): \(reason); stop the other program, or choose another port (0 picks one)"
    case .cannotListen(let address, .denied, let reason):
      "cannot listen on \(address): \(reason); ports below 1024 are reserved, choose a higher one"
    case .cannotListen(let address, .unusable, let reason): "cannot listen on \(address): \(reason)"
    case .system(let what): what
    case .closed: "it was closed"
    }
  }

  /// The kind alone, for counting.
  package enum Kind: String, CaseIterable, Sendable {
    case noDaemon = "no_daemon"
    case permissionDenied = "permission_denied"
    case noSuchDevice = "no_such_device"
    case onlyOverNetwork = "only_over_network"
    case ambiguousDevice = "ambiguous_device"
    case refused
    case deviceGone = "device_gone"
    case protocolViolation = "protocol_violation"
    case timeout
    case cannotListen = "cannot_listen"
    case system
    case closed
  }

  package var kind: Kind {
    switch self {
    case .noDaemon: .noDaemon
    case .permissionDenied: .permissionDenied
    case .noSuchDevice: .noSuchDevice
    case .onlyOverNetwork: .onlyOverNetwork
    case .ambiguousDevice: .ambiguousDevice
    case .refused: .refused
    case .deviceGone: .deviceGone
    case .protocolViolation: .protocolViolation
    case .timeout: .timeout
    case .cannotListen: .cannotListen
    case .system: .system
    case .closed: .closed
    }
  }

  private static func text(_ seconds: Double) -> String {
    let whole = seconds.rounded()
    return whole == seconds && whole < 1e9 ? "\(Int(whole))" : "\(seconds)"
  }
}
