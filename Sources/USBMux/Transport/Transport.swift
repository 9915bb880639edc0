internal import EventLoop

/// Where devices come from, and how a stream to one is opened. Lives on the engine's loop thread.
protocol Transport: AnyObject {
  /// Who is told of devices. Set once, before ``start()``.
  var observer: (any TransportObserver)? { get set }
  /// The devices that can be reached now, in the order in which they came.
  var devices: [Device] { get }
  /// Why nothing can be reached; nil when the transport works, or has not been heard of yet.
  var failure: MuxError? { get }
  /// Whether the list of devices is complete.
  var isReady: Bool { get }

  /// How a device of this transport is reached.
  func link(of device: Device) -> LinkStatus

  func start()
  /// Ends all that it has open.
  func stop()
  /// Somebody waits: look again now instead of at the end of a pause.
  func lookNow()
  /// Opens a stream. One of the handler's calls follows, unless the attempt is cancelled first.
  func open(_ device: Device, port: DevicePort, timeout: Int64, _ handler: any OpenHandler) -> any OpenAttempt
  /// The device says that it has no such device: make sure that ``devices`` is right, then call back.
  func refresh(_ done: @escaping () -> Void)
  /// Finds out how a stream to `device` ended that a daemon closed. `epoch` came with the stream.
  func verdict(on device: DeviceID, epoch: UInt64, _ done: @escaping (DeviceEnd) -> Void)
}

/// Who is told of a transport's devices.
protocol TransportObserver: AnyObject {
  func attached(_ device: Device)
  func detached(_ device: Device)
  /// ``Transport/failure`` or ``Transport/isReady`` has changed.
  func transportChanged()
}

/// A stream to a device.
enum DeviceChannel: ~Copyable {
  /// A connected socket, perhaps with its watcher. With an `epoch` its end does not tell why it ended: ask for a verdict.
  case socket(Descriptor, Watcher?, epoch: UInt64?)
  /// An open session of a link in this process. What the device sends is kept until someone takes it over.
  case session(OpenedSession)

  /// Closes it, unused.
  consuming func discard() {
    switch consume self {
    case .socket(_, let watcher, _): watcher?.cancel()
    case .session(let session): session.discard()
    }
  }
}

/// Who is told how an attempt to open a stream went.
protocol OpenHandler: AnyObject {
  func opened(_ channel: consuming DeviceChannel)
  func openFailed(_ error: OpenError)
}

/// Why a stream could not be opened.
enum OpenError: Error, Equatable {
  /// The daemon does not know the device (any more): choose again, once.
  case unknownDevice
  case failed(MuxError)
}

/// An attempt that can be given up. Nothing is called afterwards.
protocol OpenAttempt: AnyObject {
  func cancel()
}
