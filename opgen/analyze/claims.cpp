#include "opgen/analyze/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "opgen/analyze/calls.h"
#include "opgen/analyze/degree.h"
#include "opgen/analyze/element_wise.h"
#include "opgen/analyze/linearity.h"
#include "opgen/analyze/uses.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

/// The value, of an input that has a derivative or of a result, on which a formula depends; "" if there is none.
std::string value_read(const Op& op, const Block& formula) {
  for (const auto& [symbol, use] : uses_of(formula)) {
    const auto [what, index] = symbol;
    if (use.whole == 0 && use.elements == 0) continue;
    if (what == Symbol::What::result) return op.result_name(index);
    if (what == Symbol::What::argument && op.schema.arguments[index].type.is_tensor_like() && !op.is_constant(index))
      return op.schema.arguments[index].name;
  }
  return "";
}

void check_linear(const Op& op) {
  std::set<std::string> inputs;
  for (const size_t input : op.differentiable()) inputs.insert(op.schema.arguments[input].name);
  const auto of_name = [&](const std::string& name) { return inputs.count(name) ? Degree::linear : Degree::constant; };
  if (op.pointwise && degree_of(op.pointwise, of_name) > Degree::linear)
    throw Problem(op.forward[0].at, fmt::format("'{}' is said to be linear, but {} is not: write the formula of its tangent",
                                                op.name(), to_string(op.pointwise)));
  for (const Rule& rule : op.reverse) {
    const std::string read = value_read(op, rule.formula);
    if (read.empty()) continue;
    throw Problem(op.forward[0].at,
                  fmt::format("'{}' is said to be linear, but the gradient of '{}' depends on the values of '{}': write the "
                              "formula of its tangent",
                              op.name(), op.schema.arguments[rule.of[0]].name, read));
  }
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether the gradient of an input that is said to be linear shows it: of results of which the entry says so.
bool shows(const Block& gradient, const LinearSet& set) {
  bool others = false;
  visit(gradient,
        [&](const Term& part) { others = others || (part.reads(Symbol::What::gradient) && !set.gives(part.symbol.index)); });
  return !others;
}

/// `linear:`, of what is not differentiated at all.
void check_linear_in_constants(const Op& op) {
  for (const LinearSet& together : op.linear_in) {
    for (const std::string& name : together.inputs) {
      const size_t input = op.index_of(name);
      if (op.non_differentiable || op.is_constant(input))
        throw Problem(op.at, fmt::format("'{0}' is said to be linear in '{1}', and not to be differentiable in it: write the "
                                         "gradient of '{1}', say 'derivative: {{order: 1, of: OP}}' if the derivatives of OP end "
                                         "with '{0}', or leave out 'linear'",
                                         op.name(), op.schema.arguments[input].label()));
    }
  }
}

/// Whether the op, or of a composite in C++ something that it is made of, is linear in some tensor;
/// asks no composite twice.
bool may_be_linear(const Op& op, Linearity& linearity, std::set<const Op*>& asked) {
  if (!asked.insert(&op).second) return false;
  if (linearity.in_some_tensor(op)) return true;
  const std::set<const Op*> parts = op.body == Op::Body::composite_cpp ? made_of(op) : std::set<const Op*>();
  return std::any_of(parts.begin(), parts.end(), [&](const Op* part) { return may_be_linear(*part, linearity, asked); });
}

/// `linear:` of a composite in C++: what it is made of must be able to be. Where it takes no other tensors, all of it.
void check_linear_by_calls(const Op& op, Linearity& linearity) {
  const std::vector<const Argument*> tensors = op.tensors();
  for (const LinearSet& together : op.linear_in) {
    const bool alone = std::all_of(tensors.begin(), tensors.end(), [&](const Argument* tensor) {
      return together.of(tensor->name) || contains(op.metadata, tensor->name);
    });
    std::map<std::string, bool> linear;  // by name: one of the overloads
    for (const Op* part : made_of(op)) {
      std::set<const Op*> asked;
      const bool is = may_be_linear(*part, linearity, asked);
      linear[part->name()] = linear[part->name()] || is;
    }
    const auto not_linear = std::find_if(linear.begin(), linear.end(), [](const auto& part) { return !part.second; });
    const bool some = std::any_of(linear.begin(), linear.end(), [](const auto& part) { return part.second; });
    if (some && (!alone || not_linear == linear.end())) continue;
    throw Problem(op.body_at,
                  fmt::format("'{}' is said to be linear in '{}', and is made of {}: leave out 'linear', or name other "
                              "'calls'",
                              op.name(), join(together.inputs, "', '"),
                              linear.empty() ? "no op that has derivatives"
                                             : fmt::format("'{}', which is linear in nothing", not_linear->first)));
  }
}

/// `linear:` and `metadata:`, which no formula may contradict.
void check_said(const Op& op, Linearity& linearity) {
  check_linear_in_constants(op);
  if (op.body == Op::Body::composite_cpp) check_linear_by_calls(op, linearity);
  for (const Rule& rule : op.reverse) {
    const Argument& input = op.schema.arguments[rule.of[0]];
    if (contains(op.metadata, input.name))
      throw Problem(rule.at, fmt::format("'{}' is said to read only sizes and dtype of '{}', which has a gradient: leave one of "
                                         "the two out",
                                         op.name(), input.label()));
    for (const LinearSet& together : op.linear_in) {
      if (!together.of(input.name) || !shows(rule.formula, together)) continue;
      for (const auto& [symbol, use] : uses_of(rule.formula)) {
        if (use.whole == 0 && use.elements == 0) continue;
        const auto [what, index] = symbol;
        const bool linear = what == Symbol::What::argument && together.of(op.schema.arguments[index].name);
        if (!linear && what != Symbol::What::result) continue;
        throw Problem(
            rule.at, fmt::format("'{0}' is said to be linear in '{1}', but the gradient of '{1}' depends on the values of '{2}': "
                                 "leave it out of 'linear'",
                                 op.name(), input.label(), linear ? op.schema.arguments[index].label() : op.result_name(index)));
      }
    }
  }
}

void check_element_wise(const Op& op) {
  for (const Rule& rule : op.reverse) {
    const Op* const callee = whole_op(rule.formula);
    if (callee == nullptr) continue;
    throw Problem(op.forward[0].at,
                  fmt::format("'{}' is said to act element by element, but the gradient of '{}' calls '{}', which does not: "
                              "write the formula of its tangent",
                              op.name(), op.schema.arguments[rule.of[0]].name, callee->name()));
  }
}

}  // namespace

void check_claims(const Program& program, Problems& problems) {
  Linearity linearity;
  for (const auto& op : program.ops) {
    if (op->external) continue;
    attempt(problems, [&] {
      if (!op->derived) check_said(*op, linearity);
      if (op->linear && !op->forward.empty()) check_linear(*op);
      if (op->element_wise && !op->forward.empty()) check_element_wise(*op);
    });
  }
}

}  // namespace opgen
