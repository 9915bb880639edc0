internal import EventLoop

extension ServerClient {
  func take(_ frame: Frame) {
    if case .listening = state {
      // As usbmuxd does: a listener has nothing to ask for, and programs rely on the end.
      answer(.result(.badCommand), frame.dialect, frame.tag)
      return finish()
    }
    do throws(RequestError) {
      perform(try ClientRequest.decode(frame))
    } catch {
      log(.debug, "bad request: \(error)")
      answer(.result(error.result), error.dialect, error.tag)
    }
  }

  private func perform(_ received: ReceivedRequest) {
    switch received.request {
    case .listen, .listDevices:
      guard !server.hub.transport.isReady else { return answerDevices(received) }
      state = .waiting(received)
      server.hub.whenReady { [weak self] in self?.devicesAreKnown() }
    case .listListeners: answer(.listenerList(server.listenerRecords), to: received)
    case .connect(let device, let port): connect(device, port, received)
    case .readBUID: answer(.buid(server.records.systemIdentity()), to: received)
    case .readPairRecord(let record):
      answer(to: received) { () throws(SystemError) in .pairRecord(try server.records.read(record)) }
    case .savePairRecord(let record, let data, let device):
      answer(to: received) { () throws(SystemError) in
        try server.records.save(data, as: record)
        log(.info, "pair record \(record) is saved")
        return .result(.ok)
      } andThen: {
        server.paired(record, device: device)
      }
    case .deletePairRecord(let record):
      answer(to: received) { () throws(SystemError) in
        try server.records.delete(record)
        log(.info, "pair record \(record) is deleted")
        return .result(.ok)
      }
    }
  }

  private func devicesAreKnown() {
    guard case .waiting(let received) = state else { return }
    state = .commands
    answerDevices(received)
    receive()
  }

  private func answerDevices(_ received: ReceivedRequest) {
    guard case .listen = received.request else {
      return answer(.deviceList(server.devices.records), to: received)
    }
    // The Result and the devices that are there leave in one piece: programs have been seen to take a pause
    // for the end of the list.
    queue(.result(.ok), received.dialect, received.tag)
    for record in server.devices.records where record.isUSB || received.dialect == .propertyList {
      queue(.attached(record), received.dialect, 0)
    }
    state = .listening(Listening(info: received.info, dialect: received.dialect))
    flush()
  }

  // MARK: Answers

  func answer(_ message: DaemonMessage, _ dialect: Dialect, _ tag: UInt32) {
    queue(message, dialect, tag)
    flush()
  }

  func answer(_ message: DaemonMessage, to received: ReceivedRequest) {
    answer(message, received.dialect, received.tag)
  }

  func answer(
    to received: ReceivedRequest, _ work: () throws(SystemError) -> DaemonMessage, andThen: () -> Void = {}
  ) {
    do throws(SystemError) {
      answer(try work(), to: received)
      andThen()
    } catch {
      answer(.result(ResultCode(error)), to: received)
    }
  }
}
