#include "opgen/resolve/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "opgen/derive/common.h"
#include "opgen/ir/build.h"
#include "opgen/resolve/convert.h"
#include "opgen/resolve/resolver.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

bool is_none(const Type& type) { return type.base == Base::none && !type.list; }

/// The value of a formula for one input or result; `none` says that there is nothing.
TermPtr as_tensor(const TermPtr& value, bool list, const std::string& what) {
  if (is_none(value->type)) return convert_to(list ? type_of(Base::tensor, true) : tensor_type(true), value);
  if (value->type.base == Base::none && list) return convert_to(type_of(Base::tensor, true), value);
  if (value->type.base != Base::tensor || value->type.list != list)
    throw Problem(value->at, fmt::format("{} must be {}, but the formula is {}", what, list ? "Tensor[]" : "Tensor",
                                         value->type.to_string()));
  return value;
}

void require_tuple(const Type& type, const Position& at, const std::vector<std::string>& keys, const char* what) {
  if (type.base != Base::tuple || type.elements.size() != keys.size())
    throw Problem(
        at, fmt::format("the formula of '{}' must give {} {}, but it is {}", join(keys), keys.size(), what, type.to_string()));
}

/// Names that formulas of the op may read or that stand around them: lets that are made have others.
std::set<std::string> names_of(const Op& op) {
  std::set<std::string> names = {"grad", "grads", "level", "sink"};
  for (const Argument& argument : op.schema.arguments) {
    for (const char* suffix : {"", "_p", "_t"}) names.insert(argument.name + suffix);
  }
  for (size_t i = 0; i < op.schema.results.size(); ++i) names.insert(op.result_name(i));
  return names;
}

bool reads_gradient(const Block& formula, size_t result) {
  const std::function<bool(const Term&)> visit = [&](const Term& term) {
    if (term.reads(Symbol::What::gradients) || (term.reads(Symbol::What::gradient) && term.symbol.index == result)) return true;
    return std::any_of(term.arguments.begin(), term.arguments.end(), [&](const TermPtr& part) { return visit(*part); });
  };
  return visit(*formula.value) ||
         std::any_of(formula.lets.begin(), formula.lets.end(), [&](const Let& let) { return visit(*let.value); });
}

Rule reverse_rule(const Entry& entry, const WrittenRule& written, const Program& program, const Op& op) {
  Rule rule;
  rule.at = written.at;
  for (const std::string& key : written.keys) rule.of.push_back(op.index_of(key));
  Scope scope = reverse_scope(op, program);
  for (const Argument* argument : op.tensors()) {
    const WrittenRule* const its = entry.reverse_rule(argument->name);
    if (its && its->kind != WrittenRule::Kind::non_differentiable) scope.asked[argument->name] = op.index_of(argument->name);
  }
  rule.formula = share_common_calls(Resolver(scope).resolve_body(written.formula), names_of(op));
  TermPtr& value = rule.formula.value;
  if (rule.of.size() == 1)
    value = as_tensor(value, op.schema.arguments[rule.of[0]].type.list, fmt::format("the gradient of '{}'", written.keys[0]));
  else
    require_tuple(value->type, value->at, written.keys, "gradients");
  return rule;
}

size_t result_of(const Op& op, const std::string& name) {
  size_t index = 0;
  while (op.result_name(index) != name) ++index;
  return index;
}

Rule forward_rule(const WrittenRule& written, const Program& program, const Op& op) {
  Rule rule;
  rule.at = written.at;
  for (const std::string& key : written.keys) rule.of.push_back(result_of(op, key));
  Scope scope = forward_scope(op, program);
  rule.formula = share_common_calls(Resolver(scope).resolve_body(written.formula), names_of(op));
  TermPtr& value = rule.formula.value;
  if (rule.of.size() == 1)
    value = as_tensor(value, op.schema.results[rule.of[0]].type.list, fmt::format("the tangent of '{}'", written.keys[0]));
  else
    require_tuple(value->type, value->at, written.keys, "tangents");
  return rule;
}

/// With several results, none may be forgotten: a gradient that no formula reads, or a tangent that no formula gives, is a
/// silent zero.
void require_all_results(const Entry& entry, const Op& op) {
  if (!op.has_node() || op.limit.order > 0 || op.schema.results.size() < 2) return;
  for (size_t i = 0; i < op.schema.results.size(); ++i) {
    if (op.is_constant_result(i)) continue;
    const std::string name = op.result_name(i);
    const bool read =
        std::any_of(op.reverse.begin(), op.reverse.end(), [&](const Rule& rule) { return reads_gradient(rule.formula, i); });
    if (!read)
      throw Problem(entry.derivative_at,
                    fmt::format("no formula of '{0}' reads the gradient of its result '{1}': use grad{2}, or "
                                "say '{1}: non_differentiable'",
                                op.name(), name, i));
    const bool given = std::any_of(op.forward.begin(), op.forward.end(), [&](const Rule& rule) {
      return std::find(rule.of.begin(), rule.of.end(), i) != rule.of.end();
    });
    if (!given && op.has_forward())
      throw Problem(entry.derivative_at, fmt::format("'{0}' has no formula for the tangent of its result '{1}': write one, or "
                                                     "'{1}: non_differentiable'",
                                                     op.name(), name));
  }
}

/// What generated nodes can keep track of are tensors.
void require_tensor_results(const Entry& entry, const Op& op) {
  if (!op.has_node()) return;
  for (size_t i = 0; i < op.schema.results.size(); ++i) {
    if (!op.schema.results[i].type.is_tensor_like())
      throw Problem(entry.derivative_at, fmt::format("'{}' returns {}, which has no derivative: say non_differentiable",
                                                     op.name(), op.schema.results[i].type.to_string()));
  }
}

}  // namespace

void resolve_composite(const Entry& entry, const Program& program, Op& op) {
  for (const Text& name : entry.calls) {
    const std::vector<const Op*> called = program.named(name.value());
    if (called.empty())
      throw Problem(name.at(0),
                    fmt::format("no op is named '{}'{}", name.value(), did_you_mean(name.value(), program.op_names())));
    op.calls.insert(op.calls.end(), called.begin(), called.end());
  }
  if (entry.body != Entry::Body::composite) return;
  Scope scope = argument_scope(op, program);
  Block body = Resolver(scope).resolve_body(entry.composite);
  const Type wanted = result_type_of(op.schema);
  const auto converted = convert(body.value, wanted);
  if (!converted)
    throw Problem(entry.composite.body->at, fmt::format("the result must be {}, but '{}' is {}", wanted.to_string(),
                                                        to_string(entry.composite.body), body.value->type.to_string()));
  body.value = converted->first;
  op.composite = std::move(body);
}

void resolve_derivative(const Entry& entry, const Program& program, Op& op) {
  for (const WrittenRule& written : entry.reverse) {
    if (written.kind != WrittenRule::Kind::non_differentiable) continue;
    for (const std::string& key : written.keys) op.constants.push_back(op.index_of(key));
  }
  for (const WrittenRule& written : entry.reverse) {
    if (written.kind == WrittenRule::Kind::formula) op.reverse.push_back(reverse_rule(entry, written, program, op));
  }
  for (const WrittenRule& written : entry.forward) {
    if (written.kind == WrittenRule::Kind::formula) op.forward.push_back(forward_rule(written, program, op));
    if (written.kind != WrittenRule::Kind::non_differentiable) continue;
    for (const std::string& key : written.keys) op.constant_results.push_back(result_of(op, key));
  }
  for (const WrittenTangent& term : entry.tangent_terms) {
    Scope scope = forward_scope(op, program);
    const TermPtr tangent = Resolver(scope).resolve_to(term.formula, tensor_type(true), "the tangent");
    op.tangent_terms.push_back({op.index_of(term.input), share_common_calls({{}, tangent}, names_of(op))});
  }
  require_tensor_results(entry, op);
  require_all_results(entry, op);
}

}  // namespace opgen
