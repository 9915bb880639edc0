import EventLoop

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

extension ConfigurationReader {
  /// Reads files of this machine.
  static let files = ConfigurationReader { path throws(UsageError) in
    let number = unsafe open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
    guard number >= 0 else {
      let error = SystemError.last("open")
      if error.isAbsence { return nil }
      throw UsageError(
        "\(path.quoted) cannot be read (\(error.message))", fix: "make it readable for tunneld")
    }
    let file = Descriptor(owning: number)
    var bytes: [UInt8] = []
    // One byte beyond the limit is enough to know.
    while bytes.count <= INIFile.maximumSize {
      var count = 0
      let more = unsafe [UInt8](unsafeUninitializedCapacity: 65536) { buffer, filled in
        guard let start = buffer.baseAddress else { return }
        count = unsafe systemRead(file.number, start, buffer.count)
        filled = max(0, count)
      }
      if count == 0 { return bytes }
      if count > 0 {
        bytes += more
      } else if errno != EINTR {
        throw UsageError(
          "\(path.quoted) cannot be read (\(SystemError.last("read").message))",
          fix: "name a configuration file")
      }
    }
    return bytes
  }
}
