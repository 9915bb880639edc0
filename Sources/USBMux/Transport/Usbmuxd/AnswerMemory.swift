/// The answer that a daemon gave last, in its own bytes, and what it meant.
///
/// A daemon answers every Connect that it grants with the same property list, and reading one takes longer than
/// all else that tunneld does to open a stream (docs/PERFORMANCE.md). Lives on the loop's thread.
final class AnswerMemory {
  /// Longer answers than a Result are not worth to be kept.
  private static let longest = 1024

  private var body: [UInt8] = []
  private var meaning: DaemonMessage?

  /// Reads a message; the one that came before is known by its bytes.
  ///
  /// - Throws: ``MessageError``.
  func decode(_ frame: Frame) throws(MessageError) -> DaemonMessage {
    if let meaning, frame.dialect == .propertyList, frame.body == body { return meaning }
    let message = try DaemonMessage.decode(frame)
    if case .result = message, frame.dialect == .propertyList, frame.body.count <= Self.longest {
      body = frame.body
      meaning = message
    }
    return message
  }
}
