#include "opgen/analyze/op_degrees.h"

#include <algorithm>

#include "opgen/analyze/uses.h"

namespace opgen {
namespace {

/// Whether the entry says that the result is linear in those arguments that are; nullopt if it says so of none of them.
std::optional<bool> is_said_linear(const Op& op, const std::vector<Degree>& degrees, size_t result) {
  bool some = false;
  for (const LinearSet& together : op.linear_in) {
    if (!together.gives(result)) continue;
    bool any = false, all = true;
    for (size_t i = 0; i < degrees.size(); ++i) {
      const bool said = together.of(op.schema.arguments[i].name);
      any = any || (said && degrees[i] == Degree::linear);
      all = all && (degrees[i] != Degree::linear || said) && (degrees[i] != Degree::constant || !said);
    }
    if (any && all) return true;
    some = some || any;
  }
  return some ? std::optional(false) : std::nullopt;
}

/// Whether a formula of a gradient depends on the values of the linear arguments: on these, or on results.
bool depends_on_linear(const Rule& rule, const std::vector<Degree>& degrees) {
  for (const auto& [symbol, use] : uses_of(rule.formula)) {
    if (use.whole == 0 && use.elements == 0) continue;
    const auto [what, index] = symbol;
    if (what == Symbol::What::result || (what == Symbol::What::argument && degrees[index] == Degree::linear)) return true;
  }
  return false;
}

/// Whether the op is linear in those arguments that are, together, by its gradients: those of the linear arguments depend on none
/// of their values, and those of all others do, or the op would add something to what is linear. nullopt: it has no gradients.
std::optional<bool> is_linear_by_gradients(const Op& op, const std::vector<Degree>& degrees) {
  if (op.is_view()) return true;
  bool any = false;
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (degrees[i] == Degree::zero || !op.schema.arguments[i].type.is_tensor_like()) continue;
    const bool linear = degrees[i] == Degree::linear;
    for (const Rule& rule : op.reverse) {
      if (std::find(rule.of.begin(), rule.of.end(), i) == rule.of.end()) continue;
      if (depends_on_linear(rule, degrees) == linear) return false;
      any = any || linear;
    }
  }
  return any ? std::optional(true) : std::nullopt;
}

}  // namespace

std::optional<size_t> constant_in(const Op& op, const std::vector<Degree>& degrees) {
  const bool all = op.non_differentiable || (op.body == Op::Body::composite_cpp && op.calls.empty());
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (degrees[i] == Degree::linear && (all || op.is_constant(i))) return i;
  }
  return std::nullopt;
}

std::optional<bool> is_linear(const Op& op, const std::vector<Degree>& degrees, size_t result) {
  const std::optional<bool> said = is_said_linear(op, degrees, result);
  return said ? said : is_linear_by_gradients(op, degrees);
}

}  // namespace opgen
