/// Forwards in the order in which they were asked for, no two of which want the same local end.
struct ForwardList {
  private(set) var all: [ForwardOptions] = []

  /// Adds a forward; `address` stands in where `local` is a port alone.
  mutating func add(local: LocalArgument, devicePort: UInt16, address: BindAddress) throws(UsageError) {
    let endpoint = local.bound(to: address)
    if let earlier = all.first(where: { $0.local.clashes(with: endpoint) }) {
      throw UsageError(
        "\(endpoint.spelling.quoted) is already forwarded to device port \(earlier.devicePort)",
        fix: "give each forward a local port of its own, or 0 for a free one"
      )
    }
    all.append(ForwardOptions(local: endpoint, devicePort: devicePort))
  }
}
