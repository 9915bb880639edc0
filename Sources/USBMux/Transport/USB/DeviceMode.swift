/// In which set of configurations a device shows itself.
///
/// Protocol: 1 initial (at most 4 configurations), 2 "valeria" (screen video), 3 CDC-NCM, 4 USB Ethernet and
/// CDC-NCM (6 configurations), 5 CDC-NCM direct (1 configuration).
public enum USBDeviceMode: Int, Sendable, CaseIterable {
  /// As a device shows itself first: at most four configurations.
  case initial = 1
  /// With the screen's video stream.
  case valeria = 2
  /// With a CDC-NCM network.
  case network = 3
  /// With USB Ethernet (tethering) and a CDC-NCM network.
  case tethering = 4
  /// A CDC-NCM network alone.
  case networkDirect = 5

  /// The variable that names the wanted mode, as with usbmuxd.
  public static let environmentVariable = "USBMUXD_DEFAULT_DEVICE_MODE"

  /// Reads the number of a mode; nil for anything else.
  public init?(parsing text: some StringProtocol) {
    guard let number = Int(text), let mode = USBDeviceMode(rawValue: number) else { return nil }
    self = mode
  }
}

/// What a device says about its mode.
enum USBPresentMode: Equatable, Sendable {
  case known(USBDeviceMode)
  /// It has left the initial mode; which of the others it is in shows in its configurations.
  case notInitial
  /// It did not answer, or with something unknown.
  case unknown

  /// Protocol: vendor request 0x45 reads the mode, 4 bytes: 3:3:3:0 in the initial mode, 5:3:3:0 otherwise.
  init(answer: [UInt8]) {
    switch answer {
    case [3, 3, 3, 0]: self = .known(.initial)
    case [5, 3, 3, 0]: self = .notInitial
    default: self = .unknown
    }
  }

  /// The mode that the configurations show, for a device that has left the initial one.
  ///
  /// Protocol: in mode 2 configuration 5 has class 0xff subclass 0x2a protocol 0xff, in mode 3 it has class 2
  /// subclass 0x0d; mode 4 has 6 configurations; mode 5 has 1.
  func refined(by configurations: [USBConfiguration]) -> USBPresentMode {
    guard self == .notInitial else { return self }
    if configurations.count == 1 { return .known(.networkDirect) }
    if configurations.count == 6 { return .known(.tethering) }
    guard let fifth = configurations.first(where: { $0.value == 5 }) else { return .unknown }
    for interface in fifth.interfaces {
      if interface.classCode == 0xff, interface.subclass == 0x2a, interface.protocolCode == 0xff {
        return .known(.valeria)
      }
      if interface.classCode == 2, interface.subclass == 0x0d { return .known(.network) }
    }
    return .unknown
  }
}

/// The vendor requests about modes.
///
/// Protocol: bmRequestType 0xC0; 0x45 reads the mode; 0x52 with wIndex = mode sets it (1 byte back, 0 =
/// accepted), after which the device re-enumerates. Old devices stall these requests.
enum USBModeRequest: Equatable, Sendable {
  case read
  case set(USBDeviceMode)

  static let requestType: UInt8 = 0xc0

  var request: UInt8 {
    switch self {
    case .read: 0x45
    case .set: 0x52
    }
  }

  var index: UInt16 {
    switch self {
    case .read: 0
    case .set(let mode): UInt16(truncatingIfNeeded: mode.rawValue)
    }
  }

  var answerLength: UInt16 {
    switch self {
    case .read: 4
    case .set: 1
    }
  }

  /// What is to be done about the mode.
  ///
  /// Leave the phone's mode alone unless the user asks (an unasked switch breaks tethering and drops other
  /// programs); never switch when the present mode cannot be told, nor when it is the wanted one.
  static func decide(wanted: USBDeviceMode?, present: USBPresentMode) -> USBModeRequest? {
    guard let wanted, case .known(let mode) = present, mode != wanted else { return nil }
    return .set(wanted)
  }
}
