#include <algorithm>

#include "opgen/readers/aten/check.h"

namespace opgen::aten {
namespace {

ExprPtr name(const std::string& text, const Position& at) { return make_expr(ExprKind::name, text, {}, at); }
ExprPtr conj(ExprPtr value, const Position& at) { return make_expr(ExprKind::method, "conj", {std::move(value)}, at); }

/// The op itself on the tangents of its tensors.
ExprPtr linear(const Rule& rule, const RuleSet& rules, const Function& function) {
  std::vector<ExprPtr> args;
  for (size_t i = 0; i < function.schema.arguments.size(); ++i) {
    const Rule* reverse = rules.find(true, i);
    const bool tangent = reverse && reverse->is(Rule::Kind::formula);
    args.push_back(name(function.schema.arguments[i].name + (tangent ? "_t" : ""), rule.at));
  }
  return make_expr(ExprKind::call, function.schema.name, std::move(args), rule.at);
}

/// The reverse formula of the one input, with the conjugate tangent for the gradient and values for inputs, conjugate again:
/// right where the Jacobian is diagonal and its own transpose.
ExprPtr element_wise(const Rule& rule, const RuleSet& rules, const Function& function) {
  const Rule* only = nullptr;
  for (const Rule& candidate : rules.rules) {
    if (!candidate.reverse || !candidate.is(Rule::Kind::formula)) continue;
    if (only || candidate.of.size() != 1) return nullptr;
    only = &candidate;
  }
  if (!only || !only->tree) return nullptr;
  const std::string& input = function.schema.arguments[only->of[0]].name;
  return conj(rewrite(only->tree,
                      [&](const ExprPtr& node) -> ExprPtr {
                        if (node->is_name("grad")) return conj(name(input + "_t", node->at), node->at);
                        if (node->is_name(input)) return name(input + "_p", node->at);
                        return nullptr;
                      }),
              rule.at);
}

}  // namespace

ExprPtr forward_formula(const Rule& rule, const RuleSet& rules, const Function& function) {
  if (rule.is(Rule::Kind::auto_linear)) return linear(rule, rules, function);
  if (rule.is(Rule::Kind::auto_element_wise)) return element_wise(rule, rules, function);
  return rule.tree;
}

}  // namespace opgen::aten
