#if os(Linux)
  internal import EventLoop

  /// Asks an open device for what must be known before its interface is claimed: its serial number when the
  /// kernel has none, and its mode when the user wants a certain one. Asynchronous; each question has a time
  /// limit, and a device that does not answer one is used as it is.
  final class USBPreparation: USBTransferOwner {
    enum Outcome: Equatable {
      /// Claim it now.
      case proceed(serial: String?)
      /// It accepted another mode and is about to leave the bus.
      case modeWasSet(USBDeviceMode)
    }

    enum Question: Equatable {
      case serial
      case mode
      case setMode(USBDeviceMode)
    }

    private let presence: USBPresence
    private let connection: USBConnection
    private let events: USBEvents
    private let mode: USBDeviceMode?
    private let log: Log
    private var transfer: USBTransfer?
    private var question: Question?
    private var serial: String?
    private var done: ((Outcome, [USBTransfer]) -> Void)?

    private static let timeLimit: UInt32 = 1000
    private static let longestAnswer: UInt16 = 255

    /// Whether anything must be asked at all.
    static func isNeeded(_ presence: USBPresence, mode: USBDeviceMode?) -> Bool {
      asksSerial(presence) || mode != nil
    }

    private static func asksSerial(_ presence: USBPresence) -> Bool {
      presence.serial == nil && presence.serialIndex != 0
    }

    /// `done` gets the outcome and what libusb may still have; it is not called after ``cancel()``.
    init(
      _ presence: USBPresence, _ connection: USBConnection, _ events: USBEvents, mode: USBDeviceMode?,
      log: Log,
      done: @escaping (Outcome, [USBTransfer]) -> Void
    ) {
      self.presence = presence
      self.connection = connection
      self.events = events
      self.mode = mode
      self.log = log
      self.done = done
      serial = presence.serial
    }

    func start() {
      if Self.asksSerial(presence) { ask(.serial) } else { askMode() }
    }

    /// Gives up. Returns what libusb may still have.
    func cancel() -> [USBTransfer] {
      done = nil
      transfer?.owner = nil
      defer { transfer = nil }
      return transfer.map { [$0] } ?? []
    }

    private func askMode() {
      if mode != nil { ask(.mode) } else { finish(.proceed(serial: serial)) }
    }

    private func ask(_ question: Question) {
      self.question = question
      transfer = USBTransfer(
        index: 0, isInput: true, capacity: USBTransfer.requestSize + Int(Self.longestAnswer), of: connection)
      transfer?.owner = self
      let status = transfer?.submit(question.request(presence), milliseconds: Self.timeLimit) ?? .invalid
      events.timeLimitsChanged()
      if !status.isOK { answered(nil) }
    }

    func completed(_ transfer: USBTransfer) {
      answered(transfer.failure == nil ? transfer.answer : nil)
    }

    private func answered(_ answer: [UInt8]?) {
      switch question {
      case .serial:
        serial = answer.flatMap(USBSerialNumber.parse(stringDescriptor:))
        askMode()
      case .mode:
        let present = USBPresentMode(answer: answer ?? []).refined(by: presence.configurations)
        switch USBModeRequest.decide(wanted: mode, present: present) {
        case .set(let mode): ask(.setMode(mode))
        case .read, nil:
          if present == .unknown {
            log.write(.info, "\(presence.location) does not tell its mode: it is used as it is")
          }
          finish(.proceed(serial: serial))
        }
      case .setMode(let mode):
        if answer == [0] { return finish(.modeWasSet(mode)) }
        log.write(.warning, "\(presence.location) did not accept mode \(mode.rawValue): it is used as it is")
        finish(.proceed(serial: serial))
      case nil: break
      }
    }

    private func finish(_ outcome: Outcome) {
      let done = done
      self.done = nil
      question = nil
      transfer?.owner = nil
      // From within a call of libusb nothing may be handed on.
      events.whenIdle { [transfer] in done?(outcome, transfer.map { [$0] } ?? []) }
      transfer = nil
    }
  }

  extension USBPreparation.Question {
    /// GET_DESCRIPTOR for string in American English, or the vendor requests about modes.
    func request(_ presence: USBPresence) -> USBControlRequest {
      switch self {
      case .serial:
        USBControlRequest(
          type: 0x80, request: 6, value: 0x0300 | UInt16(presence.serialIndex), index: 0x0409, length: 255)
      case .mode: USBControlRequest(USBModeRequest.read)
      case .setMode(let mode): USBControlRequest(USBModeRequest.set(mode))
      }
    }
  }

  /// A request to endpoint 0 that brings bytes back.
  struct USBControlRequest {
    let type: UInt8
    let request: UInt8
    let value: UInt16
    let index: UInt16
    let length: UInt16
  }

  extension USBControlRequest {
    init(_ mode: USBModeRequest) {
      self.init(
        type: USBModeRequest.requestType, request: mode.request, value: 0, index: mode.index,
        length: mode.answerLength)
    }
  }
#endif
