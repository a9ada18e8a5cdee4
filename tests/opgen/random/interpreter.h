#pragma once

#include <string>
#include <vector>

#include "tests/opgen/random/entry.h"
#include "tests/opgen/random/jet.h"

namespace deckle::random_entries {

struct Array {
  Sizes sizes;
  std::vector<Jet> elements;
};

/// What was seen on the way: whether a point is fit for derivatives by differences, and how large the numbers became.
struct Sight {
  bool smooth = true;  // no kink, pole or end of a domain is near
  Real largest = 1;    // of all parts of all jets
};

/// The results of an entry at `inputs`, the tensors of its arguments in order. Independent of the generator: it walks the
/// trees, with the rules of calculus in jet.h. Throws std::runtime_error for what it does not know.
std::vector<Array> evaluate(const Entry& entry, const Entries& others, const std::vector<Array>& inputs, Sight& sight);

}  // namespace deckle::random_entries
