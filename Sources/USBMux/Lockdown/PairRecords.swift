internal import EventLoop

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// The pair records that programs keep with the daemon, and this host's own identity.
///
/// Protocol: pair records live in `<UDID>.plist`, the host's id in `SystemConfiguration.plist` in the same
/// directory. They are secrets, and what is in them is the programs' business: they are kept byte by byte.
///
/// A phone has one record however its UDID is spelled: it is kept under the canonical spelling, and found
/// under the one that was asked for, too, where another daemon has kept it so.
final class PairRecords {
  private let directory: SecretDirectory
  private let log: Log
  private var identity: HostIdentity?

  init(directory: String, log: Log) {
    self.directory = SecretDirectory(path: directory)
    self.log = log
  }

  func read(_ record: RecordID) throws(SystemError) -> [UInt8] {
    do throws(SystemError) {
      return try directory.read(Self.fileName(record.canonical))
    } catch {
      guard error.isMissingFile, record.canonical != record else { throw error }
      return try directory.read(Self.fileName(record))
    }
  }

  func save(_ data: [UInt8], as record: RecordID) throws(SystemError) {
    do throws(SystemError) {
      try directory.write(data, to: Self.fileName(record.canonical))
    } catch {
      log.limited(
        .warning, topic: "save",
        "the pair record cannot be kept in \(directory.path) (\(error)): the phone will ask for trust again; "
          + "make the directory writable, or name another one with --lockdown-dir")
      // A missing parent directory must not read as a missing record.
      throw error.isMissingFile ? SystemError(code: ENOTDIR, call: error.call) : error
    }
  }

  func delete(_ record: RecordID) throws(SystemError) {
    do throws(SystemError) {
      try directory.remove(Self.fileName(record.canonical))
    } catch {
      guard error.isMissingFile, record.canonical != record else { throw error }
      return try directory.remove(Self.fileName(record))
    }
    if record.canonical != record { try? directory.remove(Self.fileName(record)) }
  }

  /// The host's own id, made at the first use. It stays the same while this object lives, also where it cannot
  /// be kept.
  func systemIdentity() -> String {
    if let identity { return identity.text }
    let identity = loadedIdentity()
    self.identity = identity
    return identity.text
  }

  private func loadedIdentity() -> HostIdentity {
    var kept: [UInt8]?
    do throws(SystemError) {
      kept = try directory.read(HostIdentity.fileName)
    } catch {
      guard error.isMissingFile else {
        // What cannot be read must not be replaced.
        log.write(
          .warning,
          "\(directory.path)/\(HostIdentity.fileName) cannot be read (\(error)): this host has another "
            + "identity until it can, and phones will ask for trust")
        return HostIdentity.random()
      }
    }
    if let kept, let identity = HostIdentity(file: kept) { return identity }
    let identity = HostIdentity.random()
    do {
      try directory.write(try identity.file(replacing: kept), to: HostIdentity.fileName)
    } catch {
      log.write(
        .warning,
        "this host's identity cannot be kept in \(directory.path) (\(error)): phones will ask for trust after the next start; "
          + "make the directory writable, or name another one with --lockdown-dir")
    }
    return identity
  }

  private static func fileName(_ record: RecordID) -> String { "\(record).plist" }
}

extension RecordID {
  /// The record under the canonical spelling of its UDID; itself where it is no UDID.
  fileprivate var canonical: RecordID {
    (try? UDID(parsing: description)).flatMap { RecordID($0) } ?? self
  }
}
