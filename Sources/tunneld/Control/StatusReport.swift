import EventLoop
import JSON
import USBMux

#if canImport(Glibc)
  import Glibc
#elseif canImport(Darwin)
  import Darwin
#endif

/// The state of a running tunneld as JSON.
enum StatusReport {
  static func status(
    _ mux: MuxStatus, _ entries: [ForwardEntry], _ options: RunOptions, uptime: Int64, dropped: UInt64,
    problem: String?, capture: Capture.Status?
  ) -> JSONValue {
    .object(of: [
      "version": .string(ProgramVersion.number), "pid": .integer(Int64(getpid())),
      "uptime": seconds(uptime),
      "configuration": options.configuration.map {
        .object(of: ["path": .string($0), "problem": problem.map(JSONValue.string)])
      },
      "transport_problem": mux.failure.map {
        .object(of: ["kind": .string($0.kind.rawValue), "message": .string("\($0)")])
      },
      "devices": devices(mux), "forwards": forwards(entries, options, mux),
      "connections": .array(mux.connections.map { connection($0, entries) }),
      "programs": .integer(Int64(mux.programs)), "counters": counters(mux, dropped),
      "capture": capture.map(Self.capture), "loops": .array(mux.loops.map(loop)),
    ])
  }

  static func devices(_ mux: MuxStatus) -> JSONValue {
    .array(
      mux.devices.map { status in
        let device = status.device
        let open = mux.connections.filter { $0.udid == device.udid && $0.state == .open }.count
        var members: [JSONValue.Member] = [
          JSONValue.Member("udid", .string("\(device.udid)")),
          JSONValue.Member("id", .integer(Int64(device.id.rawValue))),
          JSONValue.Member("connection", .string(device.isUSB ? "usb" : "network")),
          JSONValue.Member("transport", .string(status.transport)),
        ]
        switch device.connection {
        case .usb(let speed, let location, let product):
          members += [
            JSONValue.Member("speed", .count(speed)), JSONValue.Member("location", .integer(Int64(location))),
            JSONValue.Member("product", .integer(Int64(product))),
          ]
        case .network(let address?): members.append(JSONValue.Member("address", .string("\(address)")))
        case .network(nil): break
        }
        if let version = status.linkVersion {
          members.append(JSONValue.Member("link_version", .integer(Int64(version))))
        }
        members.append(JSONValue.Member("connections", .integer(Int64(open))))
        return .object(members)
      })
  }

  static func forwards(_ entries: [ForwardEntry], _ options: RunOptions, _ mux: MuxStatus) -> JSONValue {
    .array(
      entries.map { entry in
        guard case .object(var members) = ReadyText.object(entry, options) else { return .null }
        let counts = entry.forward.flatMap { mux.forwards[$0.identifier] } ?? MuxStatus.ForwardCounts()
        members += [
          JSONValue.Member("connections", .integer(Int64(counts.open))),
          JSONValue.Member("accepted", .count(counts.accepted)),
        ]
        if case .control(.some) = entry.origin { members.append(JSONValue.Member("lease", true)) }
        return .object(members)
      })
  }

  private static func connection(
    _ status: MuxStatus.ConnectionStatus, _ entries: [ForwardEntry]
  ) -> JSONValue {
    let forward = status.forward.flatMap { number in entries.first { $0.forward?.identifier == number } }
    return .object(of: [
      "id": .count(status.identifier), "forward": forward.map { .count($0.number) },
      "udid": status.udid.map { .string("\($0)") }, "port": .integer(Int64(status.port.number)),
      "state": .string(status.state.rawValue), "age": seconds(status.age.loopNanoseconds),
      "sent": .count(status.sent), "received": .count(status.received),
    ])
  }

  private static func counters(_ mux: MuxStatus, _ dropped: UInt64) -> JSONValue {
    let statistics = mux.statistics
    return .object(of: [
      "accepted": .count(statistics.accepted), "opened": .count(statistics.opened),
      "refusals": .count(statistics.refusals), "resets": .count(statistics.resets),
      "errors": .object(
        MuxError.Kind.allCases.compactMap { kind in
          statistics.failures[kind].map { JSONValue.Member(kind.rawValue, .count($0)) }
        }),
      "ends": .object(
        Statistics.End.allCases.compactMap { end in
          statistics.ends[end].map { JSONValue.Member(end.rawValue, .count($0)) }
        }),
      "sent": .count(mux.sent), "received": .count(mux.received), "log_lines_dropped": .count(dropped),
    ])
  }

  private static func capture(_ capture: Capture.Status) -> JSONValue {
    .object(of: [
      "path": .string(capture.path), "packets": .count(capture.packets), "bytes": .count(capture.bytes),
      "dropped_packets": .count(capture.droppedPackets), "dropped_bytes": .count(capture.droppedBytes),
      "problem": capture.problem.map(JSONValue.string),
    ])
  }

  private static func loop(_ loop: MuxStatus.Loop) -> JSONValue {
    let turns = loop.turns
    return .object(of: [
      "name": .string(loop.name), "turns": .count(turns.count), "busy": seconds(Int64(clamping: turns.total)),
      "median": .number(turns.quantile(0.5)), "p99": .number(turns.quantile(0.99)),
      "longest": seconds(Int64(clamping: turns.longest)),
      "buckets": .array(
        turns.buckets.enumerated().map { bucket, count in
          .array([TurnTimes.bound(bucket).map(JSONValue.number) ?? .null, .count(count)])
        }),
    ])
  }

  /// Microseconds are exact enough.
  private static func seconds(_ nanoseconds: Int64) -> JSONValue {
    .number(Double(nanoseconds / 1000) / 1e6)
  }
}

extension Duration {
  fileprivate var loopNanoseconds: Int64 {
    let parts = components
    return parts.seconds.multipliedReportingOverflow(by: 1_000_000_000).partialValue
      &+ parts.attoseconds / 1_000_000_000
  }
}
