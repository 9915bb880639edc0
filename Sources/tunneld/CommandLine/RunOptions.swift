internal import MuxProtocol

/// What a run of the daemon was asked to do, every value checked.
struct RunOptions: Equatable, Sendable {
  /// In the order of the command line, no two with the same local end. At least one, unless a socket is served.
  var forwards: [ForwardOptions]
  var device: DeviceChoice = .onlyOne
  var connections: ConnectionChoice = .usbOnly
  var transport: TransportChoice = .auto(usbmuxd: nil)
  var timeouts = Timeouts()
  /// The most connections at one time over all forwards; nil leaves it to the descriptor limit.
  var maximumConnections: Int?
  /// How much is logged: -1 errors only, 0 what a user must know, 1 and more for `-v`, `-vv`, ...
  var verbosity = 0
  /// Which program's lines are written to stdout when the listeners are bound.
  var announcement: Announcement = .tunneld
  /// The socket on which other programs are served; nil for none.
  var server: ServerOptions?
  /// The configuration file that was read; nil for none. With one, a forward that cannot be is tried again.
  var configuration: String?
  /// The socket over which this run is asked and told things; nil for none.
  var control: ControlOptions?
  var log = LogOptions()
  var ready = ReadyOptions()
  /// Ends when the process that started it does.
  var exitsWithParent = false
  /// The file that the streams are written to; nil for none.
  var capture: String?

  /// Times that a user may set.
  struct Timeouts: Equatable, Sendable {
    /// How long a connection waits for a phone that is not there.
    var wait: Duration = .seconds(5)
    /// How long the phone may be silent after the local client shut down its sending side.
    var halfClose: Duration = .seconds(30)
    /// How long the phone or usbmuxd may take to answer a connection request.
    var connect: Duration = .seconds(10)
    /// How long open connections may go on after SIGTERM or SIGINT.
    var drain: Duration = .milliseconds(300)
  }

  /// The style of the lines on stdout.
  enum Announcement: Equatable, Sendable {
    /// `ready: 127.0.0.1:8765 -> device port 8765`.
    case tunneld
    /// `Creating listening port 8765 for device port 8765`, then `waiting for connection`.
    case iproxy
  }
}

/// One local listening end and the port on the phone that it leads to.
struct ForwardOptions: Hashable, Sendable {
  var local: LocalEndpoint
  /// 1...65535.
  var devicePort: UInt16
  /// The name of its section in the configuration file; nil for one that is from elsewhere.
  var name: String?
  /// What it has of its own; the rest is as the run's.
  var settings = ForwardSettings()
}

/// Where local programs connect.
enum LocalEndpoint: Hashable, Sendable {
  /// A TCP port; 0 lets the kernel choose one.
  case tcp(BindAddress, port: UInt16)
  /// A Unix socket at this path, short enough for `sockaddr_un`.
  case unix(path: String)
}

/// The local address of a TCP listener.
enum BindAddress: Hashable, Sendable {
  /// Both loopback addresses, 127.0.0.1 and ::1.
  case localhost
  /// A numeric IPv4 or IPv6 address without brackets, the latter perhaps with a `%zone`.
  case address(String)
}

/// Which phone a connection goes to.
enum DeviceChoice: Hashable, Sendable {
  /// The only one there is; more than one refuses the connection.
  case onlyOne
  /// The first one found, however many there are.
  case any
  /// The one whose UDID this is or begins with.
  case udid(UDIDPrefix)
}

/// By which way a phone may be reached.
enum ConnectionChoice: Hashable, Sendable {
  /// USB only. The default: a phone never moves to Wi-Fi unasked.
  case usbOnly
  /// USB where there is a cable, else Wi-Fi.
  case usbPreferred
  /// Wi-Fi only.
  case networkOnly
}

/// What carries the connections.
enum TransportChoice: Equatable, Sendable {
  /// A usbmuxd that answers, else the phone's USB interface itself. The address is nil for the default one.
  case auto(usbmuxd: DaemonAddress?)
  /// A usbmuxd; the address is nil for the default one.
  case usbmuxd(DaemonAddress?)
  /// The phone's USB interface itself.
  case usb
  /// Phones that exist in this process only.
  case simulated(SimulationOptions)
}

/// The simulated phones.
struct SimulationOptions: Equatable, Sendable {
  /// How many phones are attached; all serve the same ports.
  var devices = 1
  /// What answers on the phones' ports, over the services that each phone has anyway.
  var services: [UInt16: SimulatedServiceChoice] = [:]
}

/// What answers on a port of a simulated phone.
enum SimulatedServiceChoice: Hashable, Sendable {
  /// Sends back what it receives.
  case echo
  /// Reads and forgets.
  case discard
  /// Sends printable characters without end.
  case chargen
  /// A small HTTP server.
  case http
  /// A TCP server on a loopback address of this machine (numeric, without brackets, or `localhost`).
  case loopback(host: String, port: UInt16)
}

/// What `tunneld devices` was asked to show.
struct DevicesOptions: Equatable, Sendable {
  /// One JSON object a line instead of a table.
  var json = false
  /// Go on and show phones as they come and go.
  var watch = false
  /// A listing shows phones on Wi-Fi too unless it is told otherwise.
  var connections: ConnectionChoice = .usbPreferred
  var transport: TransportChoice = .auto(usbmuxd: nil)
  /// As in ``RunOptions``.
  var verbosity = 0
}
