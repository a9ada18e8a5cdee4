#include "opgen/emit/cpp/wrapper.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/analyze/calls.h"
#include "opgen/analyze/uses.h"
#include "opgen/emit/cpp/autocast.h"
#include "opgen/emit/cpp/checks.h"
#include "opgen/emit/cpp/forward.h"
#include "opgen/emit/cpp/node.h"
#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/printer.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/emit/cpp/saved.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

std::vector<std::string> result_names(const Op& op) {
  std::vector<std::string> names;
  for (size_t i = 0; i < op.schema.results.size(); ++i) names.push_back(op.result_name(i));
  return names;
}

std::string result_declaration(const Op& op, const std::string& call) {
  std::vector<std::string> names;
  for (const Parameter& outcome : op.schema.outcomes())
    names.push_back(outcome.is_record() ? outcome.name : op.result_name(outcome.first));
  if (names.size() == 1) return fmt::format("{} {} = {};\n", return_type(op), names[0], call) + unpack_results(op);
  return "auto [" + join(names) + "] = " + call + ";\n" + unpack_results(op);
}

std::string return_statement(const Op& op) {
  std::vector<std::string> names;
  for (const Parameter& outcome : op.schema.outcomes())
    names.push_back(outcome.is_record() ? outcome.name : op.result_name(outcome.first));
  return names.size() == 1 ? "return " + names[0] + ";\n" : "return {" + join(names) + "};\n";
}

std::string attach(const Op& op) {
  const std::vector<std::string> names = result_names(op);
  if (names.size() > 1 && op.constant_results.empty() && op.differentiable_if.empty())
    return "autograd::attach_all({" + join(names) + "}, node);\n";
  if (names.size() > 1) {  // each by itself: some are constants, or are where a condition does not hold
    std::string text;
    for (size_t i = 0; i < names.size(); ++i) {
      const char* all = op.schema.results[i].type.list ? "_all" : "";
      const auto when = op.differentiable_if.find(i);
      const bool constant = std::find(op.constant_results.begin(), op.constant_results.end(), i) != op.constant_results.end();
      if (constant)
        text += fmt::format("node->add_output({});\n", names[i]);
      else if (when == op.differentiable_if.end())
        text += fmt::format("autograd::attach{}({}, node);\n", all, names[i]);
      else
        text += fmt::format("if ({}) autograd::attach{}({}, node); else node->add_output({});\n",
                            condition_at_call(op, when->second), all, names[i], names[i]);
    }
    return text;
  }
  const bool each = !op.reverse.empty() && std::all_of(op.reverse.begin(), op.reverse.end(), [](const Rule& rule) {
    return rule.each && reads_own_gradient(rule.formula);
  });
  if (op.schema.results[0].type.list && each)
    return fmt::format("autograd::attach_all({}, node, {{{}}});\n", names[0], join(differentiable_names(op)));
  return fmt::format("autograd::{}({}, node);\n", op.schema.results[0].type.list ? "attach_all" : "attach", names[0]);
}

std::string record(const Op& op, const NodePlan& plan) {
  const std::string inputs = join(differentiable_names(op));
  std::string text = fmt::format("auto node = std::make_shared<{}>();\nnode->connect({});\n", node_name(op), inputs), outputs;
  for (const Saved& saved : plan.saved) {
    if (saved.kind == Saved::Kind::output) {
      const std::string holds = case_holds(op, saved);
      outputs += fmt::format("{3}node->{0}.{1}({0}{2});\n", field_name(saved), saved.type.list ? "save_outputs" : "save_output",
                             readers_of(op, saved), holds.empty() ? "" : "if (" + holds + ") ");
    } else
      text += save_statement(op, saved, saved_value(saved, saved.symbol.name));
  }
  std::string condition = fmt::format("autograd::records({})", inputs);
  if (op.schema.results.size() == 1 && op.differentiable_if.count(0)) {
    const TermPtr& when = op.differentiable_if.at(0);
    const std::string holds = condition_at_call(op, when);
    condition += " && " + (when->operation == Operator::logical_or ? "(" + holds + ")" : holds);
  }
  return "if (" + condition + ") {\n" + indent(text + attach(op) + outputs, 2) + "}\n";
}

/// As in the signature, results last.
std::vector<std::string> lists_in_order(const Op& op, const std::set<std::string>& lists) {
  std::vector<std::string> ordered;
  for (const Argument& argument : op.schema.arguments) {
    if (lists.count(argument.name)) ordered.push_back(argument.name);
  }
  for (const std::string& result : result_names(op)) {
    if (lists.count(result)) ordered.push_back(result);
  }
  return ordered;
}

std::string mark_views(const Op& op) {
  std::string viewed;
  for (const Argument& argument : op.schema.arguments) {
    if (argument.alias && !argument.alias->written) viewed = argument.name;
  }
  const std::string result = op.result_name(0);
  if (!op.schema.results[0].type.list) return fmt::format("autograd::mark_view({}, {});\n", result, viewed);
  return fmt::format("for (const Tensor& view : {}) autograd::mark_view(view, {}, true);\n", result, viewed);
}

}  // namespace

/// Formulas for element i read element i of every list that they name, result among them: these are of one length.
std::string require_one_length(const Op& op) {
  std::set<std::string> lists;
  for (const std::vector<Rule>* rules : {&op.reverse, &op.forward}) {
    for (const Rule& rule : *rules) {
      if (!rule.each) continue;
      const bool backward = rules == &op.reverse;
      for (const size_t of : rule.of) lists.insert(backward ? op.schema.arguments[of].name : op.result_name(of));
      for (const auto& [symbol, use] : uses_of(rule.formula)) {
        if (use.elements == 0) continue;
        const bool argument = symbol.first == Symbol::What::argument || symbol.first == Symbol::What::primal ||
                              symbol.first == Symbol::What::tangent;
        lists.insert(argument ? op.schema.arguments[symbol.second].name : op.result_name(0));
      }
    }
  }
  std::string text, first;
  for (const std::string& list : lists_in_order(op, lists)) {
    if (!first.empty()) text += fmt::format("launch::require_length({0}.size(), {1}.size(), {2});\n", list, first, quote(list));
    if (first.empty()) first = list;
  }
  return text;
}

std::vector<std::string> differentiable_names(const Op& op) {
  std::vector<std::string> names;
  for (const size_t input : op.differentiable()) names.push_back(op.schema.arguments[input].name);
  return names;
}

std::string call_below(const Op& op) {
  return std::string(op.has_raw() ? "raw::" : "native::") + op.name() + "(" + join(op.argument_names()) + ")";
}

std::string print_functional(const Op& op, const NodePlan& plan) {
  const std::string head = op.takes_rows() ? row_signature(op, false) : signature(op, Variant::functional, false);
  const bool view = op.is_view();
  std::vector<std::string> tensors;
  for (const Argument* argument : op.tensors()) tensors.push_back(argument->name);
  const bool checked = !tensors.empty() && !op.schema.results.empty();
  const std::string call = checked ? fmt::format("call_check.{}({})", view ? "view" : "fresh", call_below(op)) : call_below(op);
  std::string body = convert_operands(op) + unpack_records(op) + (op.takes_rows() ? "" : unpack_options(op)) +
                     require_arguments(op) + (checked ? "const autograd::CallCheck call_check(" + join(tensors) + ");\n" : "");
  if (!op.has_node() && !view && (!checked || op.schema.result_groups.empty()))
    return naming_itself(op, Variant::functional, head, body + (op.schema.results.empty() ? call : "return " + call) + ";\n");
  if (!op.schema.result_groups.empty()) {
    body += result_declaration(op, call_below(op)) + fmt::format("call_check.fresh(std::tie({}));\n", join(result_names(op)));
    if (!op.has_node()) return naming_itself(op, Variant::functional, head, body + return_statement(op));
    body += fmt::format("if (!autograd::active({})) {}", join(differentiable_names(op)), return_statement(op));
  } else {
    if (!view) body += fmt::format("if (!autograd::active({})) return {};\n", join(differentiable_names(op)), call);
    body += result_declaration(op, call);
  }
  if (op.has_node()) body += require_one_length(op) + record(op, plan);
  body += view ? mark_views(op) : print_tangents(op);
  return naming_itself(op, Variant::functional, head, body + return_statement(op));
}

std::string print_composite_cpp(const Op& op) {
  const std::string call = "composite::" + op.name() + "(" + join(op.argument_names()) + ")";
  std::vector<std::string> tensors;
  for (const Argument* argument : op.tensors()) tensors.push_back(argument->name);
  std::string body = convert_operands(op) + unpack_options(op) + require_arguments(op);
  if (op.schema.results.empty() || op.writes_argument() || tensors.empty())
    body += factories_there(op) + (op.schema.results.empty() ? "" : "return ") + call + ";\n";
  else
    body += unpack_records(op) + factories_there(op) + "const autograd::CallCheck call_check(" + join(tensors) +
            ");\nreturn call_check.of_others(" + call + ");\n";
  return naming_itself(op, Variant::functional, signature(op, Variant::functional, false), body);
}

std::string print_on_tensors(const Op& op) {
  const std::string call = "return detail::" + op.name() + "(" + join(op.argument_names()) + ");";
  return one_line_or_block(signature(op, Variant::functional, false), unpack_options(op) + call) + "\n";
}

std::string print_composite(const Op& op) {
  Place place;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    place.read(Symbol::What::argument, i, op.schema.arguments[i].label());
    place.shadowing.insert(op.schema.arguments[i].name);
  }
  for (const Group& group : op.schema.groups) {
    place.records[group.first] = group.name;
    place.shadowing.insert(group.name);
  }
  std::string body = convert_operands(op) + unpack_options(op) + require_arguments(op) + print_checks(op, place);
  const auto statements = [&](const Block& formula) {
    Place own = place;
    std::string text = calls_factory(formula) ? factories_there(op) : "";
    for (const std::string& declaration : Printer::declare(formula.lets, own)) text += declaration + "\n";
    return text + "return " + Printer(own).print_result(*formula.value) + ";\n";
  };
  if (const auto found = op.composite_on.find("cuda"); found != op.composite_on.end())
    body += "if (" + common_device(op) + ".is_cuda()) {\n" + indent(statements(found->second), 2) + "}\n";
  body += statements(op.composite);
  return naming_itself(op, Variant::functional, signature(op, Variant::functional, false), body);
}

std::string print_out(const Op& op) {
  std::vector<std::string> tensors = {"out"};
  if (op.has_node()) {
    for (const size_t input : op.differentiable()) tensors.push_back(op.schema.arguments[input].name);
  }
  const std::string body = unpack_options(op) + require_arguments(op) + "autograd::check_out({" + join(tensors) +
                           "});\nraw::" + op.name() + "_out(out, " + join(op.argument_names()) +
                           ");\nautograd::bump_version(out);\nreturn out;\n";
  return naming_itself(op, Variant::out, signature(op, Variant::out, false), body);
}

}  // namespace opgen::cpp
