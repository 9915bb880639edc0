extension TunneldCommand {
  /// Of these, whatever the command line names goes over all that the file says.
  private static let groups: [Set<TunneldOption>] = [
    [.udid, .any], [.usbOnly, .network, .networkOnly], [.verbose, .quiet, .logLevel],
    [.transport, .usbmuxd, .simulate, .simulatedDevices],
    [.usbmuxdSocket, .usbmuxdSocketMode, .usbmuxdSocketGroup],
    [.controlSocket, .controlSocketMode, .controlSocketGroup],
  ]

  /// The configuration file that is meant; nil for none. The standard one is read where nothing else is to be
  /// done, so that a forward by hand does not start all that the system's service has.
  func configurationFile(_ files: ConfigurationReader) throws(UsageError) -> ConfigurationFile? {
    if let configurationPath {
      guard let bytes = try files.read(configurationPath) else {
        throw UsageError(
          "there is no file \(configurationPath.quoted)", fix: "write the path of a configuration file")
      }
      return ConfigurationFile(path: configurationPath, bytes: bytes)
    }
    let hasWork =
      !locals.isEmpty || !devicePorts.isEmpty || !pairs.isEmpty || server.location != nil || control.isNamed
    guard !hasWork || command == .checkConfiguration else { return nil }
    let path = ConfigurationFile.standardPath
    guard let bytes = try files.read(path) else {
      guard command != .checkConfiguration else {
        throw UsageError("there is no file \(path.quoted)", fix: "name another one with -c FILE")
      }
      return nil
    }
    return ConfigurationFile(path: path, bytes: bytes)
  }

  /// Takes what the file says of the daemon, where the command line does not say it. Returns what is wrong.
  mutating func apply(_ file: ConfigurationFile) -> [UsageError] {
    var problems: [UsageError] = []
    let overridden = Self.groups.filter { !$0.isDisjoint(with: used) }.reduce(Set(used)) { $0.union($1) }
    for setting in file.daemon where !overridden.contains(setting.option) {
      do throws(UsageError) {
        for value in setting.values { try take(setting.option, value, as: setting.option.key) }
      } catch {
        problems.append(file.located(error, at: setting.line))
      }
    }
    return problems
  }

  /// The file's forwards, each besides those before it and those of the command line, which go over them.
  func forwards(
    of file: ConfigurationFile, besides others: [ForwardOptions], server: ServerOptions?
  ) -> (forwards: [ForwardOptions], problems: [UsageError]) {
    var forwards: [ForwardOptions] = []
    var problems: [UsageError] = []
    for section in file.forwards {
      var arguments = ForwardArguments()
      var isSound = true
      for setting in section.settings {
        do throws(UsageError) {
          try arguments.take(setting.option, setting.value, as: setting.option.key)
        } catch {
          isSound = false
          problems.append(file.located(error, at: setting.line))
        }
      }
      guard isSound else { continue }
      do throws(UsageError) {
        let forward = try arguments.options(name: section.name, bind: bindAddress)
        if others.contains(where: { $0.local.clashes(with: forward.local) }) { continue }
        if let earlier = forwards.first(where: { $0.local.clashes(with: forward.local) }) {
          throw UsageError(
            "\(forward.local.spelling.quoted) is the local end of [forward \(earlier.name ?? "")] already",
            fix: "give each forward a local port of its own, or 0 for a free one")
        }
        if case .endpoint(let local) = server?.location, local.clashes(with: forward.local) {
          throw UsageError(
            "\(local.spelling.quoted) is where phones are served", fix: "forward another local end")
        }
        forwards.append(forward)
      } catch {
        problems.append(
          file.error(section.line, "[forward \(section.name)]: \(error.cause)", fix: error.fix))
      }
    }
    return (forwards, problems)
  }

  /// A mistake that shows when all settings are put together, at the file's first setting that it names.
  func located(_ error: UsageError, in file: ConfigurationFile?) -> UsageError {
    guard let file,
      let setting = file.daemon.first(where: { error.cause.contains($0.option.spelling) })
    else { return error }
    return file.located(error, at: setting.line)
  }
}

extension ConfigurationFile.Setting {
  /// The value, or the values where several may stand in one line.
  fileprivate var values: [String] {
    guard option == .simulate else { return [value] }
    return value.split(separator: " ", omittingEmptySubsequences: true).map(String.init)
  }
}
