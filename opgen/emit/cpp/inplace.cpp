#include "opgen/emit/cpp/inplace.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/uses.h"
#include "opgen/emit/cpp/autocast.h"
#include "opgen/emit/cpp/checks.h"
#include "opgen/emit/cpp/forward.h"
#include "opgen/emit/cpp/node.h"
#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/saved.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/emit/cpp/wrapper.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

/// `const Tensor original = clone(self);`, where formulas read self as it was.
std::string keep_original(const Op& op, const NodePlan& plan) {
  std::vector<std::string> readers;
  for (const size_t input : plan.original_self_for) readers.push_back(op.schema.arguments[input].name);
  const char* clone = op.home.plain ? "clone(self)" : "deckle::clone(self)";
  if (readers.size() == plan.slots.size()) return fmt::format("const Tensor original = {};\n", clone);
  return fmt::format("const Tensor original = autograd::active({}) ? {} : self;\n", join(readers), clone);
}

/// Whether the node or a tangent reads the elements of this argument.
bool reads_elements(const Op& op, const NodePlan& plan, size_t argument) {
  const auto read_by = [argument](const auto& formula) {
    return reads(formula, Symbol::What::primal, argument) || reads(formula, Symbol::What::argument, argument);
  };
  for (const Saved& saved : plan.saved) {
    if (saved.kind == Saved::Kind::tensor && saved.symbol.is(Symbol::What::argument, argument)) return true;
  }
  return std::any_of(op.forward.begin(), op.forward.end(), [&](const Rule& rule) { return read_by(rule.formula); }) ||
         std::any_of(op.tangent_terms.begin(), op.tangent_terms.end(),
                     [&](const TangentTerm& term) { return read_by(term.formula); });
}

/// Operands that share memory with self are copied before it is written: formulas read them afterwards.
std::string apart_from_self(const Op& op, const NodePlan& plan, const std::string& name) {
  std::vector<std::string> others, values;
  for (size_t i = 0; i < op.schema.arguments.size(); ++i) {
    const Argument& argument = op.schema.arguments[i];
    const bool other = i > 0 && argument.type.is_tensor() && reads_elements(op, plan, i);
    if (other) others.push_back(argument.name);
    values.push_back(other ? fmt::format("autograd::apart_from(self, {})", argument.name) : argument.name);
  }
  if (others.empty()) return "";
  return fmt::format("if (autograd::shares_memory(self, {{{}}})) return {}({});\n", join(others), name,
                     join(passed_on(op, values)));
}

/// What the node keeps, before self is written: `original` stands for self, and self for the result.
std::string record(const Op& op, const NodePlan& plan, const std::string& original) {
  const std::string inputs = join(differentiable_names(op));
  std::string text = fmt::format("node = std::make_shared<{}>();\nnode->connect({});\n", node_name(op), inputs);
  for (const Saved& saved : plan.saved) {
    if (saved.kind == Saved::Kind::output) continue;
    std::string source = saved.symbol.name;
    if (saved.kind == Saved::Kind::tensor && saved.symbol.is(Symbol::What::argument, 0)) source = original;
    if (saved.symbol.what == Symbol::What::result) source = "self";
    text += save_statement(op, saved, saved_value(saved, source));
  }
  return fmt::format("std::shared_ptr<{}> node;\nif (autograd::records({})) {{\n", node_name(op), inputs) + indent(text, 2) +
         "}\n";
}

}  // namespace

std::string print_inplace(const Op& op, const NodePlan& plan) {
  const bool written = op.writes_argument();
  const std::string head = signature(op, Variant::inplace, false), name = op.name() + (written ? "" : "_");
  const std::string call =
      (written ? call_below(op) : "raw::" + op.name() + "_out(self, " + join(op.argument_names()) + ")") + ";\n";
  const std::string after_write = "autograd::bump_version(self);\n";
  if (!op.has_node()) {
    return naming_itself(op, Variant::inplace, head,
                         leave_scope(op) + unpack_options(op) + require_arguments(op) +
                             "autograd::check_inplace(self, false);\n" + call + after_write +
                             "autograd::rebase(self, nullptr);\nautograd::drop_tangents(self);\nreturn self;\n");
  }
  const std::string inputs = join(differentiable_names(op));
  const bool reads_self = plan.slot_of(0) != nullptr;  // else the earlier value is a constant that the write ends
  std::string body = leave_scope(op) + unpack_options(op) + require_arguments(op) +
                     fmt::format("autograd::check_inplace(self, autograd::records({}));\n", inputs);
  body += fmt::format("if (!autograd::active({}{})) {{\n", reads_self ? "" : "self, ", inputs) +
          indent(call + after_write + "return self;\n", 2) + "}\n";
  body += require_one_length(op);
  body += apart_from_self(op, plan, name);
  std::string original = "self";
  if (!plan.original_self_for.empty()) {
    original = "original";
    body += keep_original(op, plan);
  }
  body += record(op, plan, original) + call + after_write;
  body += fmt::format("autograd::rebase(self, node{});\n", reads_self ? "" : ", autograd::kNoSlot");
  std::string after;
  for (const Saved& saved : plan.saved) {
    if (saved.kind == Saved::Kind::output) after += fmt::format("node->{}.save_output(self);\n", field_name(saved));
  }
  const bool one = after.find('\n') == after.size() - 1;
  if (!after.empty()) body += one ? "if (node) " + after : "if (node) {\n" + indent(after, 2) + "}\n";
  body += print_tangents(op, original, true);
  return naming_itself(op, Variant::inplace, head, body + "return self;\n");
}

}  // namespace opgen::cpp
