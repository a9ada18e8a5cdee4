#include "opgen/emit/site/site.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "opgen/analyze/calls.h"
#include "opgen/emit/cpp/options.h"
#include "opgen/emit/cpp/signature.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/emit/site/latex.h"
#include "opgen/emit/table/facts.h"
#include "opgen/text/json.h"
#include "opgen/text/strings.h"

namespace opgen::site {
namespace {

const char* body_name(const Op& op) {
  static constexpr std::array kNames = {"pointwise", "kernel", "native", "composite", "composite_cpp"};
  return kNames[static_cast<size_t>(op.body)];
}

const char* dtypes_name(Dtypes dtypes) {
  static constexpr std::array kNames = {"floating", "numeric", "all", "integral"};
  return kNames[static_cast<size_t>(dtypes)];
}

void write_at(JsonWriter& json, const Position& at) { json.text("file", at.file).key("line").number(at.line); }

void write(JsonWriter& json, const std::vector<Argument>& arguments) {
  json.key("arguments").open('[');
  for (const Argument& argument : arguments) {
    json.open('{').text("name", argument.label()).text("type", argument.type.to_string());
    json.text("cpp", cpp::parameter_type(argument.type)).flag("option", argument.keyword_only);
    if (argument.default_value) json.text("default", cpp::default_value(argument));
    json.close('}');
  }
  json.close(']');
}

std::set<std::string> names_of(const std::set<const Op*>& ops) {
  std::set<std::string> names;
  for (const Op* op : ops) names.insert(op->name());
  return names;
}

void write(JsonWriter& json, const char* key, const std::set<const Op*>& ops) {
  const std::set<std::string> names = names_of(ops);
  json.list(key, {names.begin(), names.end()});
}

/// Equations in LaTeX: `left = value`, the lets after it.
void write(JsonWriter& json, const Latex& latex, const std::string& left, const Block& formula) {
  json.text("left", left).text("right", latex(*formula.value)).key("with").open('[');
  for (const Let& let : formula.lets)
    json.open('{').text("left", latex.letters().of(let.name)).text("right", latex(*let.value)).close('}');
  json.close(']');
}

std::string join_names(const std::vector<std::string>& parts) {
  return parts.size() == 1 ? parts[0] : "(" + join(parts, ",\\, ") + ")";
}

void write(JsonWriter& json, const Latex& latex, const Rule& rule, bool reverse) {
  std::vector<std::string> lefts;
  for (const Target& target : rule.targets) {
    const std::string letter = latex.letters().of(target.name) + (rule.each ? "_i" : "");
    lefts.push_back(reverse ? add_bar(letter) : add_dot(letter));
  }
  json.open('{');
  write(json, latex, join_names(lefts), rule.formula);
  if (rule.when) json.text("when", latex(*rule.when));
  json.close('}');
}

/// The tangent of a pointwise op: a sum over its inputs.
void write(JsonWriter& json, const Op& op, const Latex& latex) {
  std::vector<std::string> parts;
  for (const TangentTerm& term : op.tangent_terms) parts.push_back(latex(*term.formula.value));
  json.open('{').text("left", add_dot(latex.letters().of(op.result_name(0))));
  json.text("right", join(parts, " + ")).key("with").open('[').close(']').close('}');
}

void write_rules(JsonWriter& json, const Op& op, const Latex& latex) {
  json.key("reverse").open('[');
  for (const Rule& rule : op.reverse) write(json, latex, rule, true);
  json.close(']').key("forward").open('[');
  for (const Rule& rule : op.forward) write(json, latex, rule, false);
  if (!op.tangent_terms.empty()) write(json, op, latex);
  json.close(']').key("constant").open('[');
  for (const size_t input : op.constants) json.value(op.schema.arguments[input].label());
  json.close(']');
}

void write_meaning(JsonWriter& json, const Op& op, const Latex& latex) {
  std::vector<std::string> results;
  for (const Parameter& outcome : op.schema.outcomes())
    results.push_back(latex.letters().of(outcome.is_record() ? outcome.name : op.result_name(outcome.first)));
  const std::string left = results.empty() ? "" : join_names(results);
  json.key("meaning").open('[');
  if (op.pointwise) {
    json.open('{').text("left", left).text("right", latex.expression(op.pointwise)).key("with").open('[').close(']').close('}');
  } else if (op.composite.value) {
    json.open('{');
    write(json, latex, left, op.composite);
    json.close('}');
  }
  json.close(']');
}

/// What an error says, with {} for values.
void write_checks(JsonWriter& json, const Op& op, const Latex& latex) {
  json.key("checks").open('[');
  for (const Check& check : op.checks) {
    std::string says = check.of.empty() ? op.name() + ": " : fmt::format("{}: {} ", op.name(), check.of);
    for (const Check::Piece& piece : check.message) says += piece.value ? "…" : piece.text;
    json.open('{').text("condition", latex(*check.condition)).text("says", says).close('}');
  }
  json.close(']').key("dims").open('[');
  for (const Wrap& wrap : op.wraps) json.value(op.schema.arguments[wrap.argument].name);
  json.close(']');
}

/// What evaluating a pointwise expression takes for one element: operators, and calls of scalar functions by name.
void count(const ExprPtr& expr, std::map<std::string, int>& counts) {
  if (expr->is(ExprKind::binary) || expr->is(ExprKind::unary)) ++counts["arithmetic"];
  if (expr->is(ExprKind::call)) ++counts[expr->text];
  for (const ExprPtr& part : expr->args) count(part, counts);
}

void write_cost(JsonWriter& json, const Op& op) {
  json.key("work").open('{');
  std::map<std::string, int> counts;
  if (op.pointwise) count(op.pointwise, counts);
  for (const auto& [name, times] : counts) json.key(name.c_str()).number(times);
  json.close('}');
  write(json, "calls", calls_of(op));
  write(json, "parts", op.is_composite() ? parts_of(op) : std::set<const Op*>());
  write(json, "backward_calls", reverse_calls(op));
}

void write_functions(JsonWriter& json, const Op& op) {
  json.key("cpp").open('[').value(cpp::signature(op, cpp::Variant::functional, true));
  if (op.inplace) json.value(cpp::signature(op, cpp::Variant::inplace, true));
  if (op.out) json.value(cpp::signature(op, cpp::Variant::out, true));
  json.close(']').text("options", cpp::print_options(op));
}

void write(JsonWriter& json, const Op& op, const Program& program) {
  const Latex latex(op, program);
  const table::Facts facts = table::facts_of(op);
  json.open('{').text("name", op.name()).text("unique", op.unique_name());
  json.text("doc", op.doc)
      .text("math", op.math)
      .text("stem", op.stem)
      .text("body", body_name(op))
      .text("dtypes", dtypes_name(op.dtypes));
  write_at(json, op.at);
  json.flag("derived", op.derived).flag("view", op.is_view());
  write_functions(json, op);
  write(json, op.schema.arguments);
  json.key("letters").open('[');
  for (const auto& [letter, name] : latex.letters().legend()) json.open('{').text("letter", letter).text("name", name).close('}');
  json.close(']').key("kernel_files").open('{');
  for (const auto& [device, kernel] : op.kernels) json.text(device.c_str(), kernel.file);
  json.close('}').text("kernels", facts.kernels).text("saves", facts.saves).text("derivatives", facts.derivatives);
  json.text("autocast", facts.autocast).text("ragged", facts.ragged).list("ragged_dims", {facts.dims.begin(), facts.dims.end()});
  json.flag("differentiable", derivatives_of(op).exist);
  json.text("segment_op", op.nested.kind == NestedRule::Kind::segment ? op.nested.segment : "");
  write_meaning(json, op, latex);
  write_rules(json, op, latex);
  write_checks(json, op, latex);
  write_cost(json, op);
  json.close('}');
}

}  // namespace

std::string json_of(const Program& program) {
  JsonWriter json;
  json.open('{').key("ops").open('[');
  for (const auto& op : program.ops) {
    if (!op->external) write(json, *op, program);
  }
  json.close(']').key("types").open('[');
  for (const auto& type : program.enums) {
    if (type->external) continue;
    json.open('{').text("kind", "enum").text("name", type->name).text("doc", type->doc).text("stem", type->stem);
    write_at(json, type->at);
    json.list("values", type->values).close('}');
  }
  for (const auto& type : program.records) {
    if (type->external) continue;
    json.open('{').text("kind", "record").text("name", type->name).text("doc", type->doc).text("stem", type->stem);
    write_at(json, type->at);
    write(json, type->fields);
    json.close('}');
  }
  json.close(']').close('}');
  return json.take() + "\n";
}

}  // namespace opgen::site
