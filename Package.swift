// swift-tools-version: 6.2

import PackageDescription

/// What every Swift target is compiled with: Swift 6 mode (by the tools version), strict memory
/// safety, no warning left standing.
let strict: [SwiftSetting] = [
  .strictMemorySafety(),
  .treatAllWarnings(as: .error),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  // An async function runs where its caller does, so that nothing starts the global executor's threads.
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// What test targets are compiled with.
let tests: [SwiftSetting] = [.treatAllWarnings(as: .error)]

let package = Package(
  name: "tunneld",
  platforms: [.macOS("15.0")],
  products: [
    .library(name: "USBMux", targets: ["USBMux"]),
    .executable(name: "tunneld", targets: ["tunneld"]),
  ],
  targets: [
    // C libraries, each spelled in one place only.
    .systemLibrary(
      name: "CLibPlist",
      pkgConfig: "libplist-2.0",
      providers: [.apt(["libplist-dev"]), .brew(["libplist"])]
    ),
    .systemLibrary(
      name: "CLibUV",
      pkgConfig: "libuv",
      providers: [.apt(["libuv1-dev"]), .brew(["libuv"])]
    ),
    .systemLibrary(
      name: "CLibUSB",
      pkgConfig: "libusb-1.0",
      providers: [.apt(["libusb-1.0-0-dev"]), .brew(["libusb"])]
    ),
    // Loaded when it is needed, so that there is nothing to link.
    .systemLibrary(name: "CLibSystemd", providers: [.apt(["libsystemd-dev"])]),
    .systemLibrary(
      name: "CLibINI",
      pkgConfig: "inih",
      providers: [.apt(["libinih-dev"]), .brew(["inih"])]
    ),
    .target(name: "CSystem"),

    // The protocols: no sockets, no USB, no clock.
    .target(name: "MuxProtocol", dependencies: ["CLibPlist"], swiftSettings: strict),
    // The device side of the device protocol, as a phone would speak it.
    .target(name: "SimulatedPhone", dependencies: ["MuxProtocol"], swiftSettings: strict),
    // One thread, its readiness loop, and what the kernel gives to it.
    .target(name: "EventLoop", dependencies: ["CLibUV", "CSystem"], swiftSettings: strict),
    // Streams as packets of a capture file: no files.
    .target(name: "PacketCapture", swiftSettings: strict),
    // JSON texts (RFC 8259), read and written within limits.
    .target(name: "JSON", swiftSettings: strict),
    // The library: devices, streams, forwards.
    .target(
      name: "USBMux",
      dependencies: [
        "MuxProtocol", "SimulatedPhone", "PacketCapture", "EventLoop", "CSystem",
        // Elsewhere the system's own daemon owns the devices.
        .target(name: "CLibUSB", condition: .when(platforms: [.linux])),
      ],
      swiftSettings: strict
    ),
    // The daemon and command line.
    .executableTarget(
      name: "tunneld",
      dependencies: [
        "USBMux", "MuxProtocol", "JSON", "EventLoop", "CSystem", "CLibINI",
        .target(name: "CLibSystemd", condition: .when(platforms: [.linux])),
      ],
      swiftSettings: strict),

    // Measures the device protocol's side of the data path against a plain copy (`make bench`).
    .executableTarget(
      name: "device-path", dependencies: ["MuxProtocol"], path: "Benchmarks/DevicePath", swiftSettings: strict
    ),

    .testTarget(
      name: "MuxProtocolTests", dependencies: ["MuxProtocol", "SimulatedPhone"], swiftSettings: tests),
    // Reads capture files back; knows nothing of what writes them.
    .target(name: "CaptureReader", path: "Tests/CaptureReader", swiftSettings: tests),
    .testTarget(
      name: "PacketCaptureTests", dependencies: ["PacketCapture", "CaptureReader"], swiftSettings: tests),
    .testTarget(name: "JSONTests", dependencies: ["JSON"], swiftSettings: tests),
    .testTarget(
      name: "USBMuxTests",
      dependencies: ["USBMux", "SimulatedPhone", "PacketCapture", "CaptureReader", "EventLoop", "CSystem"],
      swiftSettings: tests),
    .testTarget(name: "TunneldTests", dependencies: ["tunneld", "JSON"], swiftSettings: tests),
    // Runs the real binary; knows nothing of the project's own code.
    .testTarget(name: "EndToEndTests", dependencies: ["tunneld"], swiftSettings: tests),
  ]
)

#if os(Linux)
  // Runs the real binary in front of emulated USB devices, through umockdev, which it loads when it runs.
  package.targets += [
    .target(name: "CUMockdev", path: "Tests/USBEmulation/CUMockdev"),
    .executableTarget(
      name: "usb-emulator", dependencies: ["CUMockdev", "SimulatedPhone", "MuxProtocol"],
      path: "Tests/USBEmulation/usb-emulator", swiftSettings: tests),
  ]
  for target in package.targets where target.name == "EndToEndTests" {
    target.dependencies.append("usb-emulator")
  }
#endif
