#include "opgen/emit/dump/dump.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/calls.h"
#include "opgen/analyze/node.h"
#include "opgen/analyze/shared.h"
#include "opgen/text/strings.h"

namespace opgen::dump {
namespace {

using What = Symbol::What;

std::string symbol_text(const Symbol& symbol) {
  const bool forward = symbol.what == What::primal || symbol.what == What::tangent;
  std::string text = !symbol.path.empty() ? symbol.path : forward ? symbol.name.substr(0, symbol.name.size() - 2) : symbol.name;
  if (symbol.what == What::primal) text += ".primal";
  if (symbol.what == What::tangent) text += ".tangent";
  return symbol.how == Symbol::How::whole ? text : text + "." + part_name(symbol.how);
}

std::string list_of(const Term& term) {
  std::vector<std::string> parts;
  for (const TermPtr& argument : term.arguments) parts.push_back(text_of(*argument));
  return "(" + join(parts) + ")";
}

std::string name_and_type(const std::string& name, const Type& type) { return name + ": " + type.to_string(); }

std::string signature_text(const Op& op) {
  std::vector<std::string> arguments, results;
  for (const Parameter& parameter : op.schema.parameters()) arguments.push_back(name_and_type(parameter.name, parameter.type));
  for (const Parameter& outcome : op.schema.outcomes())
    results.push_back(name_and_type(outcome.is_record() ? outcome.name : op.result_name(outcome.first), outcome.type));
  return fmt::format("{}({}) -> {}", op.unique_name(), join(arguments), results.empty() ? "nothing" : join(results));
}

std::string saved_text(const Op& op, const Saved& saved) {
  std::string text = saved.kind == Saved::Kind::count ? saved.symbol.name + ".length" : symbol_text(saved.symbol);
  if (saved.kind == Saved::Kind::tensor || saved.kind == Saved::Kind::output)
    text += saved.by_element ? " (by element)" : " (whole)";
  std::vector<std::string> inputs;
  for (const size_t input : saved.only_for) inputs.push_back(op.schema.arguments[input].label());
  return inputs.empty() ? text : text + " for " + join(inputs, ", ");
}

/// `  reverse  self = ...`, after a line for each let.
std::string formula_text(const char* word, std::vector<std::string> names, const Block& formula, const Rule& rule = {}) {
  if (rule.when) names.back() += " where " + text_of(*rule.when);
  std::string text;
  for (const Let& let : formula.lets) text += fmt::format("  {:<8} let {} = {}\n", word, let.name, text_of(*let.value));
  return text + fmt::format("  {:<8} {} = {}\n", word, join(names), text_of(*formula.value));
}

std::vector<std::string> names_of(const std::vector<size_t>& indices, const std::function<std::string(size_t)>& name) {
  std::vector<std::string> names;
  for (const size_t index : indices) names.push_back(name(index));
  return names;
}

std::vector<std::string> names_of(const Rule& rule) {
  std::vector<std::string> names;
  for (const Target& target : rule.targets) names.push_back(target.name);
  return names;
}

std::string orders_text(const Op& op) {
  if (op.limit.order > 0) return fmt::format("none: those of {} end at order {}", op.limit.of, op.limit.order);
  const Derivatives derivatives = derivatives_of(op);
  const auto word = [&](const std::set<std::string>& missing) { return derivatives.exist && missing.empty() ? "yes" : "no"; };
  return fmt::format("reverse {}, forward {}, second {}", derivatives.exist ? "yes" : "no", word(derivatives.no_forward),
                     word(derivatives.no_second));
}

}  // namespace

std::string text_of(const Term& term) {
  switch (term.kind) {
    case TermKind::literal:
      if (term.type.base == Base::enumeration) return "literal " + term.type.enumeration->name + "." + term.text;
      return "literal " + (term.type.is(Base::string) ? quote(term.text) : term.text);
    case TermKind::read:
      return fmt::format("read {} : {}", symbol_text(term.symbol), term.type.to_string());
    case TermKind::op:
      return "call " + term.op->unique_name() + list_of(term);
    case TermKind::helper:
      return "helper " + term.helper->schema.name + list_of(term);
    case TermKind::zeros:
      return "zeros" + list_of(term);
    case TermKind::operation:
      return std::string(spelling(term.operation)) + list_of(term);
    case TermKind::property:
      return std::string("ask ") + spelling(term.property) + list_of(term);
    case TermKind::conversion:
      return fmt::format("convert({} -> {})", text_of(*term.arguments[0]), term.type.to_string());
    case TermKind::condition:
      return "if" + list_of(term);
    case TermKind::tuple:
      return "tuple" + list_of(term);
    case TermKind::list:
      return "list" + list_of(term);
    case TermKind::record:
      return "record " + term.type.record->name + list_of(term);
    case TermKind::index:
      if (term.arguments.size() == 1 && term.arguments[0]->type.base == Base::record)
        return fmt::format("field {}({})", term.arguments[0]->type.record->fields[term.position].name,
                           text_of(*term.arguments[0]));
      return term.arguments.size() == 1 ? fmt::format("element {}({})", term.position, text_of(*term.arguments[0]))
                                        : "element" + list_of(term);
    case TermKind::wants:
      return "wants " + term.symbol.name;
    case TermKind::has_tangent:
      return "has_tangent " + term.symbol.name;
  }
  return "";
}

std::string text_of(const Op& op) {
  const auto argument = [&](size_t i) { return op.schema.arguments[i].label(); };
  const auto result = [&](size_t i) { return op.result_name(i); };
  std::string text = fmt::format("{:<78} {}:{}\n", signature_text(op), op.at.file.text(), op.at.line);
  if (op.has_node()) {
    std::vector<std::string> saved;
    const NodePlan plan = plan_node(op);
    for (const Saved& field : plan.saved) saved.push_back(saved_text(op, field));
    text += "  saves    " + (saved.empty() ? "nothing" : join(saved)) + "\n";
    const std::vector<size_t> copied(plan.original_self_for.begin(), plan.original_self_for.end());
    if ((op.inplace || op.writes_argument()) && !copied.empty())
      text += "  in place copies self for " + join(names_of(copied, argument)) + "\n";
  }
  if (op.autocast.to != AutocastRule::To::nothing)
    text +=
        fmt::format("  autocast {} to {}\n", join(op.autocast.of), op.autocast.to == AutocastRule::To::half ? "half" : "float32");
  if (op.pointwise) text += "  computes " + to_string(op.computed) + "\n";
  if (op.composite.value) text += formula_text("calls", {"result"}, op.composite);
  for (const auto& [device, formula] : op.composite_on)
    text += formula_text("calls", {"result"}, formula) + fmt::format("  {:<8} on {}\n", "", device);
  if (!op.recomputed.empty()) text += "  computes " + join(names_of(op.recomputed, result)) + " again\n";
  const NodeRules rules = share_between_rules(op);
  for (const SharedCall& call : rules.shared) text += formula_text("reverse", {call.name}, {{}, call.value});
  for (const Rule& rule : rules.rules) text += formula_text("reverse", names_of(rule), rule.formula, rule);
  for (const size_t constant : op.constants) text += fmt::format("  reverse  {} has none\n", argument(constant));
  for (const Rule& rule : op.forward) text += formula_text("forward", names_of(rule), rule.formula, rule);
  for (const auto& [index, when] : op.differentiable_if)
    text += fmt::format("  forward  {} has history where {}\n", result(index), text_of(*when));
  for (const TangentTerm& term : op.tangent_terms) text += formula_text("forward", {result(0) + " (sum)"}, term.formula);
  return text + "  orders   " + orders_text(op) + "\n";
}

}  // namespace opgen::dump
