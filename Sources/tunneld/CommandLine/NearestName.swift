/// The candidate that was probably meant by a mistyped word, or nil when none is near.
///
/// Near means that the word is the beginning of exactly one candidate, or that at most a third of the
/// candidate's characters (two at least) would have to be changed, added, removed or swapped with their neighbour.
func nearestName(to word: String, among candidates: [String]) -> String? {
  // Nothing that is called by a longer name exists, and the distance costs the product of the lengths.
  let lengthLimit = 40
  let typed = Array(word.lowercased().prefix(lengthLimit + 1))
  guard !typed.isEmpty, typed.count <= lengthLimit else { return nil }

  let begun = candidates.filter { $0.hasPrefix(word) }
  if typed.count >= 2, begun.count == 1 { return begun.first }

  var best: (name: String, distance: Int)?
  for candidate in candidates {
    let distance = editDistance(typed, Array(candidate))
    guard distance <= max(2, candidate.count / 3), distance < candidate.count else { continue }
    if distance < best?.distance ?? .max { best = (candidate, distance) }
  }
  return best?.name
}

/// How many insertions, removals, replacements and swaps of neighbours lead from one word to the other
/// (the restricted Damerau-Levenshtein distance).
private func editDistance(_ first: [Character], _ second: [Character]) -> Int {
  var beforeLast: [Int] = []
  var last = Array(0...second.count)
  for row in first.indices {
    var current = [row + 1]
    for column in second.indices {
      var cost = min(
        last[column + 1] + 1,
        current[column] + 1,
        last[column] + (first[row] == second[column] ? 0 : 1)
      )
      let swapped =
        row > 0 && column > 0 && first[row] == second[column - 1] && first[row - 1] == second[column]
      if swapped { cost = min(cost, beforeLast[column - 1] + 1) }
      current.append(cost)
    }
    beforeLast = last
    last = current
  }
  return last[second.count]
}
