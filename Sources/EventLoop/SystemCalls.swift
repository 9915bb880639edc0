#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// write(2), which has too many namesakes.
package func systemWrite(_ descriptor: CInt, _ bytes: UnsafeRawPointer, _ count: Int) -> Int {
  #if canImport(Darwin)
    unsafe Darwin.write(descriptor, bytes, count)
  #else
    unsafe Glibc.write(descriptor, bytes, count)
  #endif
}

/// read(2), likewise.
package func systemRead(_ descriptor: CInt, _ bytes: UnsafeMutableRawPointer, _ count: Int) -> Int {
  #if canImport(Darwin)
    unsafe Darwin.read(descriptor, bytes, count)
  #else
    unsafe Glibc.read(descriptor, bytes, count)
  #endif
}
