extension RunOptions {
  /// The settings in which `other` differs and that are read at the start only, by the names of their keys.
  func settingsForRestart(besides other: RunOptions) -> [String] {
    var keys = transport.keysOfDifference(from: other.transport)
    func compare<Value: Equatable>(_ option: TunneldOption, _ left: Value, _ right: Value) {
      if left != right { keys.append(option) }
    }
    compare(.maximumConnections, maximumConnections, other.maximumConnections)
    compare(.usbmuxdSocket, server?.location, other.server?.location)
    if let server, let wanted = other.server {
      compare(.usbmuxdSocketMode, server.mode, wanted.mode)
      compare(.usbmuxdSocketGroup, server.group, wanted.group)
      compare(.lockdownDirectory, server.lockdownDirectory, wanted.lockdownDirectory)
    }
    compare(.capture, capture, other.capture)
    compare(.controlSocket, control?.path, other.control?.path)
    if let control, let wanted = other.control {
      compare(.controlSocketMode, control.mode, wanted.mode)
      compare(.controlSocketGroup, control.group, wanted.group)
    }
    var names = keys.map(\.key)
    // Forwards have new times at once; programs that are served keep those of the start.
    if server != nil, other.server != nil {
      let times: [(TunneldOption, Duration, Duration)] = [
        (.connectTimeout, timeouts.connect, other.timeouts.connect),
        (.halfCloseTimeout, timeouts.halfClose, other.timeouts.halfClose),
      ]
      names += times.filter { $0.1 != $0.2 }.map { "\($0.0.key) for \(TunneldOption.usbmuxdSocket.key)" }
    }
    return names
  }
}

extension TransportChoice {
  fileprivate func keysOfDifference(from other: TransportChoice) -> [TunneldOption] {
    switch (self, other) {
    case (.auto(let address), .auto(let wanted)), (.usbmuxd(let address), .usbmuxd(let wanted)):
      return address == wanted ? [] : [.usbmuxd]
    case (.usb, .usb): return []
    case (.simulated(let simulation), .simulated(let wanted)):
      var keys: [TunneldOption] = []
      if simulation.services != wanted.services { keys.append(.simulate) }
      if simulation.devices != wanted.devices { keys.append(.simulatedDevices) }
      return keys
    case (.auto, _), (.usbmuxd, _), (.usb, _), (.simulated, _): return [.transport]
    }
  }
}
