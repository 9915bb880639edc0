import EventLoop
import JSON
import USBMux

/// Answers what is asked over the control socket. The protocol is in docs/CONTROL.md.
final class ControlService: ControlSocketHandler {
  private unowned let daemon: Daemon
  private var socket: ControlSocket?

  /// Listens from now on, on the daemon's loop.
  init(_ options: ControlOptions, for daemon: isolated Daemon) throws(MuxError) {
    self.daemon = daemon
    socket = try ControlSocket(
      options.path, options: ControlSocket.Options(mode: options.mode, group: options.group),
      on: daemon.loop, handler: self)
  }

  var path: String? { socket?.path }

  func close() {
    socket?.close()
    socket = nil
  }

  func received(_ line: [UInt8], from client: UInt64) {
    daemon.assumeIsolated { daemon in
      _ = Task {
        let reply = await daemon.answer(line, from: client)
        daemon.reply(reply, to: client)
      }
    }
  }

  func reply(_ line: String, to client: UInt64) { socket?.reply(line, to: client) }

  func left(_ client: UInt64) {
    daemon.assumeIsolated { daemon in
      _ = Task { await daemon.serially { await $0.endLease(of: client) } }
    }
  }

  func denied(user: UInt32?) {
    daemon.assumeIsolated {
      $0.sink.write(
        .warning,
        "\(user.map { "user \($0)" } ?? "somebody") was turned away from the control socket: it is for its "
          + "owner and group")
    }
  }
}

extension Daemon {
  /// The answer to a line, which is a line too.
  func answer(_ line: [UInt8], from client: UInt64) async -> String {
    let request: ControlRequest
    do throws(ControlError) {
      request = try ControlRequest(line: line.span)
    } catch {
      return error.reply()
    }
    do throws(ControlError) {
      let result = try await perform(request, from: client)
      return request.reply(result)
    } catch {
      return error.with(request.identifier).reply()
    }
  }

  private func perform(_ request: ControlRequest, from client: UInt64) async throws(ControlError) -> JSONValue
  {
    switch request.command {
    case .status:
      try request.allow([])
      return await status()
    case .devices:
      try request.allow([])
      return .object(of: ["devices": StatusReport.devices(await mux.status())])
    case .forwards:
      try request.allow([])
      return .object(of: ["forwards": StatusReport.forwards(entries, options, await mux.status())])
    case .reload:
      try request.allow([])
      return try await serially { daemon -> Result<JSONValue, ControlError> in
        do throws(UsageError) {
          return .success(try await daemon.reload().json)
        } catch {
          return .failure(ControlError(.invalidConfiguration, error.description))
        }
      }.get()
    case .add:
      let options = try request.forward()
      let lease = try request.boolean("lease") == true ? client : nil
      return try await serially { await $0.add(options, lease: lease) }.get()
    case .remove:
      try request.allow(["forward"])
      let target = try request.string("forward")
      return try await serially { await $0.remove(target) }.get()
    case .removeAll:
      try request.allow(["udid"])
      let text = try request.string("udid")
      guard let udid = try? UDIDPrefix(parsing: text) else {
        throw ControlError(.badRequest, "\(text.quoted) is no UDID")
      }
      return await serially { await $0.removeAll(of: udid) }
    }
  }

  private func status() async -> JSONValue {
    let mux = await mux.status()
    return StatusReport.status(
      mux, entries, options, uptime: loop.now - start, dropped: sink.dropped, problem: reloadProblem,
      capture: capture?.status)
  }

  private func add(_ options: ForwardOptions, lease: UInt64?) async -> Result<JSONValue, ControlError> {
    if let name = options.name, let other = entries.first(where: { $0.options.name == name }) {
      return .failure(ControlError(.exists, "forward \(other.number) has the name \(name) already"))
    }
    let entry = makeEntry(options, from: .control(lease: lease))
    do throws(MuxError) {
      try await bind(entry)
    } catch {
      // Who asks is told, and may ask again.
      await remove(entry)
      return .failure(ControlError(.cannotListen, "\(error)"))
    }
    return .success(.object(of: ["forward": ReadyText.object(entry, self.options)]))
  }

  private func remove(_ target: String) async -> Result<JSONValue, ControlError> {
    let meant = entries.filter { $0.isMeant(by: target) }
    guard let entry = meant.first else {
      return .failure(ControlError(.notFound, "there is no forward \(target.quoted)"))
    }
    guard meant.count == 1 else {
      return .failure(ControlError(.badRequest, "\(target.quoted) means several forwards: name its number"))
    }
    await remove(entry)
    return .success(.object(of: ["removed": .array([.count(entry.number)])]))
  }

  /// All forwards that name this phone and no other.
  private func removeAll(of udid: UDIDPrefix) async -> JSONValue {
    let meant = entries.filter { entry in
      guard case .udid(let own) = entry.options.settings.device ?? options.device else { return false }
      return own.overlaps(udid)
    }
    for entry in meant { await remove(entry) }
    return .object(of: ["removed": .array(meant.map { .count($0.number) })])
  }

  func endLease(of client: UInt64) async {
    for entry in entries where entry.origin == .control(lease: client) {
      sink.write(.notice, "forward \(entry.title) goes with the program that had it added")
      await remove(entry)
    }
  }
}

extension ReloadReport {
  var json: JSONValue {
    .object(of: [
      "added": .integer(Int64(added)), "removed": .integer(Int64(removed)),
      "changed": .integer(Int64(changed)), "unchanged": .integer(Int64(unchanged)),
      "failed": .array(failed.map(JSONValue.string)),
      "need_restart": .array(needRestart.map(JSONValue.string)),
    ])
  }
}
