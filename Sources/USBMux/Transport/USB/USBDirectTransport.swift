#if os(Linux)
  internal import EventLoop

  /// Devices on this machine's USB, opened by this process.
  ///
  /// A device is listed when its link is up. Plugging in and out is heard from libusb; every few seconds the
  /// kernel's list is looked through as well, for where nothing is heard (containers have no udevd) and for
  /// claims that were lost.
  final class USBDirectTransport: Transport, USBAttachmentOwner {
    weak var observer: (any TransportObserver)?
    private(set) var failure: MuxError?
    private(set) var isReady = false

    private let context: USBAttachmentContext
    private let worker = USBWorker()
    private var hotplug: USBHotplug?
    private var attachments: [USBPresence.Identity: USBAttachment] = [:]
    /// In the order in which they were attached.
    private var listed: [USBAttachment] = []
    /// Devices that left, with the last scan that may still list them.
    private var departed: [USBPresence.Identity: UInt64] = [:]
    private let ids: DeviceIDs
    private var scanNumber: UInt64 = 0
    private var isScanning = false
    private var mustScanAgain = false
    private var quickScansLeft = 0
    private var isScanned = false
    private var isStopped = false
    private var timer: LoopTimer?
    private var readyTimer: LoopTimer?
    private var refreshing: [() -> Void] = []

    /// Between two looks through the kernel's list, nanoseconds.
    private static let scanPause: Int64 = 3_000_000_000
    /// After plugging in, while the kernel does not know all of a device.
    private static let quickScanPause: Int64 = 300_000_000
    private static let quickScans = 3
    /// A device that does not answer holds up the list of the others for this long.
    private static let longestStart: Int64 = 1_500_000_000
    /// How long ``stop()`` waits for the helper thread, so that phones hear of the end of their connections.
    private static let stopTime = 150

    init(options: USBOptions, on loop: EventLoop, log: Log, ids: DeviceIDs = DeviceIDs(first: 1)) {
      context = USBAttachmentContext(loop: loop, log: log, worker: worker, options: options)
      self.ids = ids
    }

    var devices: [Device] { listed.compactMap(\.device) }

    func link(of device: Device) -> LinkStatus {
      let link = listed.first { $0.device?.id == device.id }?.link
      return LinkStatus(transport: "usb", version: link?.version.map { Int($0.rawValue) })
    }

    private var loop: EventLoop { context.loop }

    // MARK: Looking

    func start() {
      let timer = LoopTimer(on: loop) { [unowned self] in scan() }
      self.timer = timer
      let readyTimer = LoopTimer(on: loop) { [unowned self] in becomeReady() }
      self.readyTimer = readyTimer
      readyTimer.set(after: Self.longestStart)
      scan()
      let hotplug = USBHotplug(on: loop, worker: worker) { [unowned self] left in changed(left) }
      self.hotplug = hotplug
      hotplug.start { [log = context.log] problem in
        guard let problem else { return }
        log.write(.info, "libusb does not tell of plugging in (\(problem)): devices are looked for every 3 s")
      }
    }

    func stop() {
      guard !isStopped else { return }
      isStopped = true
      timer = nil
      readyTimer = nil
      hotplug?.stop()
      hotplug = nil
      for attachment in attachments.values { attachment.left() }
      worker.finish()
      worker.waitForEnd(milliseconds: Self.stopTime)
    }

    func lookNow() {
      scan()
      for attachment in attachments.values { attachment.lookNow() }
    }

    /// Hot-plug: a device came or left.
    private func changed(_ left: USBLocation?) {
      guard !isStopped else { return }
      if let left {
        for attachment in attachments.values where attachment.presence.location == left { depart(attachment) }
      } else {
        quickScansLeft = Self.quickScans
      }
      scan()
    }

    private func depart(_ attachment: USBAttachment) {
      departed[attachment.presence.identity] = scanNumber
      attachment.left()
    }

    private func scan() {
      guard !isStopped else { return }
      guard !isScanning else {
        mustScanAgain = true
        return
      }
      isScanning = true
      scanNumber += 1
      let number = scanNumber
      let reference = LoopReference(self, of: loop)
      worker.run {
        let found = USBScan.run()
        reference.perform { $0.scanned(found, number) }
      }
    }

    private func scanned(_ found: [USBPresence]?, _ number: UInt64) {
      guard !isStopped else { return }
      isScanning = false
      isScanned = true
      take(found ?? [], number)
      update()
      finishRefresh()
      if mustScanAgain {
        mustScanAgain = false
        return scan()
      }
      if quickScansLeft > 0 {
        quickScansLeft -= 1
        timer?.set(after: Self.quickScanPause)
      } else {
        timer?.set(after: Self.scanPause)
      }
    }

    private func take(_ found: [USBPresence], _ number: UInt64) {
      let present = Set(found.map(\.identity))
      for (identity, attachment) in attachments where !present.contains(identity) && !attachment.isGone {
        attachment.left()
      }
      departed = departed.filter { present.contains($0.key) && number <= $0.value }
      for presence in found where departed[presence.identity] == nil {
        if let attachment = attachments[presence.identity], !attachment.isGone {
          attachment.update(presence)
        } else if attachments[presence.identity] == nil {
          let attachment = USBAttachment(presence, id: ids.next(), context: context, owner: self)
          attachments[presence.identity] = attachment
          context.log.write(.info, "\(presence.location) (\(presence.name)) is on the bus")
          attachment.start()
        }
      }
    }

    // MARK: Attachments

    func attached(_ attachment: USBAttachment) {
      listed.append(attachment)
      if let device = attachment.device, !isStopped { observer?.attached(device) }
    }

    func detached(_ attachment: USBAttachment) {
      listed.removeAll { $0 === attachment }
      if let device = attachment.device, !isStopped { observer?.detached(device) }
    }

    func changed(_ attachment: USBAttachment, report: USBProblem?) {
      let old = failure
      update()
      // What is the transport's failure by now is told with it.
      guard let report, !isStopped, failure == old || failure != report.error else { return }
      context.log.limited(.warning, topic: "usb \(report)", "\(report)")
    }

    func ended(_ attachment: USBAttachment) {
      guard attachments[attachment.presence.identity] === attachment else { return }
      attachments[attachment.presence.identity] = nil
      update()
    }

    private func update() {
      guard !isStopped else { return }
      let problem = attachments.values.filter { !$0.isGone }.sorted { $0.id < $1.id }.compactMap(\.problem)
        .first
      let failure = listed.isEmpty ? problem?.error : nil
      if failure != self.failure {
        self.failure = failure
        observer?.transportChanged()
      }
      if !isReady, isScanned, attachments.values.allSatisfy(\.isSettled) { becomeReady() }
    }

    private func becomeReady() {
      guard !isReady, !isStopped else { return }
      isReady = true
      readyTimer = nil
      observer?.transportChanged()
    }

    // MARK: Streams

    func open(
      _ device: Device, port: DevicePort, timeout: Int64, _ handler: any OpenHandler
    ) -> any OpenAttempt {
      guard let link = listed.first(where: { $0.id == device.id })?.link else {
        return FailedAttempt(.unknownDevice, on: loop, handler)
      }
      do throws(MuxError) {
        return try SessionOpening(link, port: port, on: loop, timeout: timeout, handler)
      } catch {
        return FailedAttempt(.failed(error), on: loop, handler)
      }
    }

    func refresh(_ done: @escaping () -> Void) {
      guard !isStopped else { return done() }
      refreshing.append(done)
      scan()
    }

    private func finishRefresh() {
      let waiting = refreshing
      refreshing = []
      for done in waiting { done() }
    }

    /// Streams of this transport know their ends themselves.
    func verdict(on device: DeviceID, epoch: UInt64, _ done: @escaping (DeviceEnd) -> Void) { done(.reset) }
  }
#endif
