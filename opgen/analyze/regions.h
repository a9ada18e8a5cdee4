#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "opgen/analyze/scalars.h"

namespace opgen {

/// A part of an expression that counts only where conditions hold, outermost first: of `where`, `? :`, and, written x > y, of
/// minimum, maximum and abs.
struct Region {
  struct Step {
    ExprPtr condition;
    bool holds;
  };
  std::vector<Step> path;
  bool written = true;  // the last condition: not that of minimum, maximum or abs

  /// "self > 3 && !(other > self)".
  std::string text() const;
};

using OfName = std::function<Scalar(const std::string&)>;
using IsWhole = std::function<bool(const std::string&)>;

/// Of several expressions, each once. Without those that only single points lie in, as where x == 0: names of integers and bools
/// apart.
std::vector<Region> regions_of(const std::vector<ExprPtr>& expressions, const IsWhole& is_whole);

/// How far a point is from a region: 0 within it, by a margin (a fraction of what is compared); nullopt where that is not known.
Scalar distance(const Region& region, long double margin, const OfName& of_name, const Functions& functions);

}  // namespace opgen
