internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// By which way devices are reached.
public enum TransportChoice: Hashable, Sendable {
  /// The usbmuxd at `USBMUXD_SOCKET_ADDRESS`, or else at the standard address.
  case automatic
  /// The usbmuxd at this address.
  case usbmuxd(DaemonAddress)
  /// Phones that exist in this process only, to try things without one.
  case simulated(SimulationConfiguration)
}

extension TransportChoice {
  func make(on loop: EventLoop, log: Log) throws(MuxError) -> any Transport {
    switch self {
    case .automatic: try UsbmuxdTransport(address: Self.environmentAddress(), on: loop)
    case .usbmuxd(let address): try UsbmuxdTransport(address: address, on: loop)
    case .simulated(let configuration): try SimulatedTransport(configuration, on: loop, log: log)
    }
  }

  /// A malformed address is never replaced by the standard one.
  private static func environmentAddress() throws(MuxError) -> DaemonAddress {
    guard let value = unsafe getenv(DaemonAddress.environmentVariable) else { return .standard }
    let text = unsafe String(cString: value)
    do throws(DaemonAddressError) {
      return try DaemonAddress(parsing: text)
    } catch {
      throw .noDaemon(address: text, reason: "\(DaemonAddress.environmentVariable): \(error)")
    }
  }
}
