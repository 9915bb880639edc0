import EventLoop
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// The daemon and command line.
@main
enum Tunneld {
  /// Exit statuses, documented in `--help`.
  enum ExitStatus {
    static let success: Int32 = 0
    static let failure: Int32 = 1
    static let usage: Int32 = 2
  }

  static func main() {
    let arguments = CommandLine.arguments
    let program = Console.programName(arguments)
    Console.unblockSignals()
    let environment = CommandEnvironment(
      usbmuxdSocketAddress: Console.environment(DaemonAddress.environmentVariable),
      hasServerSocket: PassedSockets.current.namesServer)
    let invocation: @Sendable () throws(UsageError) -> Invocation = { () throws(UsageError) in
      try Invocation(arguments: arguments, environment: environment, files: .files)
    }
    do throws(UsageError) {
      switch try invocation() {
      case .help(let text), .version(let text): Console.print(text)
      case .run(let options):
        exit(run(program) { try Daemon(options, program: program, on: $0, again: invocation) })
      case .devices(let options): exit(run(program) { try DeviceLister(options, program: program, on: $0) })
      case .control(let command):
        Console.ignoreBrokenPipes()
        exit(ControlRunner.run(command, program: program))
      case .checkConfiguration(let options): exit(check(options, program))
      }
    } catch {
      Console.complain("\(program): \(error)")
      exit(ExitStatus.usage)
    }
  }

  private static func check(_ options: CheckOptions, _ program: String) -> Int32 {
    for problem in options.problems { Console.complain("\(program): \(problem)") }
    guard options.problems.isEmpty else { return ExitStatus.usage }
    Console.print("\(options.path) is in order; forwards: \(options.forwards)")
    return ExitStatus.success
  }

  /// Runs a command on the main thread's loop until it ends.
  private static func run(_ program: String, _ make: (EventLoop) throws -> any Command) -> Int32 {
    do {
      Console.ignoreBrokenPipes()
      let loop = try EventLoop()
      let outcome = Outcome()
      let command = try make(loop)
      loop.execute { command.begin(outcome) }
      loop.run()
      return outcome.status
    } catch {
      Console.complain("\(program): \(error)")
      return ExitStatus.failure
    }
  }
}

/// Something that runs on the loop until it sets its outcome.
protocol Command: Sendable {
  /// Called on the loop's thread.
  func begin(_ outcome: Outcome)
}
