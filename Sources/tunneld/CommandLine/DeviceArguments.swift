internal import MuxProtocol

extension UDIDPrefix {
  /// Reads the value of an option.
  init(argument text: String, of option: String) throws(UsageError) {
    do {
      try self.init(parsing: text)
    } catch {
      throw UsageError(
        "\(option) \(text.quoted) is no UDID",
        fix: "write 24 or 40 hexadecimal digits or the first of them; `tunneld devices` lists the phones"
      )
    }
  }
}

extension DaemonAddress {
  /// Reads the value of an option or of an environment variable, which `source` names.
  init(argument text: String, of source: String) throws(UsageError) {
    do {
      try self.init(parsing: text)
    } catch {
      let fix =
        switch error {
        case .pathTooLong: "a path has at most \(Self.maximumPathLength) bytes"
        case .pathWithColon: "write UNIX: before a path with a colon"
        case .bracketsMissing: "write a v6 address as [ADDRESS]:PORT"
        case .malformedPort: "write host:port with a port from 1 to 65535"
        case .empty, .controlCharacter, .emptyPath, .missingHost, .malformedHost:
          "write UNIX:/path, host:port or [v6]:port"
        }
      throw UsageError("\(source) \(text.quoted) is no usbmuxd address", fix: fix)
    }
  }
}
