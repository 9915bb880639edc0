internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// Where a capture goes: a file for its owner's eyes only, or a FIFO that a program like Wireshark reads.
struct CaptureDestination: ~Copyable {
  /// Open already, or else a FIFO without a reader, which ``connect()`` waits for.
  private var descriptor: Descriptor?
  /// Its number, or -1.
  private var number: CInt = -1
  let path: String
  /// What was written can be taken back.
  private var isFile = false

  /// For whoever has a descriptor already.
  init(_ descriptor: consuming Descriptor, path: String, isFile: Bool) {
    number = descriptor.number
    self.descriptor = consume descriptor
    self.path = path
    self.isFile = isFile
  }

  /// Opens a new file or FIFO at `path`, or an existing one that is this user's or a FIFO. An existing file is
  /// emptied.
  ///
  /// - Throws: ``MuxError/permissionDenied(what:remedy:)`` or ``MuxError/system(_:)``, with what to do.
  init(opening path: String) throws(MuxError) {
    self.path = path
    descriptor = nil
    // Not blocking, as a FIFO may have no reader yet. With O_CREAT the system also refuses what others have put
    // into a directory like /tmp for us to write to (protected_regular, protected_fifos).
    let number = unsafe open(
      path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode_t(0o600))
    guard number >= 0 else {
      let error = SystemError.last("open")
      // Sockets say the same as FIFOs do.
      if error.code == ENXIO, Self.isFIFO(path) { return }
      throw Self.refusal(of: path, error)
    }
    descriptor = Descriptor(owning: number)
    self.number = number
    var status = stat()
    guard unsafe fstat(number, &status) == 0 else { throw Self.refusal(of: path, .last("fstat")) }
    switch status.st_mode & S_IFMT {
    case S_IFREG:
      isFile = true
      try Self.takeOver(number, path, owner: status.st_uid)
    case S_IFIFO:
      // Writes may wait from now on: they have a thread of their own.
      _ = fcntl(number, F_SETFL, 0)
    default: throw Self.refusal(of: path, "it is neither a file nor a FIFO")
    }
  }

  /// Waits for the reader of a FIFO. On a thread that may be blocked.
  mutating func connect() throws(SystemError) {
    guard number < 0 else { return }
    while true {
      let number = unsafe open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY)
      if number >= 0 {
        let opened = Descriptor(owning: number)
        var status = stat()
        // Another thing may have taken its place.
        guard unsafe fstat(number, &status) == 0, status.st_mode & S_IFMT == S_IFIFO else {
          throw SystemError(code: ENXIO, call: "open")
        }
        descriptor = consume opened
        self.number = number
        return
      }
      let error = SystemError.last("open")
      guard error.isInterruption else { throw error }
    }
  }

  /// Makes an existing file ours alone, and empties it.
  private static func takeOver(_ file: CInt, _ path: String, owner: uid_t) throws(MuxError) {
    // Its owner could read what is written, whatever the mode.
    guard owner == geteuid() else { throw refusal(of: path, "it belongs to another user") }
    // A second tunneld with the same options must not empty the first one's file.
    guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
      throw refusal(of: path, "another process writes to it")
    }
    guard fchmod(file, 0o600) == 0 else { throw refusal(of: path, .last("fchmod")) }
    guard ftruncate(file, 0) == 0 else { throw refusal(of: path, .last("ftruncate")) }
  }

  private static func isFIFO(_ path: String) -> Bool {
    var status = stat()
    return unsafe lstat(path, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
  }

  private static func refusal(of path: String, _ error: SystemError) -> MuxError {
    switch error.code {
    case ELOOP: refusal(of: path, "it is a symbolic link")
    case EISDIR: refusal(of: path, "it is a directory")
    case ENXIO: refusal(of: path, "it is neither a file nor a FIFO")
    case ENOENT: .system("cannot capture to \(path): \(error.message): make its directory first")
    case EACCES, EPERM:
      .permissionDenied(
        what: path,
        remedy:
          "capture to a file in a directory that is this user's; a FIFO must not be another user's in /tmp")
    case EROFS:
      .system(
        "cannot capture to \(path): \(error.message): the service may write below /var/lib/tunneld and "
          + "/run/tunneld only")
    default: .system("cannot capture to \(path): \(error): name another file")
    }
  }

  private static func refusal(of path: String, _ cause: String) -> MuxError {
    .system("cannot capture to \(path): \(cause): name a new file, or a FIFO")
  }

  mutating func close() {
    descriptor = nil
    number = -1
  }

  // MARK: Writing

  /// Writes all of the bytes, however long that takes, or none of them where they can be taken back.
  func write(_ bytes: [UInt8]) throws(SystemError) {
    let start = isFile ? lseek(number, 0, SEEK_CUR) : -1
    var offset = 0
    while offset < bytes.count {
      let written = unsafe bytes.withUnsafeBytes { buffer in
        guard let base = buffer.baseAddress else { return 0 }
        return unsafe Self.posixWrite(number, base + offset, buffer.count - offset)
      }
      if written >= 0 {
        offset += written
        continue
      }
      let error = SystemError.last("write")
      if error.isInterruption { continue }
      // A reader of the file finds whole blocks only.
      if start >= 0 { _ = ftruncate(number, start) }
      throw error
    }
  }

  private static func posixWrite(_ file: CInt, _ bytes: UnsafeRawPointer, _ count: Int) -> Int {
    #if canImport(Darwin)
      unsafe Darwin.write(file, bytes, count)
    #else
      unsafe Glibc.write(file, bytes, count)
    #endif
  }
}
