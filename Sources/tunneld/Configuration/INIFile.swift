internal import CLibINI

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// The text of an INI file, cut into keys and values by libinih, and where each of them stands.
///
/// The library reads a line of at most 200 bytes at a time and says nothing of sections without keys; lines
/// are handed to it one by one, so that their numbers are known and what it would cut or miss is found here.
struct INIFile {
  struct Entry: Equatable {
    let section: String
    let name: String
    let value: String
    /// From 1.
    let line: Int
    /// Whether it is the first one below its section's heading.
    let beginsSection: Bool
  }

  struct Problem: Equatable {
    let line: Int
    let cause: String
    let fix: String
  }

  private(set) var entries: [Entry] = []
  private(set) var problems: [Problem] = []

  /// Bytes of a file.
  static let maximumSize = 1 << 20
  /// Bytes of a line: libinih's buffer without a line break and an end.
  static let maximumLine = 198
  /// Bytes of a section's or key's name: libinih's buffers without an end.
  static let maximumName = 49
  private static let maximumProblems = 20

  init(_ bytes: [UInt8]) {
    let reader = Reader(bytes)
    let status = withExtendedLifetime(reader) {
      let context = unsafe Unmanaged.passUnretained(reader).toOpaque()
      return unsafe ini_parse_stream(nextLine, context, takeEntry, context)
    }
    entries = reader.entries
    problems = reader.problems
    if status > 0 {
      problems.append(
        Problem(line: Int(status), cause: "this is no setting", fix: "write key = value, or [section]"))
    }
    // Below a heading with nothing but a mistake, the mistake is enough.
    if let heading = reader.heading, !problems.contains(where: { $0.line >= heading }) {
      problems.append(Reader.empty(heading))
    }
    problems.sort { $0.line < $1.line }
    problems = Array(problems.prefix(Self.maximumProblems))
  }

  /// What goes to and fro between this file and the library.
  fileprivate final class Reader {
    private var rest: ArraySlice<UInt8>
    private var line = 0
    var entries: [Entry] = []
    var problems: [Problem] = []
    /// A section's heading that no key has followed yet.
    var heading: Int?
    /// The next key is the first one below a heading.
    private var begins = false

    init(_ bytes: [UInt8]) {
      // The library would skip a byte order mark too, but not before the heading is looked for here.
      rest = bytes.starts(with: [0xef, 0xbb, 0xbf]) ? bytes.dropFirst(3) : bytes[...]
    }

    static func empty(_ line: Int) -> Problem {
      Problem(line: line, cause: "the section is empty", fix: "give it keys, or take it out")
    }

    /// The next line, ended by a line break; nil at the end.
    func next() -> [UInt8]? {
      guard !rest.isEmpty else { return nil }
      line += 1
      var text = rest.prefix { $0 != 0x0a }
      rest = rest.dropFirst(text.count + 1)
      if text.last == 0x0d { text.removeLast() }
      // An indented line would continue the value above it, in libinih's reading.
      text = text.drop { $0 == 0x20 || $0 == 0x09 }
      guard text.count <= INIFile.maximumLine else {
        note("the line is longer than \(INIFile.maximumLine) bytes", fix: "shorten it")
        return [0x0a]
      }
      guard !text.contains(0), String(validating: text, as: UTF8.self) != nil else {
        note("the line is not UTF-8 text", fix: "save the file as UTF-8")
        return [0x0a]
      }
      if text.first == UInt8(ascii: "[") {
        if let heading { problems.append(Self.empty(heading)) }
        // One whose settings are all comments; a forward cannot do without.
        heading = text.elementsEqual("[daemon]".utf8) ? nil : line
        begins = true
      }
      return text + [0x0a]
    }

    func take(_ section: String, _ name: String, _ value: String) {
      defer { begins = false }
      heading = nil
      guard section.utf8.count < INIFile.maximumName, name.utf8.count < INIFile.maximumName else {
        return note("a name is longer than \(INIFile.maximumName - 1) bytes", fix: "shorten it")
      }
      entries.append(
        Entry(section: section, name: name, value: value, line: line, beginsSection: begins))
    }

    private func note(_ cause: String, fix: String) {
      guard problems.count < INIFile.maximumProblems else { return }
      problems.append(Problem(line: line, cause: cause, fix: fix))
    }
  }
}

/// As fgets(3): the next line into `buffer`, which has room for `size` bytes.
private func nextLine(
  _ buffer: UnsafeMutablePointer<CChar>?, _ size: CInt, _ context: UnsafeMutableRawPointer?
) -> UnsafeMutablePointer<CChar>? {
  guard let buffer = unsafe buffer, let context = unsafe context, size > 1 else { return nil }
  let reader = unsafe Unmanaged<INIFile.Reader>.fromOpaque(context).takeUnretainedValue()
  guard let line = reader.next() else { return nil }
  var count = 0
  for byte in line where count < Int(size) - 1 {
    unsafe buffer[count] = CChar(bitPattern: byte)
    count += 1
  }
  unsafe buffer[count] = 0
  return unsafe buffer
}

private func takeEntry(
  _ context: UnsafeMutableRawPointer?, _ section: UnsafePointer<CChar>?, _ name: UnsafePointer<CChar>?,
  _ value: UnsafePointer<CChar>?
) -> CInt {
  guard let context = unsafe context, let section = unsafe section, let name = unsafe name else { return 1 }
  let reader = unsafe Unmanaged<INIFile.Reader>.fromOpaque(context).takeUnretainedValue()
  let text = if let value = unsafe value { unsafe String(cString: value) } else { "" }
  unsafe reader.take(String(cString: section), String(cString: name), text)
  return 1
}
