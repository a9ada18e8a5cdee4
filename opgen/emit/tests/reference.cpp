#include "opgen/emit/tests/reference.h"

#include <fmt/format.h>

#include "opgen/text/strings.h"

namespace opgen::tests {

std::string reference_cpp(const ExprPtr& expression, const Functions& functions) {
  std::vector<std::string> args;
  for (const ExprPtr& argument : expression->args) args.push_back(reference_cpp(argument, functions));
  switch (expression->kind) {
    case ExprKind::number:
      return expression->text.find_first_of(".eE") == std::string::npos ? expression->text + ".0" : expression->text;
    case ExprKind::name:
      if (expression->text == "inf") return "std::numeric_limits<double>::infinity()";
      if (expression->text == "nan") return "std::numeric_limits<double>::quiet_NaN()";
      return expression->text == "pi" ? "3.14159265358979323846" : expression->text;
    case ExprKind::unary:
      return expression->text + "(" + args[0] + ")";
    case ExprKind::binary:
      return "(" + args[0] + " " + expression->text + " " + args[1] + ")";
    case ExprKind::conditional:
      return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")";
    default:
      if (expression->text == "where") return "(" + args[0] + " ? " + args[1] + " : " + args[2] + ")";
      const auto function = functions.find(expression->text);
      const bool deckles = function == functions.end() || function->second.home.is_deckle();
      return (deckles ? "suite" : function->second.home.space) + "::reference::" + expression->text + "(" + join(args) + ")";
  }
}

}  // namespace opgen::tests
