/// What a program tells of itself with every property-list request. All of it is optional.
package struct ClientInfo: Hashable, Sendable {
  package var programName: String?
  package var bundleID: String?
  /// `ClientVersionString`.
  package var clientVersion: String?
  /// `kLibUSBMuxVersion`; 3 is what every current program says.
  package var libraryVersion: Int64?
  package var processID: Int64?

  package init(
    programName: String? = nil, bundleID: String? = nil, clientVersion: String? = nil,
    libraryVersion: Int64? = 3, processID: Int64? = nil
  ) {
    self.programName = programName
    self.bundleID = bundleID
    self.clientVersion = clientVersion
    self.libraryVersion = libraryVersion
    self.processID = processID
  }

  /// Whatever of it is there and of the right type.
  init(_ dictionary: PropertyList.Dictionary) {
    programName = dictionary["ProgName"]?.string
    bundleID = dictionary["BundleID"]?.string
    clientVersion = dictionary["ClientVersionString"]?.string
    libraryVersion = dictionary["kLibUSBMuxVersion"]?.integer
    processID = dictionary["ProcessID"]?.integer
  }

  /// Adds the keys to a request.
  func write(to dictionary: inout PropertyList.Dictionary) {
    dictionary["BundleID"] = bundleID.map { .string($0) }
    dictionary["ClientVersionString"] = clientVersion.map { .string($0) }
    dictionary["ProcessID"] = processID.map { .integer($0) }
    dictionary["ProgName"] = programName.map { .string($0) }
    dictionary["kLibUSBMuxVersion"] = libraryVersion.map { .integer($0) }
  }
}
