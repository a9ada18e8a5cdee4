#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opgen/analyze/scalars.h"
#include "opgen/ir/program.h"

namespace opgen {

/// An expression that is evaluated many times; what it holds several times is computed once.
class Computation {
 public:
  using PlaceOf = std::function<std::optional<size_t>(const std::string&)>;

  /// `place_of`: where `at` finds the value of a name.
  Computation(const ExprPtr& expr, const PlaceOf& place_of, const Functions& functions);
  /// nullopt where a function or a name is not known.
  Scalar at(const std::vector<Scalar>& values) const;
  /// About: 1 for arithmetic, 20 for a function.
  int64_t cost() const;

 private:
  struct Step {
    enum class Kind { constant, name, choice, one, two, unknown } kind = Kind::unknown;
    long double constant = 0;
    size_t a = 0, b = 0, c = 0;  // earlier steps; of a name its place
    long double (*one)(long double) = nullptr;
    long double (*two)(long double, long double) = nullptr;
    bool steps = false;  // floor and its like
    int cost = 1;
  };
  using Known = std::map<const Expr*, size_t>;
  size_t add(Step step);
  size_t add_literal(const std::string& text);
  size_t add(const ExprPtr& expr, const std::function<size_t(const std::string&)>& name, const Functions& functions,
             Known& known);

  std::vector<Step> steps_;
  size_t value_ = 0;  // the step of the whole
  mutable std::vector<Scalar> values_;
};

}  // namespace opgen
