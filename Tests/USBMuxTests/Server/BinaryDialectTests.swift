import Foundation
import MuxProtocol
import Testing

@testable import USBMux

/// Version 0: fixed layouts, little-endian.
@Suite("The server speaks version 0")
struct BinaryDialectTests {
  private func header(length: Int, message: UInt32, tag: UInt32) -> [UInt8] {
    [UInt32(length), 0, message, tag].flatMap(MuxClient.littleEndian)
  }

  private func add(_ id: UInt32, _ serial: String) -> [UInt8] {
    let name = Array(serial.utf8)
    return header(length: 284, message: 4, tag: 0)
      + MuxClient.littleEndian(id)  // device id
      + MuxClient.littleEndian(UInt16(0x12A8))  // product
      + name + [UInt8](repeating: 0, count: 256 - name.count)  // serial
      + [0, 0]  // zero
      + MuxClient.littleEndian(UInt32(0x1_0002))  // location
  }

  @Test("Listen: Result and device add; then device remove")
  func listen() throws {
    let harness = try ServerHarness(devices: [.network(5), .usb(1)])
    let client = try harness.client()
    try client.send(header(length: 16, message: 3, tag: 9))
    let result = header(length: 20, message: 1, tag: 9) + [0, 0, 0, 0]
    // The phone on the network has the first id and no entry.
    #expect(try client.receive(exactly: 20 + 284) == result + add(2, "00008110-000000C0FFEE0001"))
    // The network has no words here: neither its coming nor its going is told.
    harness.detach(5)
    harness.attach(.network(6))
    harness.detach(1)
    let remove = header(length: 20, message: 5, tag: 0) + MuxClient.littleEndian(UInt32(2))
    #expect(try client.receive(exactly: 20) == remove)
    #expect(
      try harness.client().result("SavePairRecord", ["PairRecordID": "a", "PairRecordData": Data()]) == 0)
    harness.attach(.usb(1, "ABC"))
    #expect(try client.receive(exactly: 284) == add(4, "ABC"))
    // And a further command ends it.
    try client.send(header(length: 16, message: 3, tag: 1))
    #expect(try client.receiveAll() == header(length: 20, message: 1, tag: 1) + [1, 0, 0, 0])
  }

  @Test("Connect: device id, port in network order")
  func connect() throws {
    let harness = try ServerHarness(devices: [.usb(30)])
    let client = try harness.client()
    let refused = header(length: 24, message: 2, tag: 1) + [7, 0, 0, 0] + [0x1F, 0xA4] + [0, 0]
    try client.send(refused)
    #expect(try client.receive(exactly: 20) == header(length: 20, message: 1, tag: 1) + [2, 0, 0, 0])
    try client.send(
      header(length: 24, message: 2, tag: 2) + [1, 0, 0, 0] + [0x1F, 0xA4] + [0, 0] + [1, 2, 3])
    #expect(try client.receive(exactly: 20) == header(length: 20, message: 1, tag: 2) + [0, 0, 0, 0])
    #expect(try harness.transport.farEnd().receive(exactly: 3) == [1, 2, 3])
    #expect(harness.onLoop { harness.transport.opened.map(\.port) } == [8100])
  }

  @Test("Messages that are no requests, and bodies that are too short: Result 1")
  func bad() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    for (message, body) in [(1, [0, 0, 0, 0]), (4, []), (99, []), (2, []), (2, [1, 0, 0, 0, 1])]
      as [(UInt32, [UInt8])]
    {
      try client.send(MuxClient.frame(version: 0, message: message, tag: 3, body))
      #expect(try client.receive(exactly: 20) == header(length: 20, message: 1, tag: 3) + [1, 0, 0, 0])
    }
  }
}
