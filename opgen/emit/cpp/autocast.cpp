#include "opgen/emit/cpp/autocast.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/emit/cpp/options.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {

std::string convert_operands(const Op& op, const std::function<std::string(const Argument&)>& convert) {
  const AutocastRule& rule = op.autocast;
  if (rule.to == AutocastRule::To::nothing) return "";
  std::vector<std::string> values;
  for (const Argument& argument : op.schema.arguments) {
    const bool converted = std::find(rule.of.begin(), rule.of.end(), argument.name) != rule.of.end();
    values.push_back(converted ? convert(argument) : argument.name);
  }
  const char* precision = rule.to == AutocastRule::To::half ? "half" : "float32";
  return fmt::format("if (const autograd::Converted converted(autograd::Precision::{}); converted)\n", precision) +
         indent(wrap("return " + op.name(), passed_on(op, values), ";") + "\n", 2);
}

std::string convert_operands(const Op& op) {
  return convert_operands(op, [](const Argument& argument) { return "converted(" + argument.name + ")"; });
}

std::string leave_scope(const Op& op) {
  return op.autocast.to == AutocastRule::To::nothing ? "" : "const Autocast outside(std::nullopt);\n";
}

}  // namespace opgen::cpp
