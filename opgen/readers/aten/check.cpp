#include "opgen/readers/aten/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/ir/build.h"
#include "opgen/readers/aten/convert.h"
#include "opgen/text/strings.h"

namespace opgen::aten {
namespace {

/// How the formulas of a rule set name the gradients that arrive.
struct GradientNames {
  bool plain = false, indexed = false;
  std::vector<std::string> named;
};

GradientNames gradient_names(const RuleSet& rules, const Function& function) {
  GradientNames found;
  for (const Rule& rule : rules.rules) {
    if (!rule.reverse || !rule.tree) continue;
    for (const std::string& name : names_in(rule.tree)) {
      if (name == "grad") found.plain = true;
      if (name == "grads") found.indexed = true;
      if (name.rfind("grad_", 0) != 0 || function.schema.find(name)) continue;
      if (result_index(function, name.substr(5)) >= 0) found.named.push_back(name);
    }
  }
  return found;
}

class Checker {
 public:
  Checker(Checked& checked, Problems& problems) : checked_(checked), problems_(problems) {}

  void record(const Record& record) {
    CheckedRecord result;
    result.record = &record;
    const Function& function = *record.function;
    GradientNames names;
    for (const RuleSet& rules : record.sets) {
      const GradientNames of_set = gradient_names(rules, function);
      check_styles(of_set, rules);
      check_reserved(function, rules);
      names.plain = names.plain || of_set.plain;
    }
    for (size_t i = 0; i < function.schema.results.size(); ++i) {
      if (!function.schema.results[i].type.is_tensor_like()) continue;
      const std::vector<bool>& flags = record.output_differentiability;
      if (flags.empty() ? i == 0 || !names.plain : flags[i]) result.outputs.push_back(function.result_name(i));
    }
    if (record.condition) condition(record);
    for (const RuleSet& rules : record.sets) result.sets.push_back(rule_set(record, rules));
    checked_.entries.push_back(std::move(result));
  }

 private:
  void check_styles(const GradientNames& names, const RuleSet& rules) {
    if (names.plain + names.indexed + !names.named.empty() <= 1) return;
    refuse(problems_, rules.at,
           "formulas of one record name the gradient in one way: grad, grads[i], or grad_ and a result's name");
  }

  /// Arguments may have such a name, but no formula may read it: it has another meaning there.
  void check_reserved(const Function& function, const RuleSet& rules) {
    for (const char* reserved : {"grad", "grads", "grad_input_mask", "retain_variables", "result"}) {
      if (!function.schema.find(reserved)) continue;
      for (const Rule& rule : rules.rules) {
        if (!rule.tree || !mentions(rule.tree, reserved)) continue;
        refuse(problems_, rule.at, fmt::format("'{}' is an argument, and formulas have another meaning for it", reserved));
      }
    }
  }

  Scope arguments(const Function& function) const {
    Scope scope;
    for (const Argument& argument : function.schema.arguments) scope[argument.name] = argument.type;
    return scope;
  }

  Scope scope_of(const Record& record, const RuleSet& rules, const Rule& rule) const {
    const Function& function = *record.function;
    Scope scope = arguments(function);
    for (size_t i = 0; i < function.schema.results.size(); ++i) {
      const Type& type = function.schema.results[i].type;
      scope[function.result_name(i)] = type;
      if (function.schema.results.size() > 1) scope["result" + std::to_string(i)] = type;
    }
    if (function.schema.results.size() == 1) scope["result"] = function.schema.results[0].type;
    const bool foreach = is_foreach(function);
    if (foreach && function.schema.results.empty()) scope["result"] = function.schema.arguments[0].type;
    if (foreach) scope["i"] = type_of(Base::integer);
    if (rule.reverse)
      reverse_scope(function, rule, scope);
    else
      forward_scope(function, rules, foreach, scope);
    return scope;
  }

  void reverse_scope(const Function& function, const Rule& rule, Scope& scope) const {
    const auto& results = function.schema.results;
    scope["grads"] = type_of(Base::tensor, true);
    scope["grad"] = results.empty() ? tensor_type() : results[0].type;
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string name = "grad_" + function.result_name(i);
      if (!scope.count(name)) scope[name] = results[i].type;
    }
    Type mask = type_of(Base::boolean, true);
    mask.length = static_cast<int>(rule.of.size());
    scope["grad_input_mask"] = mask;
    scope["retain_variables"] = type_of(Base::boolean);
  }

  /// Values and tangents in place of the differentiable inputs. Lists stay whole: their formulas look for tangents themselves.
  void forward_scope(const Function& function, const RuleSet& rules, bool foreach, Scope& scope) const {
    for (size_t i = 0; i < function.schema.arguments.size(); ++i) {
      const Argument& argument = function.schema.arguments[i];
      const Rule* reverse = rules.find(true, i);
      if (!argument.type.is_tensor_like() || !reverse || !reverse->is(Rule::Kind::formula)) continue;
      const Type type = foreach && argument.type.list ? element_of(argument.type) : argument.type;
      scope[argument.name + "_p"] = type;
      scope[argument.name + "_t"] = type;
      if (argument.alias && argument.alias->written) {
        scope["original_" + argument.name + "_p"] = type;
        scope["original_" + argument.name + "_t"] = type;
      }
      if (!argument.type.list) scope.erase(argument.name);
    }
  }

  void not_typed(const Record& record, const std::string& keys, const Position& at, const std::string& reason) {
    checked_.not_typed.push_back({at, record.function->full_name() + ", " + keys, reason});
  }

  void condition(const Record& record) {
    ++checked_.counts.formulas;
    ++checked_.counts.trees;
    count(record, "output_differentiability",
          type_formula(record.condition, arguments(*record.function), checked_.functions, helpers()));
  }

  void count(const Record& record, const std::string& keys, const Typed& typed) {
    Counts& counts = checked_.counts;
    counts.calls += typed.calls;
    counts.typed_calls += static_cast<int>(typed.callees.size());
    counts.schema_calls += static_cast<int>(
        std::count_if(typed.callees.begin(), typed.callees.end(), [](const Callee& callee) { return callee.schema; }));
    if (typed.reasons.empty()) ++counts.typed_formulas;
    for (const Typed::Reason& reason : typed.reasons) not_typed(record, keys, reason.at, reason.text);
  }

  CheckedSet rule_set(const Record& record, const RuleSet& rules) {
    const Function& function = *record.function;
    CheckedSet result;
    result.rules = &rules;
    for (const Rule& rule : rules.rules) {
      CheckedRule checked;
      checked.rule = &rule;
      checked.tree = rule.reverse ? rule.tree : forward_formula(rule, rules, function);
      const std::string keys = join(rule.keys);
      if (rule.is(Rule::Kind::formula) && !rule.tree) {
        not_typed(record, keys, rule.at, "not a tree: " + rule.not_a_tree);
      } else if (rule.is(Rule::Kind::formula)) {
        checked.typed = type_formula(rule.tree, scope_of(record, rules, rule), checked_.functions, helpers());
        check_result(function, rule, checked.typed);
        count(record, keys, checked.typed);
      } else if (!rule.reverse) {
        check_automatic(record, rules, rule, checked);
      }
      if (rule.reverse && rule.is(Rule::Kind::formula)) {
        for (const size_t input : rule.of) result.inputs.push_back(function.schema.arguments[input].name);
      }
      result.checked.push_back(std::move(checked));
    }
    result.saved = saved_by(rules, function);
    result.forward = forward_kind(rules);
    for (const Saved& saved : result.saved) originals(function, saved, result);
    return result;
  }

  /// In-place functions whose formulas read an input as it was before the call.
  void originals(const Function& function, const Saved& saved, CheckedSet& result) const {
    if (saved.result || !saved.whole) return;
    for (const Function* variant : checked_.families.family(function).in_place) {
      const auto served = checked_.served.find(variant);
      if (served == checked_.served.end() || served->second.record->function != &function) continue;
      const Argument* argument = variant->schema.find(saved.name);
      if (argument && argument->alias && argument->alias->written)
        result.original.push_back(saved.name + " in " + variant->full_name());
    }
  }

  /// A formula's type must be that of what it stands for.
  static void check_result(const Function& function, const Rule& rule, Typed& typed) {
    if (!typed.type) return;
    const auto wanted = [&](size_t index) {
      return rule.reverse ? function.schema.arguments[index].type : function.schema.results[index].type;
    };
    const bool foreach = is_foreach(function);
    const auto serves = [&](const Type& type, Type as) {
      if (foreach && as.list) as = element_of(as);
      return (is_none(type) && as.is_tensor_like()) || distance(type, as) >= 0;
    };
    const auto wrong = [&](const std::string& expected) {
      typed.reasons.push_back({rule.at, fmt::format("the formula is {}, not {}", typed.type->to_string(), expected)});
    };
    if (rule.of.size() == 1) {
      if (!serves(*typed.type, wanted(rule.of[0]))) wrong(wanted(rule.of[0]).to_string());
      return;
    }
    if (typed.type->is_list_of(Base::tensor)) return;  // one for each, counted at run time
    bool fits = typed.type->base == Base::tuple && typed.type->elements.size() == rule.of.size();
    for (size_t i = 0; fits && i < rule.of.size(); ++i) fits = serves(typed.type->elements[i], wanted(rule.of[i]));
    if (!fits) wrong(fmt::format("{} gradients or tangents", rule.of.size()));
  }

  void check_automatic(const Record& record, const RuleSet& rules, const Rule& rule, const CheckedRule& checked) {
    if (rule.is(Rule::Kind::auto_element_wise) && !checked.tree) {
      bool unread = false;  // then that is what is reported
      for (const Rule& other : rules.rules) unread = unread || !other.not_a_tree.empty();
      if (!unread) refuse(problems_, rule.at, "'auto_element_wise' is for one differentiable input, whose formula it takes");
    }
    if (rule.of.size() != 1 || record.function->schema.results.size() != 1)
      refuse(problems_, rule.at, "an automatic forward rule is for functions with one result");
  }

  static std::string forward_kind(const RuleSet& rules) {
    std::string kind = "none";
    for (const Rule& rule : rules.rules) {
      if (rule.reverse) continue;
      if (rule.is(Rule::Kind::auto_linear)) return "auto_linear";
      if (rule.is(Rule::Kind::auto_element_wise)) return "auto_element_wise";
      kind = "formula";
    }
    return kind;
  }

  Checked& checked_;
  Problems& problems_;
};

}  // namespace

Checked check(const File& functions, const File& derivatives, Problems& problems) {
  Checked checked;
  checked.functions = read_functions(functions.path, functions.name, problems);
  if (checked.functions.all.empty() && !problems.empty()) return checked;  // every record would be of no function
  checked.records = read_records(derivatives.path, derivatives.name, checked.functions, problems);
  checked.families = join_families(checked.functions);
  checked.served = served_by(checked.families, checked.functions, checked.records);
  Checker checker(checked, problems);
  for (const Record& record : checked.records.all) checker.record(record);
  Counts& counts = checked.counts;
  counts.schema_entries = checked.functions.entries;
  counts.schemas = static_cast<int>(checked.functions.all.size());
  counts.families = static_cast<int>(checked.families.all.size());
  counts.foreach = static_cast<int>(checked.families.reference.size());
  counts.record_entries = checked.records.entries;
  counts.records = static_cast<int>(checked.records.all.size());
  counts.served = static_cast<int>(checked.served.size());
  for (const auto& function : checked.functions.all) {
    if (checked.served.count(function.get()) > 0 || function->kind == Function::Kind::out) continue;
    if (!function->is_composite()) ++counts.unserved;
    if (is_foreach(*function) && checked.families.reference.count(function.get()) == 0)
      checked.lists_alone.push_back(function.get());
  }
  counts.formulas += checked.records.formulas;
  counts.trees += checked.records.trees;
  return checked;
}

}  // namespace opgen::aten
