internal import MuxProtocol

/// What the program was asked to do.
enum Invocation: Equatable, Sendable {
  /// Forward ports until a signal ends it.
  case run(RunOptions)
  /// Show the phones.
  case devices(DevicesOptions)
  /// Tell what is wrong with the configuration file.
  case checkConfiguration(CheckOptions)
  /// Ask a running tunneld.
  case control(ControlCommand)
  /// Print this text on stdout and end with status 0.
  case help(String)
  /// Print this line on stdout and end with status 0.
  case version(String)

  /// Reads the command line. Nothing is opened, looked up or printed.
  ///
  /// - Parameters:
  ///   - arguments: the argument list with the name of the program first. Called `iproxy`, by whatever path, the
  ///     program takes iproxy's options and arguments instead of its own.
  ///   - environment: the variables that count.
  ///   - files: what reads the configuration file.
  /// - Throws: the first mistake found.
  init(
    arguments: [String], environment: CommandEnvironment, files: ConfigurationReader = .none
  ) throws(UsageError) {
    let name = arguments.first?.split(separator: "/").last
    if name == "iproxy" {
      self = try IproxyCommand.parse(arguments.dropFirst(), environment: environment)
    } else {
      self = try TunneldCommand.parse(arguments.dropFirst(), environment: environment, files: files)
    }
  }
}

/// The environment variables that the command line depends on.
struct CommandEnvironment: Equatable, Sendable {
  /// The value of `USBMUXD_SOCKET_ADDRESS`, nil where it is not set.
  var usbmuxdSocketAddress: String?
  /// Whether systemd has passed a socket on which other programs are to be served: then they are, asked or not.
  var hasServerSocket = false

  /// The address in the environment, or nil where there is none. A set but malformed one is an error, an empty
  /// one included: falling back to another daemon would reach the wrong phones in silence.
  func usbmuxdAddress() throws(UsageError) -> DaemonAddress? {
    guard let usbmuxdSocketAddress else { return nil }
    return try DaemonAddress(argument: usbmuxdSocketAddress, of: DaemonAddress.environmentVariable)
  }
}

/// Reads configuration files, for a command line that does no I/O itself.
struct ConfigurationReader: Sendable {
  /// The bytes of a file; nil when there is none of this name.
  let read: @Sendable (String) throws(UsageError) -> [UInt8]?

  /// For where there are no files.
  static let none = ConfigurationReader { _ in nil }
}

/// The program's own version.
enum ProgramVersion {
  static let number = "0.1.0"
}
