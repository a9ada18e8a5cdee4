#include "opgen/emit/cpp/forward.h"

#include <fmt/format.h>

#include <algorithm>

#include "opgen/analyze/calls.h"
#include "opgen/emit/cpp/node.h"
#include "opgen/emit/cpp/printer.h"
#include "opgen/emit/cpp/records.h"
#include "opgen/text/strings.h"

namespace opgen::cpp {
namespace {

using What = Symbol::What;

class TangentPrinter {
 public:
  TangentPrinter(const Op& op, const std::string& self_source, bool inplace)
      : op_(op), self_source_(self_source), inplace_(inplace) {}

  std::string print() {
    std::vector<std::string> inputs;
    for (const size_t input : op_.differentiable()) inputs.push_back(source(input));
    if (inplace_ && op_.has_node() && op_.is_constant(0)) inputs.insert(inputs.begin(), self_source_);
    if (!op_.has_forward()) {
      if (inputs.empty()) return "";
      return fmt::format(
          "if (!autograd::tangent_levels({}).empty()) fail(ErrorKind::not_implemented, \"{} has no forward mode\");\n",
          join(inputs), op_.name());
    }
    const std::string body = makes_constants() + (op_.tangent_terms.empty() ? rules() : sum_of_terms());
    return fmt::format("for (const autograd::Level level : autograd::tangent_levels({})) {{\n", join(inputs)) + indent(body, 2) +
           "}\n";
  }

 private:
  const std::vector<Argument>& arguments() const { return op_.schema.arguments; }
  std::string makes_constants() const {
    const auto calls = [](const auto& rule) { return calls_factory(rule.formula); };
    const bool any = std::any_of(op_.forward.begin(), op_.forward.end(), calls) ||
                     std::any_of(op_.tangent_terms.begin(), op_.tangent_terms.end(), calls);
    if (!any) return "";
    return fmt::format("const launch::OnDevice there(dispatch::common_device({}));\n", inplace_ ? "self" : op_.result_name(0));
  }
  const std::string& source(size_t argument) const {
    return inplace_ && argument == 0 ? self_source_ : arguments()[argument].name;
  }
  const char* type_of_input(const Type& type) const {
    return type.list ? "std::vector<Tensor>" : op_.takes_rows() ? "auto" : "Tensor";
  }

  Place place() const {
    Place place;
    place.shadowing = identifiers(op_);
    place.shadowing.insert("level");
    for (size_t i = 0; i < arguments().size(); ++i) {
      const std::string& name = arguments()[i].name;
      place.read(What::argument, i, name);
      if (!arguments()[i].type.is_tensor_like()) continue;
      place.read(What::primal, i, name + "_p");
      place.read(What::tangent, i, only_in_a_branch(i) ? fmt::format("autograd::tangent({}, level)", source(i)) : name + "_t");
      if (op_.takes_rows()) {
        place.repeated.insert({{What::argument, i}, {What::primal, i}, {What::tangent, i}});
        place.parts[{{What::argument, i}, Symbol::How::sizes}] = name + ".sizes()";
      }
      place.asked[i] = fmt::format("{}::has_tangent({}, level)", arguments()[i].type.list ? "launch" : "autograd", source(i));
    }
    for (size_t i = 0; i < op_.schema.results.size(); ++i) place.read(What::result, i, op_.result_name(i) + "_p");
    place.read(What::element, 0, "static_cast<int64_t>(i)");
    return place;
  }

  /// How a formula for each element reads elements, each declared; the condition under which it is evaluated: one of the
  /// elements whose tangent it reads has one.
  std::string elements(const Rule& rule, Place& place, std::string& condition) const {
    std::string declared;
    std::vector<std::string> given;
    place.shadowing.insert("i");
    for (const auto& [symbol, use] : uses_of(rule.formula)) {
      const auto [what, index] = symbol;
      const bool tangent = what == What::tangent;
      if (tangent && use.whole > 0) given.push_back("true");
      if (use.elements == 0) continue;
      const std::string list = what == What::result ? op_.result_name(index) : source(index);
      const std::string name = fresh(list + (tangent ? "_t_i" : what == What::argument ? "_i" : "_p_i"), place.shadowing);
      place.shadowing.insert(name);
      place.parts[{symbol, Symbol::How::element}] = name;
      if (what == What::argument)
        declared += fmt::format("const Tensor& {} = {}[i];\n", name, list);
      else
        declared += fmt::format("const Tensor {} = autograd::{}({}[i], level);\n", name, tangent ? "tangent" : "primal", list);
      if (tangent) given.push_back(fmt::format("autograd::has_tangent({}[i], level)", list));
    }
    condition = std::find(given.begin(), given.end(), "true") != given.end() ? "" : join(given, " || ");
    return declared;
  }

  std::string for_each_element(const Rule& rule) const {
    Place place = this->place();
    std::string condition, text = elements(rule, place, condition);
    for (const std::string& declaration : Printer::declare(rule.formula.lets, place)) text += declaration + "\n";
    const std::string result = op_.result_name(rule.of[0]);
    text += fmt::format("autograd::set_tangent({}[i], level, {});\n", result, Printer(place)(rule.formula.value));
    const bool several = condition.find(" || ") != std::string::npos;
    if (!condition.empty()) text = fmt::format("if (!{}) continue;\n", several ? "(" + condition + ")" : condition) + text;
    return fmt::format("for (size_t i = 0; i < {}.size(); ++i) {{\n", result) + indent(text, 2) + "}\n";
  }

  /// A tangent that perhaps no formula reads: where there is none, its zeros are made only there.
  bool only_in_a_branch(size_t input) const {
    return std::none_of(op_.forward.begin(), op_.forward.end(),
                        [&](const Rule& rule) { return reads_in_any_case(rule.formula, What::tangent, input); });
  }

  /// Names x_p and x_t that the formulas read, declared.
  std::string declarations(const Uses& uses, bool with_tangents) const {
    std::string text;
    for (size_t i = 0; i < arguments().size(); ++i) {
      if (!arguments()[i].type.is_tensor_like()) continue;
      const std::string& name = arguments()[i].name;
      const char* type = type_of_input(arguments()[i].type);
      if (uses.count({What::primal, i}))
        text += fmt::format("const {} {}_p = autograd::primal({}, level);\n", type, name, source(i));
      if (with_tangents && uses.count({What::tangent, i}) && !only_in_a_branch(i))
        text += fmt::format("const {} {}_t = autograd::tangent({}, level);\n", type, name, source(i));
    }
    for (size_t i = 0; i < op_.schema.results.size(); ++i) {
      const std::string name = op_.result_name(i);
      if (uses.count({What::result, i}))
        text += fmt::format("const {} {}_p = autograd::primal({}, level);\n",
                            op_.schema.results[i].type.list ? "std::vector<Tensor>" : "Tensor", name, inplace_ ? "self" : name);
    }
    return text;
  }

  std::string set(const std::string& result, const std::string& value) const {
    return fmt::format("autograd::{}({}, level, {});\n", inplace_ ? "update_tangent" : "set_tangent", inplace_ ? "self" : result,
                       value);
  }

  std::string sum_of_terms() const {
    const std::string result = op_.result_name(0);
    const bool one = op_.tangent_terms.size() == 1 && op_.tensors().size() == 1;
    Place place = this->place();
    Uses uses;
    std::string sum;
    for (const TangentTerm& term : op_.tangent_terms) {
      for (const auto& [symbol, use] : uses_of(term.formula)) uses[symbol].whole += use.whole;
      const std::string statement = addend(term, place, one, sum.empty());
      sum += one ? statement : fmt::format("if ({}) {}", place.asked.at(term.input), statement);
    }
    const std::string declared = declarations(uses, false);
    if (one) return declared + sum;
    return declared + "Tensor result_tangent;\n" + sum +
           set(result, fmt::format("launch::broadcast_tangent(result_tangent, {})", inplace_ ? "self" : result));
  }

  /// What one input adds to the tangent, the result of the op or a sum; in a block if that declares something.
  std::string addend(const TangentTerm& term, Place place, bool one, bool first) const {
    const std::string read = fmt::format("autograd::tangent({}, level)", source(term.input));
    const bool several = uses_of(term.formula)[{What::tangent, term.input}].whole > 1;
    place.read(What::tangent, term.input, several ? arguments()[term.input].name + "_t" : read);
    std::string declared = several ? fmt::format("const {} {}_t = {};\n", type_of_input(arguments()[term.input].type),
                                                 arguments()[term.input].name, read)
                                   : "";
    for (const std::string& declaration : Printer::declare(term.formula.lets, place)) declared += declaration + "\n";
    const Printer printer(place);
    const std::string value = first ? printer(term.formula.value) : printer.operand(*term.formula.value);
    if (one) return declared + set(op_.result_name(0), value);
    const std::string sum = first ? value : "launch::plus(result_tangent, " + value + ")";
    const std::string statement = declared + fmt::format("result_tangent = {};\n", sum);
    return declared.empty() ? statement : "{\n" + indent(statement, 2) + "}\n";
  }

  std::string rules() const {
    Uses uses;
    std::string statements;
    for (const Rule& rule : op_.forward) {
      for (const auto& [symbol, use] : uses_of(rule.formula)) {
        if (use.whole > 0 || !use.parts.empty()) uses[symbol].whole += use.whole;
      }
      if (rule.each) {
        statements += for_each_element(rule);
        continue;
      }
      Place place = this->place();
      std::string text;
      for (const std::string& declaration : Printer::declare(rule.formula.lets, place)) text += declaration + "\n";
      text += statement(rule, Printer(place)(rule.formula.value), place.shadowing);
      // Formulas may give the same name to different things.
      const bool block = !rule.formula.lets.empty() && op_.forward.size() > 1;
      const std::string holds = rule.when ? "if (" + condition_at_call(op_, rule.when) + ") " : "";
      statements += block || !holds.empty() ? holds + "{\n" + indent(text, 2) + "}\n" : text;
    }
    return declarations(uses, true) + statements;
  }

  std::string statement(const Rule& rule, const std::string& value, const std::set<std::string>& taken) const {
    if (rule.targets.size() == 1 && !rule.targets[0].is_record()) {
      const std::string result = op_.result_name(rule.of[0]);
      if (!op_.schema.results[rule.of[0]].type.list) return set(result, value);
      return fmt::format(
          "const std::vector<Tensor> tangents = {0};\n"
          "launch::require_length(tangents.size(), {1}.size(), \"the list of tangents\");\n"
          "for (size_t i = 0; i < {1}.size(); ++i) autograd::set_tangent({1}[i], level, tangents[i]);\n",
          value, result);
    }
    const Parts parts = take_apart(
        rule.targets, value, [&](size_t result) { return fresh(op_.result_name(result) + "_tangent", taken); }, "const auto");
    std::string puts = "\n";
    for (const auto& [result, name] : parts.names) puts += set(op_.result_name(result), name);
    return parts.statements + puts;
  }

  const Op& op_;
  const std::string& self_source_;
  bool inplace_;
};

}  // namespace

std::string print_tangents(const Op& op, const std::string& self_source, bool inplace) {
  return TangentPrinter(op, self_source, inplace).print();
}

}  // namespace opgen::cpp
