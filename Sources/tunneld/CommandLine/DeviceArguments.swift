/// A UDID or the beginning of one, as somebody typed it: the format is checked, nothing else.
struct UDIDArgument: Hashable, Sendable {
  let text: String

  /// Accepts what can be the beginning of a UDID in either format, in any case: up to 40 hexadecimal digits
  /// (older phones), or 8 digits, a dash and up to 16 digits (newer ones), the dash being optional.
  init(parsing text: String, option: String) throws(UsageError) {
    let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
    let digits = parts.joined()
    let isHexadecimal = !digits.isEmpty && digits.allSatisfy { $0.isASCII && $0.isHexDigit }
    let fits = parts.count == 1 ? digits.count <= 40 : parts[0].count == 8 && parts[1].count <= 16
    guard isHexadecimal, fits else {
      throw UsageError(
        "\(option) \(text.quoted) is no UDID",
        fix:
          "write 40 hexadecimal digits, or 8, a dash and 16, or the beginning; `tunneld devices` lists them"
      )
    }
    self.text = text
  }
}

/// The address of a usbmuxd, as somebody typed it: the format is checked, nothing else.
struct DaemonAddressArgument: Hashable, Sendable {
  let text: String

  /// Accepts `UNIX:/path`, a path without a colon, `host:port` and `[v6 address]:port`.
  /// `source` is the option or the environment variable that the text comes from.
  init(parsing text: String, source: String) throws(UsageError) {
    guard Self.isWellFormed(text) else {
      throw UsageError(
        "\(source) \(text.quoted) is no usbmuxd address",
        fix: "write UNIX:/path, host:port or [v6 address]:port"
      )
    }
    self.text = text
  }

  private static func isWellFormed(_ text: String) -> Bool {
    if text.hasPrefix("UNIX:") { return UnixPath.isUsable(text.dropFirst("UNIX:".count)) }
    guard let colon = text.lastIndex(of: ":") else { return UnixPath.isUsable(text) }
    guard let port = Port.parse(text[text.index(after: colon)...]), port > 0 else { return false }
    let host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") { return IPLiteral.isV6(host.dropFirst().dropLast()) }
    return !host.isEmpty && !host.contains { $0 == ":" || $0 == "/" || $0.isWhitespace }
  }
}
