internal import CSystem

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// A system call that failed: the number that it left, and its name.
package struct SystemError: Error, Equatable, CustomStringConvertible {
  /// The value of `errno`.
  package let code: CInt
  /// The call that set it, so that a message never blames another one.
  package let call: String

  package init(code: CInt, call: String) {
    self.code = code
    self.call = call
  }

  /// The error that the last failed call of this thread left behind.
  package static func last(_ call: String) -> SystemError { SystemError(code: errno, call: call) }

  package var description: String { "\(call): \(message)" }

  /// The system's words for the number.
  package var message: String { SystemError.words(for: code) }

  /// The system's words for an error number, in the C locale.
  package static func words(for code: CInt) -> String {
    guard let text = unsafe strerror(code) else { return "error \(code)" }
    return unsafe String(cString: text)
  }
}

extension SystemError {
  /// EINTR: nothing happened, call again.
  package var isInterruption: Bool { code == EINTR }
  /// EAGAIN: not now.
  package var isWouldBlock: Bool { code == EAGAIN || code == EWOULDBLOCK }
  /// EMFILE, ENFILE, ENOBUFS or ENOMEM: the process or the system has run out.
  package var isExhaustion: Bool { code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM }
  /// EACCES or EPERM.
  package var isPermission: Bool { code == EACCES || code == EPERM }
  /// ENOENT or ECONNREFUSED: nobody is there.
  package var isAbsence: Bool { code == ENOENT || code == ECONNREFUSED }
  package var isInProgress: Bool { code == EINPROGRESS }
  package var isAddressInUse: Bool { code == EADDRINUSE }
  package var isAddressNotAvailable: Bool { code == EADDRNOTAVAIL || code == EAFNOSUPPORT }
}

extension SystemError {
  /// For an address that cannot be one, so that no call was made.
  package static var invalidAddress: SystemError { SystemError(code: EINVAL, call: "connect") }
}
