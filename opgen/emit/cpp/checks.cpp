#include "opgen/emit/cpp/checks.h"

#include <fmt/format.h>

#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

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
  values.insert(values.begin(), quoted(format));
  if (!check.of.empty()) values.insert(values.begin(), fmt::format("Argument{{{}}}", quoted(check.of)));
  const std::string condition = "if (!(" + Printer(place)(check.condition) + "))", refusal = wrapped("fail", values, ";");
  const bool one_line = condition.size() + refusal.size() <= 118 && refusal.find('\n') == std::string::npos;
  return condition + (one_line ? " " + refusal + "\n" : "\n" + indent(refusal + "\n", 2));
}

}  // namespace

std::string print_checks(const Op& op, const Place& place) {
  std::string text;
  for (const Check& check : op.checks) text += print_check(check, place);
  return text;
}

}  // namespace opgen::cpp
