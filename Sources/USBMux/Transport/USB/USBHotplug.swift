#if os(Linux)
  internal import CLibUSB
  internal import EventLoop

  /// Hears from libusb when Apple devices come and go. Debian's libusb hears it from udev, so that in a container
  /// nothing may be heard at all: it only makes things faster.
  @safe
  final class USBHotplug {
    private let loop: EventLoop
    private let worker: USBWorker
    private var context: USBContextPointer?
    private var events: USBEvents?
    private var isStopped = false
    /// A device came, or left (then where it was).
    fileprivate let changed: (_ left: USBLocation?) -> Void

    init(on loop: EventLoop, worker: USBWorker, changed: @escaping (_ left: USBLocation?) -> Void) {
      self.loop = loop
      self.worker = worker
      self.changed = changed
    }

    deinit { stop() }

    /// Begins to listen. `done` is told why it cannot, or nil.
    func start(_ done: @escaping (String?) -> Void) {
      let reference = LoopReference(self, of: loop)
      nonisolated(unsafe) let done = done
      worker.run { [worker] in
        var made: OpaquePointer?
        let status = USBStatus(unsafe libusb_init(&made))
        let context = unsafe made.map(USBContextPointer.init)
        let giveUp = { @Sendable in
          if let context { worker.run { unsafe libusb_exit(context.pointer) } }
        }
        reference.perform(
          { hotplug in
            guard !hotplug.isStopped, let context else { return giveUp() }
            unsafe done(hotplug.listen(context))
          }, otherwise: giveUp)
        if context == nil { reference.perform { _ in unsafe done("\(status)") } }
      }
    }

    private func listen(_ context: USBContextPointer) -> String? {
      self.context = context
      guard libusb_has_capability(LIBUSB_CAP_HAS_HOTPLUG.rawValue) != 0 else { return "it cannot" }
      let both = CInt(
        LIBUSB_HOTPLUG_EVENT_DEVICE_ARRIVED.rawValue | LIBUSB_HOTPLUG_EVENT_DEVICE_LEFT.rawValue)
      let status = USBStatus(
        unsafe libusb_hotplug_register_callback(
          context.pointer, both, 0, CInt(USBScan.appleVendor), LIBUSB_HOTPLUG_MATCH_ANY,
          LIBUSB_HOTPLUG_MATCH_ANY, deviceChanged, Unmanaged.passUnretained(self).toOpaque(), nil))
      guard status.isOK else { return "\(status)" }
      do throws(SystemError) {
        events = unsafe try USBEvents(context.pointer, on: loop)
        return nil
      } catch {
        return "\(error)"
      }
    }

    func stop() {
      guard !isStopped else { return }
      isStopped = true
      guard let context else { return }
      self.context = nil
      guard let events else { return worker.run { unsafe libusb_exit(context.pointer) } }
      self.events = nil
      events.whenIdle { [worker] in
        events.cancel()
        worker.run { unsafe libusb_exit(context.pointer) }
      }
    }
  }

  /// A context on its way from one thread to the other.
  @safe
  struct USBContextPointer: @unchecked Sendable {
    let pointer: OpaquePointer

    init(_ pointer: OpaquePointer) { unsafe self.pointer = pointer }
  }

  private func deviceChanged(
    _ context: OpaquePointer?, _ device: OpaquePointer?, _ event: libusb_hotplug_event,
    _ user: UnsafeMutableRawPointer?
  ) -> CInt {
    guard let user = unsafe user else { return 0 }
    let hotplug = unsafe Unmanaged<USBHotplug>.fromOpaque(user).takeUnretainedValue()
    if event == LIBUSB_HOTPLUG_EVENT_DEVICE_LEFT, let device = unsafe device {
      let bus = unsafe libusb_get_bus_number(device)
      hotplug.changed(USBLocation(bus: bus, address: unsafe libusb_get_device_address(device)))
    } else {
      hotplug.changed(nil)
    }
    return 0
  }
#endif
