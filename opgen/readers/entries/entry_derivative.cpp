#include "opgen/readers/entries/entry.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/text/strings.h"

namespace opgen {
std::vector<WrittenRule> EntryReader::rules(const Tree& key, const Tree& value) const {
  if (!value.is_list()) return {rule(key, value)};
  std::vector<WrittenRule> cases;
  ExprPtr others;  // holds where no case before does
  const auto both = [](const ExprPtr& a, const ExprPtr& b) { return a ? make_expr(ExprKind::binary, "&&", {a, b}, b->at) : b; };
  for (size_t i = 0; i < value.size(); ++i) {
    const Tree& element = value.element(i);
    const bool last = i + 1 == value.size();
    if (element.is_map()) file_.check_keys(element, "a case", {"when", "is", "otherwise"});
    if (!element.is_map() || (last ? !element["otherwise"] || element.size() != 1 : !element["when"] || !element["is"]))
      file_.fail(element, last ? "the last case is {otherwise: FORMULA}" : "a case is {when: CONDITION, is: FORMULA}");
    cases.push_back(rule(key, last ? element["otherwise"] : element["is"]));
    if (cases.back().each) file_.fail(key, "a formula for each element has no cases: write it with 'c ? a : b'");
    if (last) {
      cases.back().when = others;
    } else {
      const ExprPtr when = with_canonical_names(expression(element["when"], "when"));
      cases.back().when = both(others, when);
      others = both(others, make_expr(ExprKind::unary, "!", {when}, when->at));
    }
  }
  return cases;
}

ExprPtr EntryReader::with_canonical_names(const ExprPtr& expr) const {
  return rewrite(expr, [this](const ExprPtr& node) -> ExprPtr {
    if (!node->is(ExprKind::name) || canonical(node->text) == node->text) return nullptr;
    return make_expr(ExprKind::name, canonical(node->text), {}, node->at);
  });
}

Formula EntryReader::with_canonical_names(Formula formula) const {
  for (auto& [name, let] : formula.lets) let = with_canonical_names(let);
  if (formula.body) formula.body = with_canonical_names(formula.body);
  return formula;
}

WrittenRule EntryReader::rule(const Tree& key, const Tree& value) const {
  WrittenRule rule;
  std::vector<std::string> names = split(key.scalar(), ',');
  each_element(key, names, rule);
  for (const std::string& name : names) {
    rule.written.push_back(canonical(name));
    const std::vector<std::string> slots = slots_of(rule.written.back());
    rule.keys.insert(rule.keys.end(), slots.begin(), slots.end());
  }
  rule.at = key.at();
  if (value.is_map())
    file_.fail(value, fmt::format("'{}' is a mapping (expected a formula; one by device is a composite's, which formulas call)",
                                  key.scalar()));
  else if (value.is_scalar() && value.scalar() == "non_differentiable")
    rule.kind = WrittenRule::Kind::non_differentiable;
  else if (value.is_scalar() && value.scalar() == "auto_linear")
    rule.kind = WrittenRule::Kind::auto_linear;
  else if (value.is_scalar() && value.scalar() == "auto_element_wise")
    rule.kind = WrittenRule::Kind::auto_element_wise;
  else
    rule.formula = formula(value, "derivative");
  for (const auto& [name, let] : rule.formula.lets) {
    if (rule.each && name == "i") throw Problem(let->at, "'let' may not define 'i', the number of the element");
  }
  if (rule.each && rule.kind != WrittenRule::Kind::formula)
    file_.fail(value, fmt::format("'{}' is said of the whole list: leave '[i]' out", value.scalar()));
  rule.formula = with_canonical_names(std::move(rule.formula));
  return rule;
}

void EntryReader::each_element(const Tree& key, std::vector<std::string>& names, WrittenRule& rule) const {
  for (std::string& name : names) {
    if (!name.ends_with("[i]")) continue;
    rule.each = true;
    name.resize(name.size() - 3);
  }
  if (!rule.each) return;
  if (names.size() > 1) file_.fail(key, fmt::format("a formula for each element is that of one list: '{}[i]'", names[0]));
  if (entry_->schema.find("i"))
    file_.fail(key, "in a formula for each element 'i' is its number: give the argument of this name another one");
}

size_t EntryReader::result_index(const std::string& name) const {
  size_t index = 0;
  while (entry_->result_name(index) != name) ++index;
  return index;
}

void EntryReader::derivative() {
  const Tree value = node_["derivative"];
  if (!value) return;
  entry_->derivative_given = true;
  entry_->derivative_at = value.at();
  if (value.is_scalar()) {
    if (value.scalar() == "auto") {
      if (entry_->body != Entry::Body::pointwise)
        file_.fail(value, "'derivative: auto' differentiates a 'pointwise' expression, and this op has none: write the formulas");
      entry_->derivative_auto = true;
    } else if (value.scalar() == "non_differentiable") {
      entry_->non_differentiable = true;
    } else {
      file_.fail(value, fmt::format("'derivative' is auto, non_differentiable or formulas by input, not '{}'", value.scalar()));
    }
    return;
  }
  if (!value.is_map()) file_.fail(value, "'derivative' is auto, non_differentiable or formulas by input");
  std::vector<std::string> results, names;
  for (size_t i = 0; i < entry_->schema.results.size(); ++i) results.push_back(entry_->result_name(i));
  for (const Parameter& parameter : entry_->schema.parameters()) names.push_back(parameter.name);
  names.insert(names.end(), results.begin(), results.end());
  if (value["order"]) return order_limit(value);
  std::set<std::string> seen;
  for (const Branch& pair : value.branches()) {
    std::vector<WrittenRule> cases = rules(pair.key, pair.value);
    const WrittenRule& parsed = cases[0];
    bool is_result = false;
    for (const std::string& key : parsed.keys) {
      if (!seen.insert(key).second) file_.fail(pair.key, fmt::format("'{}' has two formulas", key));
      const bool result = std::find(results.begin(), results.end(), key) != results.end();
      if (!result && !entry_->schema.find(key))
        file_.fail(pair.key,
                   fmt::format("'{}' has no argument or result named '{}'{}", entry_->name(), key, did_you_mean(key, names)));
      if (!result && !entry_->schema.find(key)->type.is_tensor_like())
        file_.fail(pair.key, fmt::format("'{}' is of type {}: only tensors have derivatives", key,
                                         entry_->schema.find(key)->type.to_string()));
      const bool list = result ? entry_->schema.results[result_index(key)].type.list : entry_->schema.find(key)->type.list;
      if (parsed.each && !list) file_.fail(pair.key, fmt::format("'{}' is no list: write its formula without '[i]'", key));
      is_result = is_result || result;
    }
    for (WrittenRule& parsed_case : cases) {
      const bool formula = parsed_case.kind == WrittenRule::Kind::formula;
      const bool constant = is_result && parsed_case.kind == WrittenRule::Kind::non_differentiable;
      if (cases.size() > 1 && !formula && !constant)
        file_.fail(pair.value, is_result ? "a case is a formula or non_differentiable"
                                         : "a case is a formula; 'none' where there is no gradient");
      (is_result ? entry_->forward : entry_->reverse).push_back(std::move(parsed_case));
    }
  }
}

void EntryReader::order_limit(const Tree& value) {
  file_.check_keys(value, "'derivative' with an order", {"order", "of"});
  const std::optional<int64_t> order = whole_number(value["order"].scalar());
  if (!order || *order < 1 || *order > 3) file_.fail(value["order"], "'order' is the last one that exists: 1, 2 or 3");
  entry_->limit.order = static_cast<int>(*order);
  entry_->limit.of = value["of"] ? file_.text(value["of"], "of").value() : entry_->name();
  entry_->limit.at = value["of"] ? value["of"].at() : value.at();
}

void EntryReader::recompute() {
  const Tree value = node_["recompute"];
  if (!value) return;
  const auto one = [&](const Tree& name) {
    const std::string written = canonical(file_.text(name, "recompute").value());
    std::vector<std::string> results;
    for (const Parameter& outcome : entry_->schema.outcomes())
      results.push_back(outcome.is_record() ? outcome.name : entry_->result_name(outcome.first));
    for (const Group& record : entry_->schema.result_groups) {
      if (written == record.name || written.rfind(record.name + ".", 0) == 0)
        file_.fail(name, fmt::format("'{}' is a record: what is computed again is a result that stands alone", record.name));
    }
    if (std::find(results.begin(), results.end(), written) == results.end())
      file_.fail(name, fmt::format("'{}' has no result named '{}'{}", entry_->name(), written, did_you_mean(written, results)));
    entry_->recompute.push_back(written);
  };
  if (entry_->takes(Base::generator)) file_.fail(value, "what is drawn at random cannot be computed again: it is saved");
  if (entry_->writes_argument()) file_.fail(value, "what is written cannot be computed again: it is saved");
  if (value.is_list()) {
    for (const auto& [ignored, element] : value.branches()) one(element);
  } else {
    one(value);
  }
}

}  // namespace opgen
