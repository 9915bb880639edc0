import MuxProtocol
import SimulatedPhone
import Testing

/// The simulated phone must catch what a host does wrong, or its silence proves nothing.
@Suite("What a simulated phone objects to")
struct ViolationTests {
  /// A phone whose port 5000 is open, with one session from host port 1000.
  private final class Rig {
    var phone: PhoneLink
    var number: UInt16 = 0
    var session: PhoneSessionID?

    init(_ behaviour: PhoneBehaviour = PhoneBehaviour()) {
      phone = PhoneLink(behaviour: behaviour)
    }

    var violations: [HostViolation] { phone.violations.first }

    func receive(_ packet: [UInt8]) {
      phone.receive(packet.stored.span)
      drain()
    }

    /// Lets the phone send everything it has to send.
    func drain() {
      var bytes: [UInt8] = []
      repeat {
        bytes = []
        bytes.append(addingCapacity: 16384) { output in
          _ = phone.nextTransfer(into: &output)
        }
      } while !bytes.isEmpty
    }

    func start() {
      receive(DeviceSide.version(2))
      receive(DeviceSide.long(2, [7], number: 0, received: 0xffff))
      number = 1
    }

    func segment(
      sequence: UInt32, ack: UInt32, _ flags: UInt8, window: UInt16 = 512, _ payload: [UInt8] = [],
      received: UInt16 = 0xffff
    ) {
      let body = DeviceSide.segment(
        from: 1000, to: 5000, sequence: sequence, ack: ack, flags, window: window, payload)
      defer { number &+= 1 }
      receive(DeviceSide.long(6, body, number: number, received: received))
    }

    func open() {
      start()
      segment(sequence: 0, ack: 0, DeviceSide.syn)
      while let event = phone.nextEvent() {
        guard case .opening(let id, port: 5000) = event else { continue }
        session = id
        phone.accept(id)
      }
      drain()
      segment(sequence: 1, ack: 1, DeviceSide.ack)
    }
  }

  @Test("a host that keeps the rules is not objected to")
  func clean() {
    let rig = Rig()
    rig.open()
    rig.segment(sequence: 1, ack: 1, DeviceSide.ack, [1, 2, 3])
    rig.segment(sequence: 4, ack: 1, DeviceSide.rst)
    #expect(rig.violations == [])
    #expect(rig.phone.sessionCount == 0)
  }

  @Test("traffic before VERSION and SETUP")
  func beforeSetup() {
    let rig = Rig()
    rig.segment(sequence: 0, ack: 0, DeviceSide.syn)
    rig.receive(DeviceSide.long(2, [7], number: 0, received: 0xffff))
    rig.receive(DeviceSide.version(2))
    rig.segment(sequence: 0, ack: 0, DeviceSide.syn)
    #expect(
      rig.violations == [
        .trafficBeforeSetup(content: 6), .trafficBeforeSetup(content: 2), .trafficBeforeSetup(content: 6),
      ])
  }

  @Test("malformed VERSION and SETUP")
  func malformedStart() {
    let rig = Rig()
    rig.receive(DeviceSide.version(1))
    rig.receive(DeviceSide.short(0, [0, 0, 0, 2]))
    rig.receive(DeviceSide.version(2))
    rig.receive(DeviceSide.long(2, [8], number: 0, received: 0xffff))
    rig.receive(DeviceSide.long(2, [], number: 0, received: 0xffff))
    #expect(rig.violations == [.malformedVersion, .malformedVersion, .malformedSetup, .malformedSetup])
  }

  @Test("lengths, magic and kinds")
  func packets() {
    let rig = Rig()
    rig.start()
    rig.receive([0, 0, 0])
    rig.receive(DeviceSide.long(6, [], number: 1, length: 17))
    rig.receive(DeviceSide.long(6, [], number: 1, magic: 0xfeed_face + 1))
    rig.receive(DeviceSide.long(1, [3], number: 1))
    rig.receive(DeviceSide.long(6, [1, 2, 3], number: 1, received: 0xffff))
    #expect(
      rig.violations == [
        .wrongLength(field: 0, transfer: 3), .wrongLength(field: 17, transfer: 16),
        .wrongMagic(0xfeed_facf), .unknownContent(1), .malformedSegment,
      ])
  }

  @Test("packet numbers")
  func numbers() {
    let rig = Rig()
    rig.open()
    rig.number += 1
    rig.segment(sequence: 1, ack: 1, DeviceSide.ack)
    rig.segment(sequence: 1, ack: 1, DeviceSide.ack, received: 0)
    rig.segment(sequence: 1, ack: 1, DeviceSide.ack, received: 1)
    rig.segment(sequence: 1, ack: 1, DeviceSide.ack, received: 0xffff)
    #expect(
      rig.violations == [
        .wrongPacketNumber(expected: 3, found: 4), .wrongReceivedNumber(1), .wrongReceivedNumber(0xffff),
      ])
  }

  @Test("SYN with numbers, window and payload that it must not have")
  func syn() {
    let rig = Rig()
    rig.start()
    rig.segment(sequence: 1, ack: 0, DeviceSide.syn)
    rig.segment(sequence: 0, ack: 1, DeviceSide.syn)
    rig.segment(sequence: 0, ack: 0, DeviceSide.syn, [1])
    #expect(rig.violations == [.malformedSYN, .malformedSYN, .malformedSYN])
  }

  @Test("a pair of ports that is in use, and segments before SYN|ACK")
  func early() {
    let rig = Rig()
    rig.start()
    rig.segment(sequence: 0, ack: 0, DeviceSide.syn)
    rig.segment(sequence: 0, ack: 0, DeviceSide.syn)
    rig.segment(sequence: 1, ack: 0, DeviceSide.ack, [1])
    #expect(rig.violations == [.portInUse(hostPort: 1000), .unexpectedFlags(.ack)])
  }

  @Test("FIN, and other flags that hosts do not use")
  func flags() {
    let rig = Rig()
    rig.open()
    rig.segment(sequence: 1, ack: 1, DeviceSide.fin | DeviceSide.ack)
    rig.segment(sequence: 1, ack: 1, 0)
    #expect(rig.violations == [.unexpectedFlags([.fin, .ack]), .unexpectedFlags([])])
  }

  @Test("sequence, acknowledgement and window")
  func segments() {
    let rig = Rig()
    rig.open()
    rig.segment(sequence: 2, ack: 1, DeviceSide.ack, [1])
    rig.segment(sequence: 1, ack: 2, DeviceSide.ack)
    rig.segment(sequence: 1, ack: 0, DeviceSide.ack)
    rig.segment(sequence: 1, ack: 1, DeviceSide.ack, window: 511)
    rig.segment(sequence: 7, ack: 1, DeviceSide.rst)
    #expect(
      rig.violations == [
        .wrongSequence(expected: 1, found: 2), .acknowledgedUnsent(by: 1), .acknowledgedLess(by: 1),
        .windowShrunk(by: 256), .wrongSequence(expected: 1, found: 7),
      ])
  }

  @Test("data beyond the window", arguments: [1023, 1024, 1025])
  func overrun(count: Int) {
    var behaviour = PhoneBehaviour()
    behaviour.window = 1024
    let rig = Rig(behaviour)
    rig.open()
    rig.segment(sequence: 1, ack: 1, DeviceSide.ack, testBytes(count))
    #expect(rig.violations == (count > 1024 ? [.windowOverrun(by: 1)] : []))
  }

  @Test("all violations are counted, the first are kept")
  func bounded() {
    let rig = Rig()
    for _ in 0..<100 { rig.receive([1]) }
    #expect(rig.phone.violations.count == 100)
    #expect(rig.violations.count == ViolationLog.limit)
  }

  @Test("random transfers never trap", arguments: 0..<32 as Range<UInt64>)
  func chaos(seed: UInt64) {
    var random = SplitMix64(seed: seed)
    let rig = Rig()
    rig.open()
    for _ in 0..<300 {
      var body = DeviceSide.segment(
        from: 1000, to: 5000, sequence: [0, 1, 2, .max].randomElement(using: &random) ?? 0,
        ack: [0, 1, 2, .max].randomElement(using: &random) ?? 0, UInt8.random(in: 0...31, using: &random),
        testBytes(Int.random(in: 0..<500, using: &random)))
      if Bool.random(using: &random) { body.removeLast(Int.random(in: 0...body.count, using: &random)) }
      let content: UInt32 = [0, 1, 2, 6, 6, 6, 6, 9].randomElement(using: &random) ?? 6
      rig.receive(DeviceSide.long(content, body, number: UInt16.random(in: 0...9, using: &random)))
    }
  }
}
