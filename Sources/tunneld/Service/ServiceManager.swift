#if canImport(Glibc)
  import CLibSystemd
#endif

/// The service manager that has started this process, where there is one (sd_notify(3)).
enum ServiceManager {
  #if os(Linux)
    /// Whether it wants to be told anything.
    static var isThere: Bool { Console.environment("NOTIFY_SOCKET")?.isEmpty == false }

    /// Assignments, one a line.
    static func notify(_ state: String) { _ = unsafe csd_notify(state) }

    /// How long the manager waits for a ping before it takes the process for hung, nanoseconds; nil: it does not.
    static var watchdogTime: Int64? {
      var microseconds: UInt64 = 0
      guard unsafe csd_watchdog_enabled(&microseconds) > 0 else { return nil }
      return Int64(clamping: microseconds.multipliedReportingOverflow(by: 1000).partialValue)
    }
  #else
    static var isThere: Bool { false }
    static func notify(_ state: String) {}
    static var watchdogTime: Int64? { nil }
  #endif
}
