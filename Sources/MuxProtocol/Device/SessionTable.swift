/// The sessions of a link, found by name or by host port in constant time.
struct SessionTable: Sendable {
  private let limit: Int
  private var sessions = ContiguousArray<Session>()
  private var vacant = ContiguousArray<UInt16>()
  /// Index of a session plus one at the low bits of its host port, or zero.
  ///
  /// Ports are handed out in such a way that no two sessions share those bits: one look decides, and
  /// the table takes two bytes for each session that may exist.
  private var places: ContiguousArray<UInt16>
  private let mask: UInt16
  private var nextPort: UInt16
  private var nextSerial: UInt32 = 0
  private(set) var count = 0

  /// A table for up to `limit` sessions, at most 32768.
  init(limit: Int, firstPort: UInt16) {
    self.limit = limit
    var size = 1
    while size < limit { size *= 2 }
    places = ContiguousArray(repeating: 0, count: size)
    mask = UInt16(truncatingIfNeeded: size - 1)
    nextPort = firstPort
  }

  /// Makes a session, with a host port that no session has and that was not in use lately: the search
  /// goes up from the last one and comes round after 65535.
  mutating func add(devicePort: UInt16) throws(LinkError) -> Int {
    guard count < limit else { throw .tooManySessions(limit: limit) }
    // As there are fewer sessions than places, a vacant place comes up within one round of the table.
    // Port 0 is none, hence the one more.
    for _ in 0...places.count {
      let port = nextPort
      nextPort &+= 1
      let place = Int(port & mask)
      guard port != 0, places[place] == 0 else { continue }
      return insert(hostPort: port, devicePort: devicePort, place: place)
    }
    throw .tooManySessions(limit: limit)
  }

  private mutating func insert(hostPort: UInt16, devicePort: UInt16, place: Int) -> Int {
    let serial = nextSerial
    nextSerial &+= 1
    count += 1
    let index = vacant.popLast() ?? UInt16(truncatingIfNeeded: sessions.count)
    let session = Session(
      id: SessionID(index: index, hostPort: hostPort, serial: serial), devicePort: devicePort)
    places[place] = index + 1
    if Int(index) < sessions.count {
      sessions[Int(index)] = session
    } else {
      sessions.append(session)
    }
    return Int(index)
  }

  /// Gives up a closed session's port and index.
  mutating func remove(_ index: Int) {
    let place = Int(sessions[index].id.hostPort & mask)
    guard places[place] == UInt16(truncatingIfNeeded: index + 1) else { return }
    sessions[index].closed()
    places[place] = 0
    vacant.append(UInt16(truncatingIfNeeded: index))
    count -= 1
  }

  mutating func removeAll() {
    for index in sessions.indices { remove(index) }
  }

  /// The index of the session with this name if it has not been removed.
  func index(of id: SessionID) -> Int? {
    let index = Int(id.index)
    guard index < sessions.count, sessions[index].id == id, sessions[index].state != .closed else {
      return nil
    }
    return index
  }

  /// The index of the session with this pair of ports.
  func index(hostPort: UInt16, devicePort: UInt16) -> Int? {
    let place = places[Int(hostPort & mask)]
    guard place != 0 else { return nil }
    let index = Int(place) - 1
    guard sessions[index].id.hostPort == hostPort, sessions[index].devicePort == devicePort else {
      return nil
    }
    return index
  }

  /// Whether the session with this name can carry payload.
  func isOpen(_ id: SessionID) -> Bool {
    guard let index = index(of: id) else { return false }
    switch sessions[index].state {
    case .open: return true
    case .connecting, .ended, .closing, .closed: return false
    }
  }

  subscript(_ index: Int) -> Session {
    _read { yield sessions[index] }
    _modify { yield &sessions[index] }
  }
}
