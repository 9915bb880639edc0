#if os(Linux)
  internal import CLibUSB
  internal import Glibc

  /// An open device: a libusb context of its own, and the handle in it.
  ///
  /// Each device has its own context, because libusb holds a context's event lock while it closes a handle, and
  /// the kernel may take seconds for that with a sick device: the other phones' transfers must go on.
  ///
  /// **Thread.** The helper's from ``open(_:)`` to ``select(_:_:)``; the loop's while it is in use; the helper's
  /// again from ``tearDown(_:)`` on. It changes hands through the queues of the two, and once each way. That
  /// rule makes the `@unchecked Sendable` true.
  @safe
  final class USBConnection: @unchecked Sendable {
    let location: USBLocation
    let context: OpaquePointer
    let handle: OpaquePointer
    /// Claimed.
    private(set) var interface: MuxInterface?
    private(set) var isClosed = false

    /// For how long packets that were submitted may still go out when the device is closed: resets of sessions.
    private static let flushTime = 0.2
    /// After which transfers that were cancelled are given up. A device can hold them for ever.
    private static let cancelTime = 1.0

    private init(_ location: USBLocation, context: OpaquePointer, handle: OpaquePointer) {
      self.location = location
      unsafe self.context = context
      unsafe self.handle = handle
    }

    deinit { close() }

    // MARK: Opening

    /// Opens a device with a fresh context and handle.
    static func open(_ location: USBLocation) throws(USBProblem) -> USBConnection {
      var made: OpaquePointer?
      let status = USBStatus(unsafe libusb_init(&made))
      guard status.isOK, let context = unsafe made else {
        throw .failed(location, call: "libusb_init", reason: "\(status)")
      }
      do throws(USBProblem) {
        return unsafe USBConnection(
          location, context: context, handle: try openHandle(location, in: context))
      } catch {
        unsafe libusb_exit(context)
        throw error
      }
    }

    private static func openHandle(
      _ location: USBLocation, in context: OpaquePointer
    ) throws(USBProblem) -> OpaquePointer {
      var list: UnsafeMutablePointer<OpaquePointer?>?
      let count = unsafe libusb_get_device_list(context, &list)
      defer { unsafe libusb_free_device_list(list, 1) }
      guard count > 0, let devices = unsafe list else { throw .notThere(location) }
      for index in 0..<Int(count) {
        guard let device = unsafe devices[index], unsafe libusb_get_bus_number(device) == location.bus,
          unsafe libusb_get_device_address(device) == location.address
        else { continue }
        var opened: OpaquePointer?
        let status = USBStatus(unsafe libusb_open(device, &opened))
        if status.isOK, let handle = unsafe opened { return unsafe handle }
        throw problem(status, "libusb_open", location)
      }
      throw .notThere(location)
    }

    private static func problem(_ status: USBStatus, _ call: String, _ location: USBLocation) -> USBProblem {
      if status.isDenied {
        let (owner, group) = USBOwner.of(node: location.node)
        return .denied(location, owner: owner, group: group)
      }
      if status.isAbsence {
        return unsafe access(location.node, F_OK) == 0 ? .notThere(location) : .noNode(location)
      }
      return .failed(location, call: call, reason: "\(status)")
    }

    /// Resets the device. It may come back as another one.
    func reset() throws(USBProblem) {
      let status = USBStatus(unsafe libusb_reset_device(handle))
      guard status.isOK else { throw Self.problem(status, "libusb_reset_device", location) }
    }

    /// Selects the first of the configurations that can be had, and claims the mux interface in it.
    func select(_ presence: USBPresence, _ opening: USBOpening) throws(USBProblem) {
      let active = activeConfiguration() ?? presence.activeConfiguration
      var problem: USBProblem?
      for candidate in MuxInterface.candidates(in: presence.configurations, active: active) {
        do throws(USBProblem) {
          if candidate.configuration != active { try change(from: active, to: candidate, presence) }
          try claim(candidate, presence)
          interface = candidate
          return
        } catch {
          problem = problem ?? error
          // Another owner has the device as a whole; a denied node stays denied.
          if case .busy = error { break }
          if candidate.configuration == active, !opening.mayLeaveConfiguration { break }
        }
      }
      throw problem ?? .noInterface(location)
    }

    /// Nil when it cannot be read; 0 when the device is not configured.
    private func activeConfiguration() -> UInt8? {
      var value: CInt = 0
      guard unsafe libusb_get_configuration(handle, &value) == 0 else { return nil }
      return UInt8(exactly: value)
    }

    private func change(
      from active: UInt8?, to candidate: MuxInterface, _ presence: USBPresence
    ) throws(USBProblem) {
      // PTP users and ipheth hold interfaces of the configuration that is left; those of the configuration in
      // use are let alone, tethering among them.
      let old = presence.configurations.first { $0.value == active }
      for number in Set(old?.interfaces.map(\.number) ?? []) {
        if unsafe libusb_kernel_driver_active(handle, CInt(number)) == 1 {
          _ = unsafe libusb_detach_kernel_driver(handle, CInt(number))
        }
      }
      let status = USBStatus(unsafe libusb_set_configuration(handle, CInt(candidate.configuration)))
      guard status.isOK else {
        let holder = old?.interfaces.first?.number ?? candidate.number
        throw problem(status, "libusb_set_configuration", interface: holder, of: active ?? 0, presence)
      }
    }

    private func claim(_ candidate: MuxInterface, _ presence: USBPresence) throws(USBProblem) {
      let status = USBStatus(unsafe libusb_claim_interface(handle, CInt(candidate.number)))
      guard status.isOK else {
        throw problem(
          status, "libusb_claim_interface", interface: candidate.number, of: candidate.configuration, presence
        )
      }
    }

    private func problem(
      _ status: USBStatus, _ call: String, interface: UInt8, of configuration: UInt8, _ presence: USBPresence
    ) -> USBProblem {
      guard status.isBusy else { return Self.problem(status, call, location) }
      let owner = USBOwner.of(
        interface: "\(presence.name):\(configuration).\(interface)", node: location.node)
      return .busy(location, owner: owner)
    }

    // MARK: Closing

    /// Ends what is in flight, with a deadline, and closes the device. Blocks: helper thread. Returns how many
    /// transfers the kernel did not give back: they are abandoned with their memory.
    @discardableResult
    func tearDown(_ transfers: [USBTransfer]) -> Int {
      guard !isClosed else { return 0 }
      for transfer in transfers where transfer.isInput { transfer.cancel() }
      handleEvents(until: Self.flushTime) { !transfers.contains { $0.isInFlight } }
      for transfer in transfers { transfer.cancel() }
      handleEvents(until: Self.cancelTime) { !transfers.contains { $0.isInFlight } }
      let abandoned = transfers.count { $0.isInFlight }
      // Memory that is shared with the kernel must go before the handle.
      for transfer in transfers { transfer.freeOrAbandon() }
      close()
      return abandoned
    }

    private func handleEvents(until seconds: Double, isDone: () -> Bool) {
      let deadline = ContinuousClock.now + .seconds(seconds)
      while !isDone(), ContinuousClock.now < deadline {
        var slice = timeval(tv_sec: 0, tv_usec: 20_000)
        guard unsafe libusb_handle_events_timeout_completed(context, &slice, nil) == 0 else { return }
      }
    }

    /// Closes the device, of which nothing is in flight. Blocks: helper thread.
    func close() {
      guard !isClosed else { return }
      isClosed = true
      if let interface { _ = unsafe libusb_release_interface(handle, CInt(interface.number)) }
      unsafe libusb_close(handle)
      unsafe libusb_exit(context)
    }
  }
#endif
