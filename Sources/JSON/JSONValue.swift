/// A JSON value (RFC 8259). Objects keep the order in which their members were written.
package enum JSONValue: Equatable, Sendable {
  case null
  case boolean(Bool)
  /// A number without fraction or exponent that fits 64 bits.
  case integer(Int64)
  /// Any other number; it is finite.
  case number(Double)
  case string(String)
  case array([JSONValue])
  case object([Member])

  /// A member of an object.
  package struct Member: Equatable, Sendable {
    package let name: String
    package let value: JSONValue

    package init(_ name: String, _ value: JSONValue) {
      self.name = name
      self.value = value
    }
  }

  /// An object of those members whose value is not nil.
  package static func object(of members: KeyValuePairs<String, JSONValue?>) -> JSONValue {
    .object(members.compactMap { name, value in value.map { Member(name, $0) } })
  }

  /// A count that may exceed what an integer of JSON's usual readers holds is cut there.
  package static func count(_ count: UInt64) -> JSONValue { .integer(Int64(clamping: count)) }

  /// The member of an object; nil for another value, or where there is none of this name.
  package subscript(_ name: String) -> JSONValue? {
    guard case .object(let members) = self else { return nil }
    return members.first { $0.name == name }?.value
  }

  package var string: String? { if case .string(let text) = self { text } else { nil } }
  package var integer: Int64? { if case .integer(let number) = self { number } else { nil } }
  package var boolean: Bool? { if case .boolean(let truth) = self { truth } else { nil } }
  package var array: [JSONValue]? { if case .array(let elements) = self { elements } else { nil } }
  package var members: [Member]? { if case .object(let members) = self { members } else { nil } }

  /// Any number.
  package var double: Double? {
    switch self {
    case .integer(let number): Double(number)
    case .number(let number): number
    case .null, .boolean, .string, .array, .object: nil
    }
  }
}

extension JSONValue: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByBooleanLiteral {
  package init(stringLiteral text: String) { self = .string(text) }
  package init(integerLiteral number: Int64) { self = .integer(number) }
  package init(booleanLiteral truth: Bool) { self = .boolean(truth) }
}
