internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// By which way devices are reached.
public enum TransportChoice: Hashable, Sendable {
  /// The usbmuxd at this address, or on Linux, while none answers there, USB itself. Without an address: the one
  /// in `USBMUXD_SOCKET_ADDRESS`, or else the standard one. One on another machine (TCP) is not replaced.
  case usbmuxdOrUSB(DaemonAddress?, USBOptions)
  /// The usbmuxd at this address.
  case usbmuxd(DaemonAddress)
  /// Phones that exist in this process only, to try things without one.
  case simulated(SimulationConfiguration)
  /// USB itself, in place of a usbmuxd. Linux only: elsewhere the system's own daemon owns the devices.
  case usb(USBOptions)

  /// A usbmuxd where one answers, else USB itself.
  public static let automatic = TransportChoice.usbmuxdOrUSB(nil, USBOptions())
}

extension TransportChoice {
  func make(on loop: EventLoop, log: Log) throws(MuxError) -> any Transport {
    switch self {
    case .usbmuxdOrUSB(let address, let options):
      try Self.makeAutomatic(address, options, on: loop, log: log)
    case .usbmuxd(let address): try UsbmuxdTransport(address: address, on: loop)
    case .simulated(let configuration): try SimulatedTransport(configuration, on: loop, log: log)
    case .usb(let options): try Self.makeDirect(options, on: loop, log: log)
    }
  }

  private static func makeAutomatic(
    _ chosen: DaemonAddress?, _ options: USBOptions, on loop: EventLoop, log: Log
  ) throws(MuxError) -> any Transport {
    let address = if let chosen { chosen } else { try environmentAddress() }
    let daemon = try UsbmuxdTransport(address: address, on: loop)
    #if os(Linux)
      guard case .unix = address else { return daemon }
      let options = options.completed(log)
      // Far from a daemon's, which count from 1.
      let ids = DeviceIDs(first: 1 << 24)
      return AutomaticTransport(daemon: daemon, log: log) {
        USBDirectTransport(options: options, on: loop, log: log, ids: ids)
      }
    #else
      return daemon
    #endif
  }

  private static func makeDirect(
    _ options: USBOptions, on loop: EventLoop, log: Log
  ) throws(MuxError) -> any Transport {
    #if os(Linux)
      return USBDirectTransport(options: options.completed(log), on: loop, log: log)
    #else
      throw .system("direct USB is for Linux: here the system's own daemon owns the devices")
    #endif
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

extension USBOptions {
  /// With the mode that the environment asks for, when none was chosen.
  fileprivate func completed(_ log: Log) -> USBOptions {
    var options = self
    guard mode == nil, let value = unsafe getenv(USBDeviceMode.environmentVariable) else { return options }
    let text = unsafe String(cString: value)
    options.mode = USBDeviceMode(parsing: text)
    if options.mode == nil {
      log.write(
        .warning, "\(USBDeviceMode.environmentVariable)=\(text) is no mode (1 to 5): modes are left alone")
    }
    return options
  }
}
