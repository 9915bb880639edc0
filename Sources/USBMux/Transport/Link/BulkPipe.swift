/// A piece of memory that one outgoing transfer is made of. Whoever holds it fills it; submitting it or giving
/// it back ends that.
@safe
final class TransferBuffer {
  let bytes: UnsafeMutableRawPointer
  let capacity: Int
  /// For the pipe that made it: which of its transfers this is.
  let index: Int

  /// Describes memory that the pipe owns.
  init(bytes: UnsafeMutableRawPointer, capacity: Int, index: Int) {
    unsafe self.bytes = bytes
    self.capacity = capacity
    self.index = index
  }
}

/// The two bulk endpoints of one device's mux interface, as a link sees them: USB, or a simulated phone in this
/// process. Lives on the loop's thread.
protocol BulkPipe: AnyObject {
  /// Who is told of what comes. Set once, before ``start()``; not kept alive.
  var receiver: (any BulkReceiver)? { get set }
  /// Begins to read.
  func start()
  /// Memory for the next outgoing packet, of at least the link's longest packet; nil while `limit` bytes or as many
  /// transfers as there can be are under way: ``BulkReceiver/pipeCanSend()`` tells when it is worth asking again.
  func takeBuffer(behind limit: Int) -> TransferBuffer?
  /// Sends the first `count` bytes as one transfer, after all that were submitted before; a zero-length packet
  /// follows where the length is a multiple of the endpoint's packet size.
  func submit(_ buffer: TransferBuffer, count: Int)
  /// Takes an unused buffer back.
  func giveBack(_ buffer: TransferBuffer)
  /// Ends all transfers. Nothing is told any more.
  func close()
}

/// Who is told what a pipe brings. None of the calls comes from within a call to the pipe.
protocol BulkReceiver: AnyObject {
  /// Bytes of one read, valid during the call.
  func pipeReceived(_ bytes: UnsafeRawBufferPointer)
  /// ``BulkPipe/takeBuffer(behind:)`` may have a buffer again.
  func pipeCanSend()
  /// The device is gone, or must be treated so. Nothing follows.
  func pipeFailed(_ reason: String)
}
