/// A table for people: as wide as its cells, or as wide as there is room for.
struct TextTable {
  struct Column {
    var title: String
    var cells: [String]
    /// The same in less room; nil where there is no shorter form.
    var short: (title: String, cells: [String])?
    /// Which columns are left out where there is no room for all: those with the highest number first, those with
    /// 0 never.
    var dispensability = 0

    init(
      _ title: String, _ cells: [String], short: (title: String, cells: [String])? = nil,
      dispensability: Int = 0
    ) {
      self.title = title
      self.cells = cells
      self.short = short
      self.dispensability = dispensability
    }

    fileprivate var width: Int { cells.reduce(title.count) { max($0, $1.count) } }

    fileprivate var shortened: Column {
      guard let short else { return self }
      return Column(short.title, short.cells, dispensability: dispensability)
    }
  }

  var columns: [Column]

  init(_ columns: [Column]) { self.columns = columns }

  /// The heading and a line for each row. With a width, the columns are shortened as far as that needs, then left
  /// out, and at last the lines are cut.
  func lines(width: Int? = nil) -> [String] {
    var columns = columns
    if let width {
      while Self.width(columns) > width {
        if columns.contains(where: { $0.short != nil }) {
          columns = columns.map(\.shortened)
        } else if let last = Self.mostDispensable(columns) {
          columns.remove(at: last)
        } else {
          break
        }
      }
    }
    let rows = columns.first?.cells.count ?? 0
    let widths = columns.map(\.width)
    let all =
      [Self.line(columns.map(\.title), widths)]
      + (0..<rows).map { row in Self.line(columns.map { $0.cells[row] }, widths) }
    return width.map { width in all.map { $0.cut(to: width) } } ?? all
  }

  private static let gap = 2

  private static func width(_ columns: [Column]) -> Int {
    columns.reduce(-gap) { $0 + $1.width + gap }
  }

  private static func mostDispensable(_ columns: [Column]) -> Int? {
    let index = columns.indices.max { columns[$0].dispensability < columns[$1].dispensability }
    guard let index, columns[index].dispensability > 0 else { return nil }
    return index
  }

  private static func line(_ cells: [String], _ widths: [Int]) -> String {
    var line = ""
    for (index, cell) in cells.enumerated() {
      line += cell
      if index < cells.count - 1 { line += String(repeating: " ", count: widths[index] - cell.count + gap) }
    }
    return line
  }
}

extension String {
  /// At most `width` characters; the last one says so where something is missing.
  func cut(to width: Int) -> String { count <= width ? self : prefix(max(0, width - 1)) + ">" }

  /// The last characters of a long name, which tell more of a UDID than the first.
  func ending(atMost width: Int) -> String { count <= width ? self : ".." + suffix(max(0, width - 2)) }
}
