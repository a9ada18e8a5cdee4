#include "opgen/emit/cpp/saved.h"

#include <fmt/format.h>

#include "opgen/emit/cpp/printer.h"
#include "opgen/emit/cpp/types.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {

using How = Symbol::How;

std::string field_type(const Saved& saved) {
  switch (saved.kind) {
    case Saved::Kind::tensor:
    case Saved::Kind::output:
      return saved.rows ? "SavedRows" : saved.type.list ? "SavedTensors" : "SavedTensor";
    case Saved::Kind::count:
      return "size_t";
    case Saved::Kind::value:
      break;
  }
  switch (saved.symbol.how) {
    case How::whole:
      return owned_type(saved.type);
    case How::sizes:
      return saved.rows && !saved.repeated_sizes ? "OperandSizes" : "Dims";
    case How::dtype:
      return "DType";
    case How::device:
      return "Device";
    case How::defined:
      return "bool";
    case How::element:
      break;
  }
  return "";
}

std::string field_name(const Saved& saved) {
  if (saved.kind == Saved::Kind::count) return saved.symbol.name + "_count";
  if (saved.symbol.how == How::whole) return saved.symbol.name;
  if (saved.repeated_sizes) return saved.symbol.name + "_repeated_sizes";
  return saved.symbol.name + "_" + part_name(saved.symbol.how);
}

std::string saved_value(const Saved& saved, const std::string& source) {
  if (saved.kind == Saved::Kind::count) return source + ".size()";
  if (saved.kind != Saved::Kind::value) return source;
  const std::string type = field_type(saved);
  if (saved.symbol.how == How::whole) {
    if (type.starts_with("std::vector")) return fmt::format("{}({}.begin(), {}.end())", type, source, source);
    if (type == "Dims") return "Dims(" + source + ")";
    if (type == "std::optional<Dims>") return fmt::format("{0} ? std::optional<Dims>(Dims(*{0})) : std::nullopt", source);
    return source;
  }
  if (type == "OperandSizes") return "OperandSizes(" + source + ")";
  const std::string part = fmt::format("{}.{}()", source, part_name(saved.symbol.how));
  const bool may_be_missing = saved.symbol.what == Symbol::What::argument && saved.type.optional;
  switch (saved.symbol.how) {
    case How::sizes:  // an undefined tensor has no sizes
      return may_be_missing ? fmt::format("{}.defined() ? Dims({}) : Dims()", source, part) : "Dims(" + part + ")";
    case How::dtype:
      return may_be_missing ? fmt::format("{}.defined() ? {} : DType::float32", source, part) : part;
    case How::device:
      return may_be_missing ? fmt::format("{}.defined() ? {} : Device()", source, part) : part;
    default:
      return part;
  }
}

std::string case_holds(const Op& op, const Saved& saved) {
  std::vector<std::string> conditions;
  for (const TermPtr& when : saved.only_when) {
    const std::string condition = condition_at_call(op, when);
    conditions.push_back(saved.only_when.size() > 1 || when->operation == Operator::logical_or ? "(" + condition + ")"
                                                                                               : condition);
  }
  return conditions.size() > 1 ? "(" + join(conditions, " || ") + ")" : join(conditions);
}

std::string readers_of(const Op& op, const Saved& saved) {
  if (!saved.by_element) return "";
  std::vector<std::string> lists;
  for (const size_t input : saved.only_for) lists.push_back(op.schema.arguments[input].name);
  return ", {" + join(lists) + "}";
}

std::string save_statement(const Op& op, const Saved& saved, const std::string& value) {
  if (saved.kind == Saved::Kind::value || saved.kind == Saved::Kind::count)
    return fmt::format("node->{} = {};\n", field_name(saved), value);
  if (saved.by_element) return fmt::format("node->{}.save({}{});\n", field_name(saved), value, readers_of(op, saved));
  const std::string statement = fmt::format("node->{}.save({});", field_name(saved), value);
  std::vector<std::string> conditions;
  for (const size_t input : saved.only_for)
    conditions.push_back(fmt::format("autograd::requires_grad({})", op.schema.arguments[input].name));
  const std::string wanted = join(conditions, " || "), holds = case_holds(op, saved);
  if (wanted.empty() && holds.empty()) return statement + "\n";
  if (wanted.empty() || holds.empty()) return "if (" + wanted + holds + ") " + statement + "\n";
  return fmt::format("if ({} && {}) {}\n", conditions.size() > 1 ? "(" + wanted + ")" : wanted, holds, statement);
}

}  // namespace opgen::cpp
