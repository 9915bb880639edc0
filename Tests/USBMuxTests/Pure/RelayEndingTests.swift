import Testing

@testable import USBMux

/// When a relay ends, and what each side is shown.
@Suite("Relay ending")
struct RelayEndingTests {
  private func next(
    _ ending: inout RelayEnding, uploadIsEmpty: Bool = true, downloadIsEmpty: Bool = true
  ) -> RelayEnding.Action {
    ending.next(uploadIsEmpty: uploadIsEmpty, downloadIsEmpty: downloadIsEmpty)
  }

  @Test("Two open sides go on")
  func open() {
    var ending = RelayEnding()
    #expect(next(&ending) == .keepGoing)
    #expect(ending.clientReads && ending.deviceTakes && !ending.isLingering)
  }

  @Test("A half-closed client keeps the connection until the device closes, and after its last byte")
  func halfClose() {
    var ending = RelayEnding()
    ending.clientEnded(gone: false)
    #expect(next(&ending) == .keepGoing)
    #expect(ending.deviceTakes, "what the client sent must still get there")
    ending.deviceEnded(.clean)
    #expect(next(&ending, downloadIsEmpty: false) == .keepGoing)
    #expect(next(&ending) == .finish)
  }

  @Test("An app that closes shows the client an end after the last byte; then the client ends it")
  func deviceFirst() {
    var ending = RelayEnding()
    ending.deviceEnded(.clean)
    #expect(next(&ending, downloadIsEmpty: false) == .keepGoing)
    #expect(next(&ending) == .endClientStream)
    #expect(ending.isLingering && !ending.clientReads && !ending.deviceTakes)
    #expect(next(&ending) == .keepGoing, "shown once only")
    ending.clientEnded(gone: false)
    #expect(next(&ending) == .finish)
  }

  @Test("Bytes for a device that has closed keep nobody")
  func uploadAfterDevice() {
    var ending = RelayEnding()
    ending.deviceEnded(.clean)
    #expect(next(&ending, uploadIsEmpty: false) == .endClientStream)
  }

  @Test("A gone client ends it as soon as all that it sent is delivered")
  func gone() {
    var ending = RelayEnding()
    ending.clientEnded(gone: true)
    #expect(!ending.clientReads)
    #expect(next(&ending, uploadIsEmpty: false) == .keepGoing)
    #expect(next(&ending, downloadIsEmpty: false) == .finish, "nobody will read it")
  }

  @Test("A half-closed client may turn out to be gone; a gone one does not come back")
  func goneLater() {
    var ending = RelayEnding()
    ending.clientEnded(gone: false)
    ending.clientEnded(gone: true)
    #expect(ending.client == .gone)
    ending.clientEnded(gone: false)
    #expect(ending.client == .gone)
  }

  @Test(
    "A gone client and a lost device: nothing is left to show", arguments: [DeviceEnd.reset, .unverified])
  func goneAndLost(_ end: DeviceEnd) {
    var ending = RelayEnding()
    ending.clientEnded(gone: true)
    ending.deviceEnded(end)
    #expect(next(&ending, uploadIsEmpty: false) == .finish)
  }

  @Test("An end that is not explained yet shows nothing; the explanation decides")
  func unverified() {
    for (verdict, action) in [(DeviceEnd.clean, RelayEnding.Action.endClientStream), (.reset, .resetClient)] {
      var ending = RelayEnding()
      ending.deviceEnded(.unverified)
      #expect(next(&ending) == .keepGoing)
      #expect(!ending.deviceTakes)
      ending.deviceEnded(verdict)
      #expect(next(&ending) == action)
    }
  }

  @Test("The first explanation stands")
  func explainedOnce() {
    var ending = RelayEnding()
    ending.deviceEnded(.reset)
    ending.deviceEnded(.clean)
    #expect(ending.device == .reset)
    ending.deviceEnded(.unverified)
    #expect(ending.device == .reset)
  }

  @Test("A lost device resets the client, also a half-closed one and one with bytes on their way")
  func lost() {
    var ending = RelayEnding()
    ending.clientEnded(gone: false)
    ending.deviceEnded(.reset)
    #expect(next(&ending, downloadIsEmpty: false) == .resetClient)
    #expect(!ending.isLingering)
  }
}
