package import EventLoop

/// What has happened to connections since the start, those of forwards and of servers together.
package struct Statistics: Equatable, Sendable {
  /// Connections that were accepted.
  package internal(set) var accepted: UInt64 = 0
  /// Of these, those that got a stream to a device.
  package internal(set) var opened: UInt64 = 0
  /// Clients that were shown a reset instead of an end.
  package internal(set) var resets: UInt64 = 0
  /// Why connections got no stream.
  package internal(set) var failures: [MuxError.Kind: UInt64] = [:]
  /// How streams ended.
  package internal(set) var ends: [End: UInt64] = [:]
  /// Bytes that streams which have ended carried to devices.
  package internal(set) var sent: UInt64 = 0
  /// Bytes that streams which have ended carried from devices.
  package internal(set) var received: UInt64 = 0

  /// How a stream ended.
  package enum End: String, CaseIterable, Sendable {
    /// The app closed its side, or the client did after it had all.
    case ended
    case clientGone = "client_gone"
    case deviceLost = "device_lost"
    case idleAfterHalfClose = "idle_after_half_close"
    case stopped
  }

  /// What the device refused.
  package var refusals: UInt64 { failures[.refused] ?? 0 }

  mutating func failed(_ error: MuxError, resets isReset: Bool = true) {
    failures[error.kind, default: 0] &+= 1
    if isReset { resets &+= 1 }
  }

  mutating func ended(_ summary: RelaySummary) {
    let end: End =
      switch summary.reason {
      case .ended: .ended
      case .clientGone: .clientGone
      case .deviceLost: .deviceLost
      case .idleAfterHalfClose: .idleAfterHalfClose
      case .stopped: .stopped
      }
    ends[end, default: 0] &+= 1
    if summary.reason == .deviceLost { resets &+= 1 }
    sent &+= summary.sent
    received &+= summary.received
  }
}

/// How things are at one moment.
package struct MuxStatus: Sendable {
  package struct DeviceStatus: Sendable {
    package let device: Device
    /// `usbmuxd`, `usb` or `simulated`.
    package let transport: String
    /// The version of the device protocol; nil where a daemon speaks it.
    package let linkVersion: Int?
  }

  package struct ConnectionStatus: Sendable {
    package enum State: String, Sendable {
      /// For its device.
      case waiting
      /// For the device's answer.
      case opening
      case open
    }

    package let identifier: UInt64
    /// The forward's number; nil for a program that tunneld serves as a usbmuxd would.
    package let forward: UInt64?
    package let udid: UDID?
    package let port: DevicePort
    package let state: State
    package let age: Duration
    /// Bytes delivered to the device.
    package let sent: UInt64
    /// Bytes delivered to the client.
    package let received: UInt64
  }

  package struct ForwardCounts: Sendable {
    package var open = 0
    package var accepted: UInt64 = 0

    package init(open: Int = 0, accepted: UInt64 = 0) {
      self.open = open
      self.accepted = accepted
    }
  }

  package struct Loop: Sendable {
    package let name: String
    package let turns: TurnTimes
  }

  package let devices: [DeviceStatus]
  /// Why no device can be reached; nil when the transport works.
  package let failure: MuxError?
  package let connections: [ConnectionStatus]
  /// By the forward's number.
  package let forwards: [UInt64: ForwardCounts]
  /// Programs that tunneld serves as a usbmuxd would, those with a stream included.
  package let programs: Int
  package let statistics: Statistics
  package let loops: [Loop]

  /// Bytes carried to devices so far.
  package var sent: UInt64 { connections.reduce(statistics.sent) { $0 &+ $1.sent } }
  /// Bytes carried from devices so far.
  package var received: UInt64 { connections.reduce(statistics.received) { $0 &+ $1.received } }
}
