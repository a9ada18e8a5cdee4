#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opgen/analyze/scalars.h"

namespace opgen {

/// An expression that is evaluated many times; what it holds several times is computed once.
class Computation {
 public:
  using PlaceOf = std::function<std::optional<size_t>(const std::string&)>;

  /// `place_of`: where `at` finds the value of a name.
  Computation(const ExprPtr& expr, const PlaceOf& place_of, const Functions& functions);
  Scalar at(const std::vector<Scalar>& values) const;
  /// About: 1 for arithmetic, 20 for a function.
  int64_t cost() const;

 private:
  struct Step {
    enum class Kind { constant, name, choice, negate, logical_not, operation, one, two, unknown } kind = Kind::unknown;
    long double constant = 0;
    size_t a = 0, b = 0, c = 0;  // earlier steps; of a name its place
    std::string operation = {};  // or the function of one
    long double (*one)(long double) = nullptr;
    long double (*two)(long double, long double) = nullptr;
  };
  using Known = std::map<const Expr*, size_t>;
  size_t add(Step step);
  size_t add(const ExprPtr& expr, const std::function<size_t(const std::string&)>& name, const Functions& functions,
             Known& known);

  std::vector<Step> steps_;
  mutable std::vector<Scalar> values_;
};

}  // namespace opgen
