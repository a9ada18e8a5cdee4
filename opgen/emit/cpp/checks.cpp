#include "opgen/emit/cpp/checks.h"

#include <fmt/format.h>

#include "opgen/text/strings.h"

namespace opgen::cpp {

std::string print_check(const Check& check, const Place& place) {
  std::string format;
  std::vector<std::string> values;
  for (const Check::Piece& piece : check.message) {
    for (const char character : piece.text) format += character == '}' ? "}}" : std::string(1, character);
    if (!piece.value) continue;
    format += "{}";
    const std::string value = Printer(place)(piece.value);
    const Type& type = piece.value->type;
    const bool shown = type.is(Base::scalar) || type.is(Base::enumeration);
    values.push_back(type.is(Base::dtype) ? "name(" + value + ")" : shown ? "to_string(" + value + ")" : value);
  }
  // Not check(): what the message shows may not exist where the condition holds, as the sizes of a tensor that is not given.
  values.insert(values.begin(), quote(format));
  if (!check.of.empty()) values.insert(values.begin(), fmt::format("Argument{{{}}}", quote(check.of)));
  const std::string condition = "if (!(" + Printer(place)(check.condition) + "))", refusal = wrap("fail", values, ";");
  const bool one_line = condition.size() + refusal.size() <= 118 && refusal.find('\n') == std::string::npos;
  return condition + (one_line ? " " + refusal + "\n" : "\n" + indent(refusal + "\n", 2));
}

namespace {

std::string require_enums(const Op& op) {
  std::string text;
  for (const Argument& argument : op.schema.arguments) {
    if (argument.type.base != Base::enumeration) continue;
    const std::string& label = argument.label();
    text += argument.type.list
                ? fmt::format("for (const auto value : {}) launch::require_enum(value, {});\n", label, quote(label))
                : fmt::format("launch::require_enum({}, {});\n", label, quote(label));
  }
  return text;
}

}  // namespace

std::string require_arguments(const Op& op) {
  std::string text;
  for (const Argument& argument : op.schema.arguments) {
    if (!argument.type.list || argument.type.length == 0) continue;
    const std::string& label = argument.label();
    const bool optional = argument.type.optional;
    text += fmt::format("{}launch::require_length({}{}size(), {}, {});\n", optional ? "if (" + label + ") " : "", label,
                        optional ? "->" : ".", argument.type.length, quote(label));
  }
  return text + require_enums(op);
}

std::string print_checks(const Op& op, const Place& place) {
  std::string text;
  for (const Check& check : op.checks) text += print_check(check, place);
  return text;
}

}  // namespace opgen::cpp
