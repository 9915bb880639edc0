#if os(Linux)
  internal import EventLoop

  /// Who is told of one device's fate.
  protocol USBAttachmentOwner: AnyObject {
    func attached(_ attachment: USBAttachment)
    func detached(_ attachment: USBAttachment)
    /// Its problem, or whether it is settled, has changed. `report`: it is to be told to the user.
    func changed(_ attachment: USBAttachment, report: USBProblem?)
    /// It is gone, and nothing of it is open any more.
    func ended(_ attachment: USBAttachment)
  }

  /// Drives the life of one device that is on the bus: opens it on the helper thread, prepares and uses it on
  /// the loop, and has it closed by the helper thread again.
  final class USBAttachment: LinkOwner {
    let id: DeviceID
    private(set) var presence: USBPresence
    /// While it is attached.
    private(set) var device: Device?
    private(set) var link: LinkDriver?

    /// Nobody any more once the transport was stopped.
    private weak var owner: (any USBAttachmentOwner)?
    private let context: USBAttachmentContext
    private var life: USBDeviceLife
    private var timer: LoopTimer?
    private var connection: USBConnection?
    private var events: USBEvents?
    private var preparation: USBPreparation?
    private var pipe: USBPipe?
    private var udid: UDID
    /// Jobs of the helper thread for this device that have not come back.
    private var jobs = 0

    init(
      _ presence: USBPresence, id: DeviceID, context: USBAttachmentContext, owner: any USBAttachmentOwner
    ) {
      self.presence = presence
      self.id = id
      self.context = context
      self.owner = owner
      life = USBDeviceLife(at: context.now)
      udid = USBSerialNumber.udid(presence.serial, at: presence.location)
    }

    var problem: USBProblem? { life.problem }
    var isSettled: Bool { life.isSettled }
    var isGone: Bool { life.state == .gone }

    func start() { perform(life.advance(to: context.now)) }

    func lookNow() {
      life.lookNow(at: context.now)
      perform(life.advance(to: context.now))
    }

    /// The kernel describes it like this now.
    func update(_ presence: USBPresence) {
      self.presence = presence
      guard let claimed = connection?.interface, pipe != nil, let active = presence.activeConfiguration,
        active != claimed.configuration
      else { return }
      // A claim can be lost without a departure event: the kernel or udev changed the configuration.
      lost("configuration \(active) was selected instead of \(claimed.configuration)")
    }

    /// It left the bus.
    func left() { perform(life.left(at: context.now)) }

    // MARK: Life

    private func perform(_ actions: [USBDeviceLife.Action]) {
      for action in actions {
        switch action {
        case .open(let opening): open(opening)
        case .close: close()
        case .attach: attach()
        case .detach: detach()
        case .report(let problem): owner?.changed(self, report: problem)
        }
      }
      setTimer()
      if isGone, jobs == 0, connection == nil { owner?.ended(self) }
    }

    private func setTimer() {
      guard let deadline = life.nextDeadline else {
        timer = nil
        return
      }
      if timer == nil {
        timer = LoopTimer(on: context.loop) { [unowned self] in perform(life.advance(to: context.now)) }
      }
      timer?.set(after: max(0, deadline.nanoseconds - context.loop.now))
    }

    private func attach() {
      let device = Device(
        id: id, udid: udid,
        connection: .usb(
          speed: presence.speed, location: presence.location.identifier, product: presence.product))
      self.device = device
      owner?.attached(self)
      owner?.changed(self, report: nil)
    }

    private func detach() {
      owner?.detached(self)
      device = nil
    }

    private func failed(_ problem: USBProblem) {
      perform(life.openFailed(problem, at: context.now))
      owner?.changed(self, report: nil)
    }

    private func lost(_ reason: String) {
      perform(life.lost(.link(presence.location, reason: reason), at: context.now))
      owner?.changed(self, report: nil)
    }

    // MARK: Opening

    private func open(_ opening: USBOpening) {
      let presence = presence
      let mode = opening.mayChangeMode ? context.options.mode : nil
      let isPrepared = !USBPreparation.isNeeded(presence, mode: mode)
      job { () -> Result<USBConnection, USBProblem> in
        Result { () throws(USBProblem) -> USBConnection in
          let connection = try USBConnection.open(presence.location)
          if opening.reset { try connection.reset() }
          if isPrepared { try connection.select(presence, opening) }
          return connection
        }
      } then: { attachment, result in
        attachment.opened(result) { isPrepared ? $0.use() : $0.prepare(mode, opening) }
      }
    }

    private func opened(_ result: Result<USBConnection, USBProblem>, _ proceed: (USBAttachment) -> Void) {
      switch result {
      case .failure(let problem): failed(problem)
      case .success(let connection):
        self.connection = connection
        guard life.state == .opening else { return close() }
        do throws(SystemError) {
          events = unsafe try USBEvents(connection.context, on: context.loop)
          proceed(self)
        } catch {
          fail(.failed(presence.location, call: error.call, reason: error.message))
        }
      }
    }

    private func prepare(_ mode: USBDeviceMode?, _ opening: USBOpening) {
      guard let connection, let events else { return }
      let preparation = USBPreparation(presence, connection, events, mode: mode, log: context.log) {
        [unowned self] outcome, leftover in
        prepared(outcome, leftover, opening)
      }
      self.preparation = preparation
      preparation.start()
    }

    private func prepared(
      _ outcome: USBPreparation.Outcome, _ leftover: [USBTransfer], _ opening: USBOpening
    ) {
      preparation = nil
      switch outcome {
      case .modeWasSet(let mode):
        context.log.write(
          .notice, "\(presence.location) changes to mode \(mode.rawValue), and comes back as another device")
        life.modeWasSet(at: context.now)
        perform([])
      case .proceed(let serial):
        udid = USBSerialNumber.udid(serial, at: presence.location)
        guard let connection else { return }
        self.connection = nil
        events?.cancel()
        events = nil
        let presence = presence
        job { () -> Result<USBConnection, USBProblem> in
          Result { () throws(USBProblem) -> USBConnection in
            try connection.select(presence, opening)
            return connection
          }
        } then: { attachment, result in
          attachment.opened(result) { $0.use() }
        }
      }
    }

    /// It is claimed: start the link.
    private func use() {
      guard let connection, let interface = connection.interface else { return }
      do throws(USBProblem) {
        let pipe = try USBPipe(connection, interface, on: context.loop, options: context.options)
        pipe.whenClosed = { [unowned self] transfers in release(transfers) }
        self.pipe = pipe
        life.opened()
        let link = LinkDriver(
          pipe: pipe, on: context.loop, log: context.log, name: "device \(udid)",
          pacing: SendPacing(endpointPacketSize: interface.output.packetSize), owner: self)
        self.link = link
        link.start()
      } catch {
        fail(error)
      }
    }

    /// It is open, and cannot be used after all.
    private func fail(_ problem: USBProblem) {
      close()
      failed(problem)
    }

    // MARK: Link

    func linkIsUp(_ link: LinkDriver, _ version: MuxVersion) { perform(life.linkIsUp(at: context.now)) }

    func linkFailed(_ link: LinkDriver, _ reason: String) {
      self.link = nil
      lost(reason)
    }

    // MARK: Closing

    private func close() {
      if let preparation {
        self.preparation = nil
        return release(preparation.cancel())
      }
      link?.stop()
      link = nil
      // The link has closed the pipe, and so released the device, where there was one.
      if let pipe { pipe.close() } else { release([]) }
    }

    /// Hands the device to the helper thread to be closed, together with what libusb may still have.
    private func release(_ transfers: [USBTransfer]) {
      pipe = nil
      guard let connection, let events else { return releaseWithoutEvents() }
      self.connection = nil
      self.events = nil
      let location = presence.location
      events.whenIdle { [self] in
        events.cancel()
        job {
          connection.tearDown(transfers)
        } then: { attachment, abandoned in
          if abandoned > 0 {
            attachment.context.log.write(
              .warning, "\(location) did not give \(abandoned) transfers back: they are left to it")
          }
          attachment.closed()
        }
      }
    }

    private func releaseWithoutEvents() {
      guard let connection else { return }
      self.connection = nil
      job {
        connection.close()
      } then: { attachment, _ in
        attachment.closed()
      }
    }

    private func closed() {
      life.closed(at: context.now)
      perform([])
    }

    // MARK: Helper

    /// Runs `body` on the helper thread and `then` on the loop with what it returned.
    private func job<Value: Sendable>(
      _ body: @escaping @Sendable () -> Value, then: @escaping @Sendable (USBAttachment, Value) -> Void
    ) {
      jobs += 1
      let reference = LoopReference(self, of: context.loop)
      context.worker.run {
        let value = body()
        reference.perform { attachment in
          attachment.jobs -= 1
          then(attachment, value)
        }
      }
    }
  }

  /// What all attachments of a transport share.
  struct USBAttachmentContext {
    let loop: EventLoop
    let log: Log
    let worker: USBWorker
    let options: USBOptions

    var now: Instant { Instant(nanoseconds: loop.now) }
  }
#endif
