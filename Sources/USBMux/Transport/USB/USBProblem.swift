/// Why a device on the bus cannot be used now. Each case asks a different thing of the user, and says so.
enum USBProblem: Error, Hashable, Sendable, CustomStringConvertible {
  /// Another process or a kernel driver has the interface. `owner` names it when that can be seen.
  case busy(USBLocation, owner: String?)
  /// The system denies access to the node. `owner` and `group` are the node's.
  case denied(USBLocation, owner: String, group: String)
  /// The kernel knows the device, and there is no node to open: a container without /dev/bus/usb.
  case noNode(USBLocation)
  /// It left while it was being opened.
  case notThere(USBLocation)
  /// None of its configurations can be used.
  case noInterface(USBLocation)
  /// The link to it did not start, or ended.
  case link(USBLocation, reason: String)
  /// Any other failure of a call.
  case failed(USBLocation, call: String, reason: String)

  /// One line for a person: the cause, and what to do.
  var description: String {
    switch self {
    case .busy(let location, let owner):
      "\(location) is busy: \(owner ?? "another program or a kernel driver") owns it; stop that "
        + "(for usbmuxd: `systemctl stop usbmuxd`), or go through it with --transport usbmuxd"
    case .denied(let location, let owner, let group):
      "access to \(location.node) is denied: it belongs to \(owner):\(group); install tunneld's udev rule, "
        + "join that group, or run as root"
    case .noNode(let location):
      "\(location) has no node \(location.node): in a container, pass /dev/bus/usb in"
    case .notThere(let location): "\(location) left while it was being opened"
    case .noInterface(let location):
      "\(location) has no usable mux interface in any of its configurations: unlock it, or plug it in again"
    case .link(let location, let reason): "the link to \(location) failed: \(reason)"
    case .failed(let location, let call, let reason): "\(call) failed for \(location): \(reason)"
    }
  }

  /// As users of the library are told.
  var error: MuxError {
    switch self {
    case .denied(let location, let owner, let group):
      .permissionDenied(
        what: location.node,
        remedy:
          "it belongs to \(owner):\(group); install tunneld's udev rule, join that group, or run as root")
    case .busy, .noNode, .notThere, .noInterface, .failed: .system(description)
    case .link(_, let reason): .protocolViolation(reason)
    }
  }

  /// Whether trying again soon is likely to help: a device that has just been plugged in is not ready at once,
  /// while an owner or a missing rule stays.
  var isTransient: Bool {
    switch self {
    case .busy, .denied, .noNode: false
    case .notThere, .noInterface, .link, .failed: true
    }
  }
}
