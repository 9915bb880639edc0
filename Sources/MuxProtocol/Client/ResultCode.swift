/// The verdict of a daemon on a request.
package enum ResultCode: Hashable, Sendable, CustomStringConvertible {
  /// 0: done.
  case ok
  /// 1: the daemon does not know the request, or the request is malformed or out of place.
  case badCommand
  /// 2: there is no device with that ID any more. Where a file was asked for: there is none (ENOENT).
  case badDevice
  /// 3: nobody listens on that port of the device.
  case connectionRefused
  /// 6: the daemon does not speak that version.
  case badVersion
  /// Any other number; most are an `errno` of the daemon's system.
  case other(UInt32)

  package init(rawValue: UInt32) {
    self =
      switch rawValue {
      case 0: .ok
      case 1: .badCommand
      case 2: .badDevice
      case 3: .connectionRefused
      case 6: .badVersion
      default: .other(rawValue)
      }
  }

  package var rawValue: UInt32 {
    switch self {
    case .ok: 0
    case .badCommand: 1
    case .badDevice: 2
    case .connectionRefused: 3
    case .badVersion: 6
    case .other(let number): number
    }
  }

  /// Words, with the number for those who search for it.
  package var description: String {
    switch self {
    case .ok: "ok (0)"
    case .badCommand: "the daemon did not accept the request (1)"
    case .badDevice: "no such device (2)"
    case .connectionRefused: "the device refused the connection (3)"
    case .badVersion: "the daemon does not speak this protocol version (6)"
    case .other(let number): "the daemon answered with error \(number)"
    }
  }
}
