internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// A directory of small secret files: 0700, and 0600 each. A file is always the old or the new one, whole,
/// whatever happens while it is written.
///
/// The calls block, for as long as a file system takes for some kilobytes.
struct SecretDirectory {
  let path: String
  /// The largest file that is read, bytes.
  static let maximumSize = 1 << 20

  /// The content of a file.
  ///
  /// - Throws: ``SystemError``: ENOENT when there is none, EFBIG above the limit, EINVAL for what is no
  ///   ordinary file.
  func read(_ name: String) throws(SystemError) -> [UInt8] {
    // A link could lead out of the directory, and opening a FIFO would block.
    let file = try Self.opened("\(path)/\(name)", O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
    var status = stat()
    guard unsafe fstat(file.number, &status) == 0 else { throw SystemError.last("fstat") }
    guard status.st_mode & S_IFMT == S_IFREG else { throw SystemError(code: EINVAL, call: "open") }
    guard status.st_size <= Self.maximumSize else { throw SystemError(code: EFBIG, call: "read") }
    // One byte more than the size shows the end in the same call.
    let capacity = Int(status.st_size) + 1
    var bytes = [UInt8](repeating: 0, count: capacity)
    var count = 0
    while count < capacity {
      let moved = unsafe bytes.withUnsafeMutableBytes { buffer in
        guard let start = buffer.baseAddress else { return 0 }
        return unsafe systemRead(file.number, start + count, capacity - count)
      }
      if moved > 0 { count += moved } else if moved == 0 { break } else { try Self.mustBeInterrupted("read") }
    }
    bytes.removeLast(capacity - count)
    return bytes
  }

  /// Makes or replaces a file, and the directory where there is none.
  func write(_ bytes: [UInt8], to name: String) throws(SystemError) {
    if unsafe mkdir(path, 0o700) != 0, errno != EEXIST { throw SystemError.last("mkdir") }
    // A record's name cannot begin with a dot, so no program can name this file.
    let temporary = "\(path)/.\(name).\(getpid())"
    _ = unsafe unlink(temporary)
    let file = try Self.opened(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW)
    do throws(SystemError) {
      // The umask may have taken the owner's own rights away.
      guard fchmod(file.number, 0o600) == 0 else { throw SystemError.last("fchmod") }
      try Self.writeAll(bytes, to: file.number)
      guard fsync(file.number) == 0 else { throw SystemError.last("fsync") }
      guard unsafe rename(temporary, "\(path)/\(name)") == 0 else { throw SystemError.last("rename") }
    } catch {
      _ = unsafe unlink(temporary)
      throw error
    }
    syncDirectory()
  }

  /// - Throws: ``SystemError``: ENOENT when there is none.
  func remove(_ name: String) throws(SystemError) {
    guard unsafe unlink("\(path)/\(name)") == 0 else { throw SystemError.last("unlink") }
    syncDirectory()
  }

  /// The new name survives a power cut only with this; that some file systems have no such call is no error.
  private func syncDirectory() {
    guard let directory = try? Self.opened(path, O_RDONLY | O_CLOEXEC | O_DIRECTORY) else { return }
    _ = fsync(directory.number)
  }

  private static func opened(_ path: String, _ flags: CInt) throws(SystemError) -> Descriptor {
    while true {
      let number = unsafe open(path, flags, 0o600)
      if number >= 0 { return Descriptor(owning: number) }
      try mustBeInterrupted("open")
    }
  }

  private static func writeAll(_ bytes: [UInt8], to file: CInt) throws(SystemError) {
    var count = 0
    while count < bytes.count {
      let moved = unsafe bytes.withUnsafeBytes { buffer in
        guard let start = buffer.baseAddress else { return 0 }
        return unsafe systemWrite(file, start + count, buffer.count - count)
      }
      if moved > 0 { count += moved } else { try mustBeInterrupted("write") }
    }
  }

  /// The last call failed: only a signal is a reason to call again.
  private static func mustBeInterrupted(_ call: String) throws(SystemError) {
    let error = SystemError.last(call)
    guard error.isInterruption else { throw error }
  }
}

extension SystemError {
  /// ENOENT: there is no such file.
  var isMissingFile: Bool { code == ENOENT }
}

extension ResultCode {
  /// What a program is told of a file that could not be read or written.
  ///
  /// Protocol: numbers are errno-like, and 2 is ENOENT. But 1, 3 and 6 mean something else, which EPERM, ESRCH
  /// and ENXIO must not be taken for.
  init(_ error: SystemError) {
    switch error.code {
    case EPERM: self = .other(UInt32(EACCES))
    case ESRCH, ENXIO: self = .other(UInt32(EIO))
    default: self.init(rawValue: UInt32(clamping: error.code))
    }
  }
}
