import CUMockdev
import Foundation
import MuxProtocol
import SimulatedPhone

/// How fast the emulated bus and the phone behind it are; the zero value is as fast as this machine can.
///
/// Each direction carries one transfer at a time, at `rate`. The phone has a transfer `turnaround` after its end,
/// and the host is told of an end `interrupt` after it. The directions do not slow each other down, which is so at
/// super speed, and nearly so where one of them carries small messages only.
struct BusSpeed {
  /// Megabytes (of 10^6 bytes) per second; 0: no limit.
  var rate = 0.0
  /// Nanoseconds.
  var turnaround: UInt64 = 0
  var interrupt: UInt64 = 0

  func duration(_ count: Int) -> UInt64 { rate > 0 ? UInt64(Double(count) * 1000 / rate) : 0 }
}

/// Moves the transfers of one device between shared memory and its phone, on a thread of its own.
///
/// Time is that of events, not of the turns in which they are found: that this thread wakes up late once does not
/// make the bus slower.
final class EmulatedBus: @unchecked Sendable {
  private unowned let device: EmulatedDevice
  private let ring: UnsafeMutablePointer<cu_ring_shared>
  private let fifo: Int32
  private let speed: BusSpeed

  private struct Event {
    let time: UInt64
    let item: cu_ring_item
    var status: Int32 = 0
    var length = 0
  }

  /// Reads and packets that wait for the bus.
  private var inputs = Queue<cu_ring_item>()
  private var outputs = Queue<cu_ring_item>()
  /// Until when each direction is busy.
  private var inputFree: UInt64 = 0
  private var outputFree: UInt64 = 0
  /// When what the phone has to send was there.
  private var phoneReady: UInt64 = 0
  /// Packets on their way through the phone, and ends on their way to the host; each in order of time.
  private var arrivals = Queue<Event>()
  private var inputEnds = Queue<Event>()
  private var outputEnds = Queue<Event>()

  init?(_ device: EmulatedDevice, fifo: Int32, speed: BusSpeed) {
    guard let ring = cu_ring_create(fifo) else { return nil }
    self.device = device
    self.ring = ring
    self.fifo = fifo
    self.speed = speed
    Thread.detachNewThread { [self] in serve() }
  }

  // MARK: Calls with the device's lock held

  func reset() {
    cu_ring_reset(ring, fifo)
    inputs = Queue()
    outputs = Queue()
    arrivals = Queue()
    inputEnds = Queue()
    outputEnds = Queue()
  }

  func leave() {
    while let input = inputs.removeFirst() { cu_ring_finish(ring, fifo, input, -Int32(ESHUTDOWN), 0) }
    while let output = outputs.removeFirst() { cu_ring_finish(ring, fifo, output, -Int32(ESHUTDOWN), 0) }
    cu_ring_leave(ring, fifo)
    cu_ring_remove(ring, fifo)
  }

  var bytes: (input: UInt64, output: UInt64) { (ring.pointee.bytes_in, ring.pointee.bytes_out) }

  // MARK: The thread

  private func serve() {
    cu_wait_exactly()
    var deadline = UInt64.max
    while true {
      var item = cu_ring_item()
      let isThere = cu_ring_take(ring, deadline, &item) == 0
      device.lock.lock()
      if isThere { take(item) }
      deadline = run(until: cu_now())
      device.lock.unlock()
    }
  }

  private func take(_ item: cu_ring_item) {
    switch Int(item.kind) {
    case Int(CU_RING_CONTROL.rawValue): control(item)
    case Int(CU_RING_DISCARD.rawValue): discard(item.address)
    default:
      guard !device.claimed.isEmpty else {
        device.count("unclaimed")
        return cu_ring_finish(ring, fifo, item, -Int32(EINVAL), 0)
      }
      if item.endpoint == DeviceDescription.input { inputs.append(item) } else { outputs.append(item) }
    }
  }

  private func control(_ item: cu_ring_item) {
    guard let data = cu_ring_data(ring, item.slot), item.length >= 8 else { return }
    let setup = [UInt8](UnsafeRawBufferPointer(start: data, count: 8))
    device.count("control-\(String(setup[1], radix: 16))")
    guard let answer = device.answer(setup)?.prefix(Int(item.length) - 8) else {
      return cu_ring_finish(ring, fifo, item, -Int32(EPIPE), 0)
    }
    answer.withUnsafeBytes { bytes in
      if let start = bytes.baseAddress { (data + 8).copyMemory(from: start, byteCount: bytes.count) }
    }
    cu_ring_finish(ring, fifo, item, 0, UInt32(answer.count))
  }

  private func discard(_ address: UInt64) {
    if let found = inputs.remove(where: { $0.address == address }) {
      cu_ring_finish(ring, fifo, found, -Int32(ENOENT), 0)
    } else if let found = outputs.remove(where: { $0.address == address }) {
      cu_ring_free(ring, found.slot)
      cu_ring_finish(ring, fifo, found, -Int32(ENOENT), 0)
    }
  }

  /// Does what is due, and returns when something is again.
  private func run(until now: UInt64) -> UInt64 {
    while true {
      var next = UInt64.max
      if let output = outputs.first {
        let start = max(output.time, outputFree)
        if start <= now {
          send(output, at: start)
          continue
        }
        next = min(next, start)
      }
      if let arrival = arrivals.first {
        if arrival.time <= now {
          arrivals.removeFirst()
          receive(arrival)
          continue
        }
        next = min(next, arrival.time)
      }
      if let input = inputs.first, device.phone.hasTransfers {
        let start = max(input.time, inputFree, phoneReady)
        if start <= now {
          if fill(input, at: start) { continue }
        } else {
          next = min(next, start)
        }
      }
      if let end = outputEnds.first {
        if end.time <= now {
          outputEnds.removeFirst()
          cu_ring_finish(ring, fifo, end.item, end.status, UInt32(end.length))
          continue
        }
        next = min(next, end.time)
      }
      if let end = inputEnds.first {
        if end.time <= now {
          inputEnds.removeFirst()
          cu_ring_finish(ring, fifo, end.item, end.status, UInt32(end.length))
          continue
        }
        next = min(next, end.time)
      }
      return next
    }
  }

  /// A packet goes over the bus.
  private func send(_ item: cu_ring_item, at start: UInt64) {
    outputs.removeFirst()
    let end = start + speed.duration(Int(item.length))
    outputFree = end
    device.count("out")
    if item.length == 0 { device.count("zero-length") }
    arrivals.append(Event(time: end + speed.turnaround, item: item))
    outputEnds.append(Event(time: end + speed.interrupt, item: item, length: Int(item.length)))
  }

  /// A packet reaches the phone's multiplexer.
  private func receive(_ arrival: Event) {
    let item = arrival.item
    let hadSome = device.phone.hasTransfers
    let bytes = UnsafeRawBufferPointer(start: cu_ring_data(ring, item.slot), count: Int(item.length))
    device.phone.receive(Span<UInt8>(_unsafeBytes: bytes))
    if item.needs_zero_packet != 0, item.length > 0,
      Int(item.length) % Int(device.description.packetSize) == 0
    {
      device.phone.receive([UInt8]().span)
    }
    cu_ring_free(ring, item.slot)
    if !hadSome { phoneReady = arrival.time }
  }

  /// The phone fills a read.
  private func fill(_ item: cu_ring_item, at start: UInt64) -> Bool {
    let room = UnsafeMutableRawBufferPointer(start: cu_ring_data(ring, item.slot), count: Int(item.length))
    var output = OutputSpan<UInt8>(buffer: room.bindMemory(to: UInt8.self), initializedCount: 0)
    guard device.phone.nextTransfer(into: &output) else { return false }
    inputs.removeFirst()
    device.count("in")
    let end = start + speed.duration(output.count)
    inputFree = end
    inputEnds.append(Event(time: end + speed.interrupt, item: item, length: output.count))
    return true
  }
}

/// First in, first out, without moving what waits.
struct Queue<Element> {
  private var elements: [Element] = []
  private var taken = 0

  var first: Element? { taken < elements.count ? elements[taken] : nil }

  mutating func append(_ element: Element) { elements.append(element) }

  @discardableResult
  mutating func removeFirst() -> Element? {
    guard taken < elements.count else { return nil }
    let element = elements[taken]
    taken += 1
    if taken == elements.count {
      elements.removeAll(keepingCapacity: true)
      taken = 0
    } else if taken == 256 {
      elements.removeFirst(taken)
      taken = 0
    }
    return element
  }

  mutating func remove(where matches: (Element) -> Bool) -> Element? {
    guard let index = elements[taken...].firstIndex(where: matches) else { return nil }
    return elements.remove(at: index)
  }
}
