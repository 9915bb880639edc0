// What the device protocol costs for each packet, beside what copying the packet's bytes once costs: measured in one
// run, in turns, with one and with 2,000 open sessions, on one and on 16 devices. Prints a table; fails when a limit is exceeded.

internal import MuxProtocol

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// The wanted limits (docs/PERFORMANCE.md).
let mostCopies = 2.5
let mostGrowth = 1.1

/// Many short rounds: what disturbs one of them disturbs few others, and what is compared with it right beside it.
let rounds = 400
let packetsPerRound = 100

/// Nanoseconds that each of `count` steps takes.
func measure(_ count: Int, _ step: (Int) -> Void) -> Double {
  let start = ContinuousClock.now
  for index in 0..<count { step(index) }
  let (seconds, attoseconds) = (ContinuousClock.now - start).components
  return (Double(seconds) * 1e9 + Double(attoseconds) / 1e9) / Double(count)
}

func median(_ values: [Double]) -> Double {
  let sorted = values.sorted()
  return sorted.isEmpty ? .nan : sorted[sorted.count / 2]
}

/// The median of what each round's value is by the base's value in that round.
func ratio(_ values: [Double], to base: [Double]) -> Double { median(zip(values, base).map { $0 / $1 }) }

/// Packets of one size in one direction, over differently many sessions and devices.
struct Row {
  let isReceived: Bool
  let size: Int
  var oneSession: [Double] = []
  var manySessions: [Double] = []
  var manyDevices: [Double] = []
  var copy: [Double] = []

  func step(_ path: DevicePath) { if isReceived { path.receive(size) } else { path.send(size) } }
}

let pool = PacketPool()
let one = DevicePath(sessions: 1, pool: pool)
let manySessions = DevicePath(sessions: 2000, pool: pool)
let devices = (0..<16).map { _ in DevicePath(sessions: 1, pool: pool) }
var rows = [true, false].flatMap { isReceived in
  [DevicePath.longestPayload, 64].map { Row(isReceived: isReceived, size: $0) }
}

// What is compared takes turns, in every order, and goes through the same memory: in each round through another part
// of it, which nothing has touched since the caches were filled with the rest.
var part = 0
for round in 0..<rounds {
  for index in rows.indices {
    let row = rows[index]
    for turn in 0..<4 {
      part = (part + 1) % PacketPool.parts
      pool.begin(part)
      switch (turn + round / PacketPool.parts) % 4 {
      case 0: rows[index].copy.append(measure(packetsPerRound) { _ in pool.copyNext(row.size) })
      case 1: rows[index].oneSession.append(measure(packetsPerRound) { _ in row.step(one) })
      case 2: rows[index].manySessions.append(measure(packetsPerRound) { _ in row.step(manySessions) })
      default:
        rows[index].manyDevices.append(measure(packetsPerRound) { row.step(devices[$0 % devices.count]) })
      }
    }
  }
  // So that no measurement meets the same part each time.
  part += 1
}

func text(_ value: Double, _ decimals: Int) -> String {
  let scale = decimals == 2 ? 100.0 : 1.0
  let rounded = (value * scale).rounded() / scale
  return decimals == 0 ? String(Int(rounded)) : String(rounded)
}

var fails = false
print("| packet | ns | among 2,000 sessions | among 16 devices | one copy of its bytes, ns | times that |")
print("| --- | --- | --- | --- | --- | --- |")
for row in rows {
  let sessions = ratio(row.manySessions, to: row.oneSession)
  let devices = ratio(row.manyDevices, to: row.oneSession)
  let copies = ratio(row.oneSession, to: row.copy)
  print(
    "| \(row.isReceived ? "received" : "sent"), \(row.size) bytes | \(text(median(row.oneSession), 0)) |"
      + " \(text(sessions, 2)) times | \(text(devices, 2)) times | \(text(median(row.copy), 0)) |"
      + " \(text(copies, 2)) |")
  // Copies of a few bytes take no time, so only long packets have a limit.
  if row.size > 64 && (copies > mostCopies || sessions > mostGrowth || devices > mostGrowth) { fails = true }
}
if fails {
  print(
    "\nA long packet costs more than \(mostCopies) copies, or more than \(mostGrowth) times as much among many."
  )
}
if ([one, manySessions] + devices).contains(where: \.isBroken) {
  fails = true
  print("\nA packet was lost.")
}
exit(fails ? 1 : 0)
