#if os(Linux)
  internal import Glibc

  /// Looks for Apple devices with a mux interface in the kernel's list of USB devices.
  ///
  /// Some of the files wait for the device's lock, which a sick device may hold for seconds: this runs on the
  /// helper thread. Facts: Documentation/ABI/stable/sysfs-bus-usb and testing/sysfs-bus-usb of Linux.
  enum USBScan {
    static let appleVendor: UInt16 = 0x05ac
    static let directory = "/sys/bus/usb/devices"
    /// Longer than any descriptors file can be with its 8 configurations of a phone.
    private static let longestFile = 64 * 1024

    /// All devices that have, or may have, a mux interface; nil when there is no list.
    static func run(directory: String = directory) -> [USBPresence]? {
      guard let names = list(directory) else { return nil }
      return names.compactMap { name in
        // `1-2:1.0` is an interface, `usb1` a root hub.
        name.contains(":") || name.hasPrefix("usb") || name.hasPrefix(".")
          ? nil : look(name, in: directory)
      }
    }

    /// Nil for what is no Apple device with a mux interface, or cannot be read (yet).
    private static func look(_ name: String, in directory: String) -> USBPresence? {
      let path = directory + "/" + name
      guard text(path, "idVendor").flatMap({ UInt16($0, radix: 16) }) == appleVendor,
        let bus = text(path, "busnum").flatMap({ UInt8($0) }),
        let address = text(path, "devnum").flatMap({ UInt8($0) }),
        let descriptors = read(path + "/descriptors"),
        let device = USBDeviceDescriptor(descriptors.span)
      else { return nil }
      let configurations = USBConfiguration.parseAll(
        descriptors.span.extracting(droppingFirst: USBDeviceDescriptor.size))
      guard configurations.contains(where: { MuxInterface.find(in: $0) != nil }) else { return nil }
      var status = stat()
      guard unsafe stat(path, &status) == 0 else { return nil }
      // The file is empty for a device that is not configured, as it is for a while after plugging in.
      let active = text(path, "bConfigurationValue")
      return USBPresence(
        identity: USBPresence.Identity(
          location: USBLocation(bus: bus, address: address), directory: UInt64(status.st_ino)),
        name: name, product: device.product, serial: text(path, "serial"),
        serialIndex: device.serialNumberIndex,
        speed: USBSpeed.bitsPerSecond(megabits: text(path, "speed") ?? ""),
        activeConfiguration: active.flatMap { $0.isEmpty ? 0 : UInt8($0) }, configurations: configurations)
    }

    // MARK: Files

    static func list(_ directory: String) -> [String]? {
      guard let stream = unsafe opendir(directory) else { return nil }
      defer { unsafe closedir(stream) }
      var names: [String] = []
      while let entry = unsafe readdir(stream) {
        // d_name is the beginning of a longer text, which only its offset tells.
        let offset = MemoryLayout<dirent>.offset(of: \.d_name) ?? 19
        let name = unsafe UnsafeRawPointer(entry).advanced(by: offset).assumingMemoryBound(to: CChar.self)
        unsafe names.append(String(cString: name))
      }
      return names.sorted()
    }

    private static func text(_ path: String, _ file: String) -> String? {
      guard let bytes = read(path + "/" + file) else { return nil }
      let line = bytes.prefix { $0 != UInt8(ascii: "\n") && $0 != 0 }
      var text = Substring(String(decoding: line, as: UTF8.self))
      while text.first == " " { text.removeFirst() }
      while text.last == " " { text.removeLast() }
      return String(text)
    }

    static func read(_ path: String) -> [UInt8]? {
      let file = unsafe open(path, O_RDONLY | O_CLOEXEC)
      guard file >= 0 else { return nil }
      defer { _ = close(file) }
      var bytes: [UInt8] = []
      var chunk = [UInt8](repeating: 0, count: 4096)
      while bytes.count < longestFile {
        let count = unsafe Glibc.read(file, &chunk, chunk.count)
        if count < 0 {
          if errno == EINTR { continue }
          return nil
        }
        if count == 0 { break }
        bytes += chunk[..<count]
      }
      return bytes
    }
  }
#endif
