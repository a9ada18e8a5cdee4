#include "opgen/analyze/derivatives.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/linearity.h"
#include "opgen/analyze/modes.h"
#include "opgen/analyze/uses.h"

namespace opgen {
namespace {

using What = Symbol::What;

/// What tells gradients and tangents apart in messages.
struct Words {
  const char* value;
  const char* variables;
  const char* example;
};
constexpr Words kGradient = {"gradient", "grad", "a formula multiplies grad with a slope, and 'none' is no gradient"};
constexpr Words kTangent = {"tangent", "tangents", "a formula multiplies x_t with a slope, and 'none' is no tangent"};

Dependence variable(const Symbol& symbol) {
  const bool is = symbol.what == What::gradient || symbol.what == What::gradients || symbol.what == What::tangent;
  return is ? Dependence{Degree::linear} : Dependence{};
}

void require_linear(const Dependence& value, const std::string& of, const Block& formula, const Words& words) {
  if (value.degree == Degree::constant)
    throw Problem(formula.value->at, fmt::format("the {} of '{}' must be linear in {}, and is constant: {}", words.value, of,
                                                 words.variables, words.example));
  if (value.degree == Degree::other)
    throw Problem(value.why->at(),
                  fmt::format("the {} of '{}' must be linear in {}: {}", words.value, of, words.variables, value.why->message()));
}

/// One op, of which formulas are written or derived.
class OpDerivatives {
 public:
  OpDerivatives(const Op& op, Linearity& linearity) : op_(op), linearity_(linearity) {}

  void check() {
    for (const Rule& rule : op_.reverse) {
      check_rule(rule, kGradient);
      if (op_.takes_rows()) check_shape(rule);
    }
    for (const Rule& rule : op_.forward) check_rule(rule, kTangent);
    check_cases(op_);
    check_modes(op_);
  }

 private:
  void check_rule(const Rule& rule, const Words& words) { check_formula(rule, rule.formula, words); }

  /// What a formula gives for input or result number `i` of the rule; records stand in it whole.
  static const Dependence& part_for(const Dependence& value, const Rule& rule, size_t i) {
    for (size_t t = 0; t < rule.targets.size(); ++t) {
      const Target& target = rule.targets[t];
      const Dependence& part = rule.targets.size() > 1 ? value.part(t) : value;
      for (size_t field = 0; field < target.slots.size(); ++field) {
        if (target.slots[field] == rule.of[i]) return target.is_record() ? part.part(field) : part;
      }
    }
    return value;
  }

  void check_formula(const Rule& rule, const Block& formula, const Words& words) {
    const Dependence value = linearity_.of(formula, variable);
    for (size_t i = 0; i < rule.of.size(); ++i) {
      const std::string name = &words == &kGradient ? op_.schema.arguments[rule.of[i]].label() : result_label(rule.of[i]);
      require_linear(part_for(value, rule, i), name, formula, words);
    }
  }

  std::string result_label(size_t result) const {
    const std::string& path = op_.schema.results[result].path;
    return path.empty() ? op_.result_name(result) : path;
  }

  /// Operands are broadcast, and their gradients are summed back.
  void check_shape(const Rule& rule) const {
    for (size_t i = 0; i < rule.of.size(); ++i) {
      const bool alone = rule.of.size() == 1;
      if (!alone && !rule.formula.value->is(TermKind::tuple)) continue;
      const Term& value = alone ? *rule.formula.value : *rule.formula.value->arguments[i];
      if (has_shape_of(value, rule.of[i], rule.formula)) continue;
      throw Problem(value.at, fmt::format("the gradient of '{0}' has the shape that the operands are broadcast to: write "
                                          "sum_to(..., {0}.sizes())",
                                          op_.schema.arguments[rule.of[i]].name));
    }
  }

  bool has_shape_of(const Term& term, size_t input, const Block& formula) const {
    const auto of = [&](const TermPtr& part) { return has_shape_of(*part, input, formula); };
    switch (term.kind) {
      case TermKind::literal:
        return true;
      case TermKind::conversion:
        return of(term.arguments[0]);
      case TermKind::read:
        if (term.symbol.what == What::let) return of(formula.lets[term.symbol.index].value);
        return !term.type.is_tensor() || term.symbol.is(What::argument, input);
      case TermKind::condition:
        return of(term.arguments[1]) && of(term.arguments[2]);
      case TermKind::zeros:
      case TermKind::op:
        break;
      default:
        return !term.type.is_tensor();
    }
    for (const TermPtr& argument : term.arguments) {
      const bool let = argument->reads(What::let);
      const Symbol* const sizes = sizes_of(let ? *formula.lets[argument->symbol.index].value : *argument);
      if (sizes != nullptr && sizes->is(What::argument, input)) return true;
    }
    return term.is(TermKind::op) && term.op->body == Op::Body::pointwise &&
           std::all_of(term.arguments.begin(), term.arguments.end(), of);
  }

  const Op& op_;
  Linearity& linearity_;
};

}  // namespace

void check_derivatives(const Program& program, Problems& problems) {
  Linearity linearity;
  for (const auto& op : program.ops) {
    if (!op->external) attempt(problems, [&] { OpDerivatives(*op, linearity).check(); });
  }
}

}  // namespace opgen
