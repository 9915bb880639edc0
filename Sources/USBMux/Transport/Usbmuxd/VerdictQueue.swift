/// Streams whose end is not explained yet, and the one question to the daemon that is under way.
///
/// A usbmuxd closes the socket of a stream whose app closed, whose phone was unplugged, and when it dies
/// itself. A list of devices that was asked for after the end tells which it was: a usbmuxd handles an unplug
/// in one go, so the list lacks the phone by then. One list answers all ends that came before it was asked
/// for; those that come later wait for the next one.
struct VerdictQueue {
  struct Question {
    let device: DeviceID
    let epoch: UInt64
    let done: (DeviceEnd) -> Void
  }

  private var waiting: [Question] = []
  private var asked: [Question] = []
  private var exchange: DaemonExchange?

  /// Whether a question should go out now.
  var mayAsk: Bool { exchange == nil && !waiting.isEmpty }

  mutating func add(_ question: Question) { waiting.append(question) }

  /// `exchange` will answer all that waits now.
  mutating func asks(_ exchange: DaemonExchange) {
    self.exchange = exchange
    asked = waiting
    waiting = []
  }

  /// The answer is there: what it answers.
  mutating func answered() -> [Question] {
    exchange = nil
    let answered = asked
    asked = []
    return answered
  }

  /// Takes the question back that is under way; returns all that nobody will answer now.
  mutating func cancel() -> [Question] {
    exchange?.cancel()
    exchange = nil
    let open = asked + waiting
    asked = []
    waiting = []
    return open
  }
}
