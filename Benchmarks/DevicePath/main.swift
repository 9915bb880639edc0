// What the device protocol costs for each packet, beside what copying the packet's bytes once costs: measured in one
// run, in turns, with one and with 2,000 open sessions. Prints a table; fails when a limit is exceeded.

internal import MuxProtocol

#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Darwin)
  internal import Darwin
#endif

/// The wanted limits (docs/PERFORMANCE.md).
let mostCopies = 2.5
let mostGrowth = 1.1

let rounds = 60
let packetsPerRound = 2000

/// Nanoseconds that each of `count` steps takes.
func measure(_ count: Int, _ step: () -> Void) -> Double {
  let start = ContinuousClock.now
  for _ in 0..<count { step() }
  let (seconds, attoseconds) = (ContinuousClock.now - start).components
  return (Double(seconds) * 1e9 + Double(attoseconds) / 1e9) / Double(count)
}

/// A round that nothing disturbed is the fastest one.
struct Best {
  var value = Double.infinity
  mutating func take(_ new: Double) { value = min(value, new) }
}

var copy = Best()
var copySmall = Best()
let pool = PacketPool()
let sizes = [DevicePath.longestPayload, 64]
let counts = [1, 2000]
var receiving = [[Best]](repeating: [Best(), Best()], count: 2)
var sending = [[Best]](repeating: [Best(), Best()], count: 2)
let paths = counts.map { DevicePath(sessions: $0, pool: pool) }

for _ in 0..<rounds {
  copy.take(measure(packetsPerRound) { pool.copyNext(DevicePath.longestPayload) })
  copySmall.take(measure(packetsPerRound) { pool.copyNext(64) })
  for path in paths.indices {
    for (index, size) in sizes.enumerated() {
      receiving[index][path].take(measure(packetsPerRound) { paths[path].receive(size) })
      sending[index][path].take(measure(packetsPerRound) { paths[path].send(size) })
    }
  }
}

func text(_ value: Double, _ decimals: Int) -> String {
  let scale = decimals == 2 ? 100.0 : 1.0
  let rounded = (value * scale).rounded() / scale
  return decimals == 0 ? String(Int(rounded)) : String(rounded)
}

var fails = false
print("| packet | ns, 1 session | ns, 2,000 sessions | growth | one copy of its bytes, ns | times that |")
print("| --- | --- | --- | --- | --- | --- |")
for (name, results) in [("received", receiving), ("sent", sending)] {
  for (index, size) in sizes.enumerated() {
    let (one, many) = (results[index][0].value, results[index][1].value)
    let plain = index == 0 ? copy.value : copySmall.value
    print(
      "| \(name), \(size) bytes | \(text(one, 0)) | \(text(many, 0)) | \(text(many / one, 2)) |"
        + " \(text(plain, 0)) | \(text(one / plain, 2)) |")
    // Copies of a few bytes take no time, so only long packets have a limit.
    if index == 0 && (one / plain > mostCopies || many / one > mostGrowth) { fails = true }
  }
}
if fails {
  print(
    "\nA long packet costs more than \(mostCopies) copies, or more than \(mostGrowth) times as much among 2,000."
  )
}
if paths.contains(where: \.isBroken) {
  fails = true
  print("\nA packet was lost.")
}
exit(fails ? 1 : 0)
