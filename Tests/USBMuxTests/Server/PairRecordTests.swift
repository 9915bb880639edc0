import Foundation
import MuxProtocol
import Testing

@testable import USBMux

@Suite("The server keeps pair records")
struct PairRecordTests {
  static let udid = "00008110-000000C0FFEE0001"

  private func mode(_ path: String) -> UInt16 {
    var status = stat()
    return lstat(path, &status) == 0 ? UInt16(status.st_mode & 0o7777) : 0
  }

  private func files(_ harness: ServerHarness) -> [String] {
    ((try? FileManager.default.contentsOfDirectory(atPath: harness.lockdown)) ?? []).sorted()
  }

  @Test("Save, read, replace, delete; 0600 in 0700; nothing else is left behind")
  func records() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    let name: [String: Any] = ["PairRecordID": Self.udid]
    #expect(try client.result("ReadPairRecord", name) == 2)
    #expect(try client.result("DeletePairRecord", name) == 2)
    for record in [Data([0, 1, 2, 0xFF]), Data("<plist/>".utf8), Data()] {
      #expect(try client.result("SavePairRecord", name.merging(["PairRecordData": record]) { $1 }) == 0)
      #expect(try client.ask("ReadPairRecord", name).dictionary["PairRecordData"] as? Data == record)
      #expect(files(harness) == ["\(Self.udid).plist"])
      #expect(mode("\(harness.lockdown)/\(Self.udid).plist") == 0o600)
      #expect(mode(harness.lockdown) == 0o700)
    }
    #expect(try client.result("DeletePairRecord", name) == 0)
    #expect(try client.result("ReadPairRecord", name) == 2)
    #expect(files(harness).isEmpty)
  }

  @Test(
    "Only names of digits, letters and dashes",
    arguments: [
      "../escape", "/tmp/x", "..", ".", "", "a/b", "a.b", "a\u{0}b", "ü", "SystemConfiguration",
      "systemconfiguration", String(repeating: "a", count: 65),
    ])
  func names(name: String) throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    let before = try FileManager.default.contentsOfDirectory(atPath: harness.directory)
    for request in ["ReadPairRecord", "SavePairRecord", "DeletePairRecord"] {
      #expect(try client.result(request, ["PairRecordID": name, "PairRecordData": Data([1])]) == 1)
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: harness.directory) == before)
  }

  @Test("One record for every spelling of a UDID")
  func spellings() throws {
    let harness = try ServerHarness()
    let client = try harness.client()
    let record = Data([7])
    #expect(
      try client.result(
        "SavePairRecord", ["PairRecordID": "00008110000000c0ffee0001", "PairRecordData": record])
        == 0)
    #expect(files(harness) == ["\(Self.udid).plist"])
    for name in [Self.udid, "00008110000000C0FFEE0001"] {
      #expect(
        try client.ask("ReadPairRecord", ["PairRecordID": name]).dictionary["PairRecordData"] as? Data
          == record)
    }
    // What another daemon has kept under another spelling is found under that one.
    let other = "00008110000000C0FFEE0002"
    try Data([8]).write(to: URL(fileURLWithPath: "\(harness.lockdown)/\(other).plist"))
    #expect(
      try client.ask("ReadPairRecord", ["PairRecordID": other]).dictionary["PairRecordData"] as? Data
        == Data([8]))
    #expect(try client.result("DeletePairRecord", ["PairRecordID": other]) == 0)
  }

  @Test("Those who listen are told of a pairing")
  func paired() throws {
    let harness = try ServerHarness(devices: [.usb(1, "b"), .usb(2, Self.udid)])
    let listener = try harness.client()
    let ids = try listener.listen(expecting: 2).map(\.deviceID)
    let client = try harness.client()
    let keys: [String: Any] = ["PairRecordID": Self.udid, "PairRecordData": Data([1])]
    // By the id that the program names; by the record's name where it names none or a wrong one.
    for (named, told) in [(ids[0], ids[0]), (nil, ids[1]), (9999, ids[1])] {
      let all = named.map { keys.merging(["DeviceID": $0]) { $1 } } ?? keys
      #expect(try client.result("SavePairRecord", all) == 0)
      let message = try listener.message()
      #expect(message.type == "Paired" && message.deviceID == told && message.tag == 0)
    }
    // A record of no device that is here is nobody's business.
    #expect(try client.result("SavePairRecord", ["PairRecordID": "c", "PairRecordData": Data()]) == 0)
    harness.detach(1)
    #expect(try listener.message().type == "Detached")
  }

  @Test("The host's identity: an upper-case UUID that stays over restarts, in a file of 0600")
  func identity() throws {
    let directory = FileManager.default.temporaryDirectory.path + "/mux-\(UUID().uuidString.prefix(8))"
    defer { try? FileManager.default.removeItem(atPath: directory) }
    var seen: Set<String> = []
    for _ in 0..<2 {
      let harness = try ServerHarness(directory: directory)
      for _ in 0..<2 {
        let text = try #require(try harness.client().ask("ReadBUID").dictionary["BUID"] as? String)
        #expect(UUID(uuidString: text)?.uuidString == text)
        seen.insert(text)
      }
      #expect(mode("\(harness.lockdown)/SystemConfiguration.plist") == 0o600)
    }
    #expect(seen.count == 1)
  }

  @Test("A directory that cannot be used: the identity stays while the server runs, saving says why")
  func unusableDirectory() throws {
    let harness = try ServerHarness { $0.lockdownDirectory = "/dev/null/lockdown" }
    let client = try harness.client()
    let first = try client.ask("ReadBUID").dictionary["BUID"] as? String
    #expect(first != nil)
    #expect(try client.ask("ReadBUID").dictionary["BUID"] as? String == first)
    let result = try client.result("SavePairRecord", ["PairRecordID": "a", "PairRecordData": Data([1])])
    #expect(result == Int(ENOTDIR))
    #expect(harness.log.contains { $0.contains("cannot be kept") && $0.contains("--lockdown-dir") })
  }

  @Test("Asking for missing records again and again writes no log")
  func quiet() throws {
    let harness = try ServerHarness()
    let before = harness.log.count
    let client = try harness.client()
    for _ in 0..<1000 { #expect(try client.result("ReadPairRecord", ["PairRecordID": Self.udid]) == 2) }
    #expect(harness.log.count == before)
  }
}

@Suite("Secret files")
struct SecretDirectoryTests {
  private let path = FileManager.default.temporaryDirectory.path + "/secret-\(UUID().uuidString.prefix(8))"

  @Test("The largest file: one below, at, one above", arguments: [-1, 0, 1])
  func size(difference: Int) throws {
    defer { try? FileManager.default.removeItem(atPath: path) }
    let directory = SecretDirectory(path: path)
    let bytes = [UInt8](repeating: 3, count: SecretDirectory.maximumSize + difference)
    try directory.write(bytes, to: "a.plist")
    if difference > 0 {
      #expect(throws: (any Error).self) { try directory.read("a.plist") }
    } else {
      #expect(try directory.read("a.plist") == bytes)
    }
  }

  @Test("Links, directories and FIFOs are not read")
  func strangers() throws {
    defer { try? FileManager.default.removeItem(atPath: path) }
    let directory = SecretDirectory(path: path)
    try directory.write([1], to: "real")
    try FileManager.default.createSymbolicLink(atPath: path + "/link", withDestinationPath: path + "/real")
    try FileManager.default.createDirectory(atPath: path + "/directory", withIntermediateDirectories: false)
    #expect(mkfifo(path + "/fifo", 0o600) == 0)
    for name in ["link", "directory", "fifo", "missing"] {
      #expect(throws: (any Error).self) { try directory.read(name) }
    }
    // A link is replaced, not followed.
    try directory.write([2], to: "link")
    #expect(try directory.read("real") == [1])
    #expect(try directory.read("link") == [2])
  }

  @Test("The mode does not depend on the umask, and an existing directory is left as it is")
  func modes() throws {
    defer { try? FileManager.default.removeItem(atPath: path) }
    try FileManager.default.createDirectory(
      atPath: path, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o750])
    try SecretDirectory(path: path).write([1], to: "a")
    let file = try FileManager.default.attributesOfItem(atPath: path + "/a")[.posixPermissions] as? Int
    let directory = try FileManager.default.attributesOfItem(atPath: path)[.posixPermissions] as? Int
    #expect(file == 0o600 && directory == 0o750)
  }

  @Test("An identity's file keeps what else is in it, and a damaged one is replaced")
  func identityFile() throws {
    let old = try PropertyListSerialization.data(
      fromPropertyList: ["Other": 5, "SystemBUID": ""], format: .xml, options: 0)
    #expect(HostIdentity(file: Array(old)) == nil)
    let identity = HostIdentity.random()
    let file = try identity.file(replacing: Array(old))
    #expect(HostIdentity(file: file) == identity)
    let read = try PropertyListSerialization.propertyList(from: Data(file), format: nil) as? [String: Any]
    #expect(read?["Other"] as? Int == 5)
    #expect(HostIdentity(file: try identity.file(replacing: Array("garbage".utf8))) == identity)
  }

  @Test("Identities are UUIDs of version 4")
  func randomIdentity() {
    var generator = SeededGenerator(seed: 1)
    for _ in 0..<100 {
      let text = Array(HostIdentity.random(using: &generator).text)
      #expect(text.count == 36 && text[14] == "4" && "89AB".contains(text[19]))
    }
  }

  @Test("Errors of files become results that mean nothing else")
  func results() {
    #expect(ResultCode(.init(code: ENOENT, call: "open")).rawValue == 2)
    #expect(ResultCode(.init(code: EACCES, call: "open")).rawValue == 13)
    #expect(ResultCode(.init(code: EPERM, call: "open")).rawValue == 13)
    #expect(ResultCode(.init(code: ENXIO, call: "open")).rawValue == 5)
    #expect(ResultCode(.init(code: ESRCH, call: "open")).rawValue == 5)
  }
}
