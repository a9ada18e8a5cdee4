#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "opgen/analyze/computation.h"

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

using IsWhole = std::function<bool(const std::string&)>;

/// The regions of several expressions, each once. Those that only single points lie in (x == 0) are left out, but for names of
/// integers and bools.
std::vector<Region> regions_of(const std::vector<ExprPtr>& expressions, const IsWhole& is_whole);

/// How far points are from a region.
class Distance {
 public:
  using Computed = std::function<Computation(const ExprPtr&)>;
  Distance(const Region& region, const Computed& computed);
  /// 0 within it, by a margin (a fraction of what is compared); nullopt where that is not known. `values`: as computations take
  /// them.
  Scalar at(const std::vector<Scalar>& values, long double margin) const;

 private:
  /// A condition that is to hold, or a part of one.
  struct Condition {
    enum class Kind { both, either, truth, equal, different, greater } kind = Kind::truth;
    bool holds = true;                  // of truth
    bool or_equal = false;              // of greater
    std::vector<Condition> parts = {};  // of both and either
    std::vector<Computation> of = {};   // of truth one, else two
  };
  static Condition condition(const ExprPtr& written, bool holds, const Computed& computed);
  static Scalar distance_to(const Condition& condition, const std::vector<Scalar>& values, long double margin);

  std::vector<Condition> path_;
};

}  // namespace opgen
