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

bool gives(const Type& type, const Target& target) {
  if (target.is_record()) return type.base == Base::record && type.record == target.type.record;
  return type.base != Base::record;
}

/// A record's tensors one by one: a formula may give them as a tuple.
std::vector<Target> fields_of(const Target& record) {
  std::vector<Target> fields;
  for (size_t i = 0; i < record.slots.size(); ++i) {
    const Argument& field = record.type.record->fields[i];
    if (record.slots[i]) fields.push_back({record.name + "." + field.name, field.type, {record.slots[i]}});
  }
  return fields;
}

/// The value of a formula for `targets`: one of the type of the first, or a tuple.
void require_values(TermPtr& value, std::vector<Target>& targets, const char* what, const char* whats) {
  const Type& type = value->type;
  if (targets.size() == 1 && targets[0].is_record() && type.base != Base::record) targets = fields_of(targets[0]);
  if (targets.size() == 1 && !targets[0].is_record()) {
    value = as_tensor(value, targets[0].type.list, fmt::format("the {} of '{}'", what, targets[0].name));
    return;
  }
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  if (targets.size() > 1 && (type.base != Base::tuple || type.elements.size() != targets.size()))
    throw Problem(value->at, fmt::format("the formula of '{}' must give {} {}, but it is {}", join(names), names.size(), whats,
                                         type.to_string()));
  for (size_t i = 0; i < targets.size(); ++i) {
    const Type& given = targets.size() > 1 ? type.elements[i] : type;
    if (!gives(given, targets[i]))
      throw Problem(value->at, fmt::format("the {} of '{}' must be {}, but the formula gives {}", whats, names[i],
                                           targets[i].type.to_string(), given.to_string()));
  }
}

/// What the keys of a rule stand for; `slot_of` numbers the names of tensors.
template <typename Slots>
std::vector<Target> targets_of(const WrittenRule& written, const std::vector<Parameter>& whole, const Slots& slots,
                               const std::function<size_t(const std::string&)>& slot_of) {
  std::vector<Target> targets;
  size_t next = 0;
  for (const std::string& key : written.written) {
    const auto record =
        std::find_if(whole.begin(), whole.end(), [&](const Parameter& p) { return p.is_record() && p.name == key; });
    if (record == whole.end()) {
      const size_t index = slot_of(written.keys[next++]);
      targets.push_back({key, slots[index].type, {index}});
      continue;
    }
    Target target{key, record->type, {}};
    for (size_t i = record->first; i < record->first + record->count; ++i) {
      const bool tensor = slots[i].type.is_tensor();
      target.slots.push_back(tensor ? std::optional(i) : std::nullopt);
      next += tensor;
    }
    target.type.optional = false;
    targets.push_back(std::move(target));
  }
  return targets;
}

/// Names that formulas of the op may read or that stand around them: lets that are made have others.
std::set<std::string> names_of(const Op& op) {
  std::set<std::string> names = {"grad", "grads", "level", "sink"};
  for (const auto* groups : {&op.schema.groups, &op.schema.result_groups}) {
    for (const Group& group : *groups) names.insert(group.name);
  }
  for (const Argument& argument : op.schema.arguments) {
    for (const char* suffix : {"", "_p", "_t"}) names.insert(argument.name + suffix);
  }
  for (size_t i = 0; i < op.schema.results.size(); ++i) names.insert(op.result_name(i));
  return names;
}

bool reads_gradient(const Block& formula, size_t result) {
  bool found = false;
  visit(formula, [&](const Term& term) {
    found = found || term.reads(Symbol::What::gradients) || (term.reads(Symbol::What::gradient) && term.symbol.index == result);
  });
  return found;
}

/// The condition of a case: of what the call knows.
TermPtr condition_of(const ExprPtr& when, const Program& program, const Op& op) {
  if (!when) return nullptr;
  Scope scope = argument_scope(op, program);
  TermPtr condition = Resolver(scope).resolve_to(when, type_of(Base::boolean), "the condition of a case");
  visit(*condition, [](const Term& term) {
    if (term.is(TermKind::read) && term.type.is_tensor_like() && term.symbol.how == Symbol::How::whole)
      throw Problem(term.at, fmt::format("'when' is decided at the call, from numbers, sizes and dtypes, and the values of '{}' "
                                         "are not among these: write 'c ? a : b'",
                                         term.symbol.name));
  });
  return condition;
}

/// A rule whose keys stand for `whole`, with formulas that may read `scope`; `value` and `values` say what they give.
Rule rule_of(const WrittenRule& written, std::vector<Target> whole, Scope scope, const Program& program, const Op& op,
             const char* value, const char* values) {
  Rule rule;
  rule.at = written.at;
  rule.each = written.each;
  if (rule.each) {
    whole[0].name += "[i]";
    whole[0].type.list = false;
    scope.define_element();
  }
  rule.when = condition_of(written.when, program, op);
  rule.formula = share_common_calls(Resolver(scope).resolve_body(written.formula), names_of(op));
  require_values(rule.formula.value, whole, value, values);
  rule.targets = std::move(whole);
  return rule;
}

Rule reverse_rule(const Entry& entry, const WrittenRule& written, const Program& program, const Op& op) {
  const auto index_of = [&](const std::string& name) { return op.index_of(name); };
  std::vector<Target> whole = targets_of(written, op.schema.parameters(), op.schema.arguments, index_of);
  Scope scope = reverse_scope(op, program);
  for (const Argument* argument : op.tensors()) {
    const WrittenRule* const its = entry.reverse_rule(argument->name);
    if (its && its->kind != WrittenRule::Kind::non_differentiable) scope.asked[argument->label()] = op.index_of(argument->name);
  }
  Rule rule = rule_of(written, std::move(whole), std::move(scope), program, op, "gradient", "gradients");
  for (const std::string& key : written.keys) rule.of.push_back(index_of(key));
  return rule;
}

size_t result_of(const Op& op, const std::string& name) {
  size_t index = 0;
  while (op.result_name(index) != name) ++index;
  return index;
}

Rule forward_rule(const WrittenRule& written, const Program& program, const Op& op) {
  const auto index_of = [&](const std::string& name) { return result_of(op, name); };
  std::vector<Target> whole = targets_of(written, op.schema.outcomes(), op.schema.results, index_of);
  Rule rule = rule_of(written, std::move(whole), forward_scope(op, program), program, op, "tangent", "tangents");
  for (const std::string& key : written.keys) rule.of.push_back(index_of(key));
  return rule;
}

/// With several results, none may be forgotten: a gradient that no formula reads, or a tangent that no formula gives, is a
/// silent zero.
void require_all_results(const Entry& entry, const Op& op) {
  if (!op.has_node() || op.limit.order > 0 || op.schema.results.size() < 2) return;
  for (size_t i = 0; i < op.schema.results.size(); ++i) {
    if (op.is_constant_result(i)) continue;
    const std::string& path = op.schema.results[i].path;
    const std::string name = path.empty() ? op.result_name(i) : path;
    const bool read =
        std::any_of(op.reverse.begin(), op.reverse.end(), [&](const Rule& rule) { return reads_gradient(rule.formula, i); });
    if (!read)
      throw Problem(
          entry.derivative_at,
          fmt::format("no formula of '{0}' reads the gradient of its result '{1}': use grad{2}, or "
                      "say '{1}: non_differentiable'",
                      op.name(), name, path.empty() && op.schema.results[i].name.empty() ? std::to_string(i) : "_" + name));
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

/// Results that have history only where a case with a formula holds.
void resolve_differentiability(const Entry& entry, const Program& program, Op& op) {
  std::map<std::string, ExprPtr> holds;
  std::set<std::string> sometimes;
  for (const WrittenRule& written : entry.forward) {
    for (const std::string& key : written.keys) {
      if (!written.when) continue;
      if (written.kind == WrittenRule::Kind::non_differentiable) {
        sometimes.insert(key);
      } else {
        ExprPtr& all = holds[key];
        all = all ? make_expr(ExprKind::binary, "||", {all, written.when}, written.at) : written.when;
      }
    }
  }
  for (const std::string& key : sometimes) {
    if (op.inplace || op.writes_argument())
      throw Problem(entry.derivative_at,
                    fmt::format("'{}' is written in place, where it cannot lose its history: no case of it may "
                                "be non_differentiable",
                                key));
    if (!holds.count(key))
      throw Problem(entry.derivative_at, fmt::format("no case of '{0}' has a formula: write '{0}: non_differentiable'", key));
    op.differentiable_if[result_of(op, key)] = condition_of(holds.at(key), program, op);
  }
}

}  // namespace

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
    if (written.kind != WrittenRule::Kind::non_differentiable || written.when) continue;
    for (const std::string& key : written.keys) op.constant_results.push_back(result_of(op, key));
  }
  resolve_differentiability(entry, program, op);
  for (const std::string& result : entry.recompute) op.cheap.push_back(result_of(op, result));
  for (const WrittenTangent& term : entry.tangent_terms) {
    Scope scope = forward_scope(op, program);
    const TermPtr tangent = Resolver(scope).resolve_to(term.formula, tensor_type(true), "the tangent");
    op.tangent_terms.push_back({op.index_of(term.input), share_common_calls({{}, tangent}, names_of(op))});
  }
  require_tensor_results(entry, op);
  require_all_results(entry, op);
}

}  // namespace opgen
