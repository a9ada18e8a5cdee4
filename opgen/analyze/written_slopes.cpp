#include "opgen/analyze/written_slopes.h"

#include <algorithm>

#include "opgen/analyze/elements.h"

namespace opgen {
namespace {

constexpr int kMaxWays = 64;  // in which conditions on sizes and dtypes turn out

void read(const Op& op, size_t input, std::vector<WrittenSlope>& slopes) {
  Choices choices;
  int ways = 0;
  do {
    const Elements elements(op, input, choices);
    const size_t first = slopes.size();
    const auto when = [&](const Rule& rule) { return rule.when ? elements.of({{}, rule.when}, *rule.when) : nullptr; };
    for (const Rule& rule : op.reverse) {
      const auto found = std::find(rule.of.begin(), rule.of.end(), input);
      if (found == rule.of.end()) continue;
      const auto position = static_cast<size_t>(found - rule.of.begin());
      const Term& value = *rule.formula.value;
      const ExprPtr part =
          rule.of.size() == 1 ? elements.of(rule.formula, value) : elements.of_part(rule.formula, value, position);
      slopes.push_back({input, &value, false, when(rule), part, ""});
    }
    const auto add_tangent = [&](const Block& formula, const ExprPtr& applies) {
      slopes.push_back({input, formula.value.get(), true, applies, elements.of(formula, *formula.value), ""});
    };
    for (const Rule& rule : op.forward) add_tangent(rule.formula, when(rule));
    for (const TangentTerm& term : op.tangent_terms) {
      if (term.input == input) add_tangent(term.formula, nullptr);
    }
    for (size_t i = first; i < slopes.size(); ++i) slopes[i].where = choices.text();
  } while (++ways < kMaxWays && choices.next());
}

}  // namespace

std::vector<WrittenSlope> written_slopes(const Op& op) {
  std::vector<WrittenSlope> slopes;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    if (!op.schema.arguments[i].type.is_tensor()) continue;
    if (op.non_differentiable || op.is_constant(i))
      slopes.push_back({i, nullptr, false, nullptr, make_expr(ExprKind::number, "0", {}), ""});
    else
      read(op, i, slopes);
  }
  return slopes;
}

}  // namespace opgen
