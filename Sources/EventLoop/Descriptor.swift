#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// An open file descriptor and the duty to close it: once, by whoever holds this value last.
package struct Descriptor: ~Copyable, Sendable {
  /// The number, valid while this value lives.
  package let number: CInt

  /// Takes over an open descriptor.
  package init(owning number: CInt) {
    self.number = number
  }

  deinit { _ = close(number) }

  /// Gives the number away together with the duty to close it.
  package consuming func release() -> CInt {
    let number = number
    discard self
    return number
  }
}
