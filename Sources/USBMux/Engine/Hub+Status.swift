internal import EventLoop

extension Hub {
  /// How things are. What the worker's relays have delivered is the worker's to tell.
  func status(worker: BulkWorker.Snapshot?) -> MuxStatus {
    let now = loop.now
    let moved = worker?.delivered ?? [:]
    var open = connections.values.compactMap { $0.status(at: now, moved) }
    open += servers.values.flatMap { $0.connections(at: now, moved) }
    var loops = [MuxStatus.Loop(name: "main", turns: loop.turns)]
    if let worker { loops.append(MuxStatus.Loop(name: "bulk", turns: worker.turns)) }
    return MuxStatus(
      devices: transport.devices.map { device in
        let link = transport.link(of: device)
        return MuxStatus.DeviceStatus(device: device, transport: link.transport, linkVersion: link.version)
      },
      failure: transport.failure,
      connections: open.sorted { $0.identifier < $1.identifier },
      forwards: forwards.mapValues {
        MuxStatus.ForwardCounts(open: $0.connectionCount, accepted: $0.acceptedCount)
      },
      programs: servers.values.reduce(0) { $0 + $1.clientCount },
      statistics: statistics,
      loops: loops)
  }
}

/// Bytes that relays on the worker's thread have delivered, by connection.
typealias MovedBytes = [UInt64: (sent: UInt64, received: UInt64)]

/// How a device is reached.
struct LinkStatus {
  /// The transport's name.
  let transport: String
  /// The version of the device protocol; nil where a daemon speaks it.
  var version: Int?
}
