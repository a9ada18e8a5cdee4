#include "opgen/analyze/linearity.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "opgen/analyze/op_degrees.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

std::shared_ptr<const Problem> problem(const Position& at, const std::string& message) {
  return std::make_shared<const Problem>(at, message);
}

/// The dependence of two values that are added, or of which one is taken, or that stand side by side.
Dependence both(const Dependence& a, const Dependence& b, const Position& at, const char* what) {
  Dependence result;
  result.degree = sum_of(a.degree, b.degree);
  result.why = a.why ? a.why : b.why;
  if (result.degree == Degree::other && !result.why) result.why = problem(at, what);
  if (a.parts.size() == b.parts.size()) {
    for (size_t i = 0; i < a.parts.size(); ++i) result.parts.push_back(both(a.parts[i], b.parts[i], at, what));
  }
  return result;
}

bool has(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether the op fills its result with zeros.
bool makes_zeros(const Op& op, const std::vector<Dependence>& arguments) {
  const std::string& name = op.name();
  const bool filled = (name == "full_like" || name == "full") && arguments[1].degree == Degree::zero;
  return name == "zeros" || name == "zeros_like" || filled;
}

bool is_zero_text(const std::string& text) {
  return text == "None" || text == "none" || (!text.empty() && text.find_first_not_of("-0.") == std::string::npos);
}

/// Whether this dtype, in some case, is none of numbers that have derivatives.
bool may_be_integral(const Term& dtype, const Block& formula) {
  if (dtype.is(TermKind::literal)) return dtype.text != "none" && dtype.text.find("float") == std::string::npos;
  if (dtype.reads(Symbol::What::let)) return may_be_integral(*formula.lets[dtype.symbol.index].value, formula);
  if (dtype.is(TermKind::conversion)) return may_be_integral(*dtype.arguments[0], formula);
  return dtype.is(TermKind::condition) &&
         (may_be_integral(*dtype.arguments[1], formula) || may_be_integral(*dtype.arguments[2], formula));
}

Dependence of_default(const Argument& argument) {
  const bool zero = argument.default_value ? is_zero_text(*argument.default_value) : true;
  return {zero ? Degree::zero : Degree::constant};
}

/// Several results, or the fields of a record: linear as a whole if one of them is.
Dependence combine(std::vector<Dependence> parts) {
  const bool linear =
      std::any_of(parts.begin(), parts.end(), [](const Dependence& part) { return part.degree == Degree::linear; });
  return {linear ? Degree::linear : Degree::other, std::move(parts)};
}

/// Appends the degree of each result; records give one for each field.
void collect_results(const Dependence& value, std::vector<Degree>& results) {
  if (value.parts.empty()) results.push_back(value.degree);
  for (const Dependence& part : value.parts) collect_results(part, results);
}

std::vector<Degree> degrees_of(const std::vector<Dependence>& values) {
  std::vector<Degree> degrees;
  for (const Dependence& value : values) degrees.push_back(value.degree);
  return degrees;
}

}  // namespace

/// A formula that is being asked about, and what is known of its lets.
struct Linearity::Reading {
  const Block& formula;
  const DependenceOf& of_symbol;
  std::map<size_t, Dependence> lets = {};
};

Dependence Linearity::of(const Block& formula, const DependenceOf& of_symbol) {
  Reading reading{formula, of_symbol};
  return of(*formula.value, reading);
}

Dependence Linearity::of(const Term& term, Reading& reading) {
  switch (term.kind) {
    case TermKind::literal:
      return {is_zero_text(term.text) ? Degree::zero : Degree::constant};
    case TermKind::zeros:
      return {Degree::zero};
    case TermKind::conversion:
      return of(*term.arguments[0], reading);
    case TermKind::op:
      return of_call(term, reading);
    case TermKind::condition:
      return both(of(*term.arguments[1], reading), of(*term.arguments[2], reading), term.at,
                  "one value of the condition is linear in it, the other constant");
    case TermKind::tuple:
    case TermKind::record:
    case TermKind::list: {
      Dependence all{Degree::zero};
      std::vector<Dependence> parts;
      for (const TermPtr& part : term.arguments) {
        parts.push_back(of(*part, reading));
        Dependence bare = parts.back();
        bare.parts.clear();
        all = both(all, bare, part->at, "one element of the list is linear in it, another constant");
      }
      all.parts = std::move(parts);
      return all;
    }
    case TermKind::index: {
      const Dependence list = of(*term.arguments[0], reading);
      if (term.arguments.size() == 1) return list.part(term.position);
      return {list.degree, {}, list.why};
    }
    case TermKind::operation:
      return {term.operation == Operator::negate && of(*term.arguments[0], reading).degree == Degree::zero ? Degree::zero
                                                                                                           : Degree::constant};
    case TermKind::read:
      break;
    default:  // sizes, bools
      return {};
  }
  if (term.symbol.how != Symbol::How::whole && term.symbol.how != Symbol::How::element) return {};
  if (term.symbol.what != Symbol::What::let) return reading.of_symbol(term.symbol);
  const auto [found, fresh] = reading.lets.emplace(term.symbol.index, Dependence());
  if (fresh) found->second = of(*reading.formula.lets[term.symbol.index].value, reading);
  return reading.lets.at(term.symbol.index);
}

Dependence Linearity::of_call(const Term& call, Reading& reading) {
  const Op& op = *call.op;
  std::vector<Dependence> arguments;
  const std::vector<Parameter> parameters = op.schema.parameters();
  for (size_t p = 0; p < parameters.size(); ++p) {
    const bool given = p < call.arguments.size();
    const Dependence value = given ? of(*call.arguments[p], reading) : Dependence();
    for (size_t i = 0; i < parameters[p].count; ++i) {
      const Argument& argument = op.schema.arguments[parameters[p].first + i];
      arguments.push_back(!given ? of_default(argument) : parameters[p].is_record() ? value.part(i) : value);
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (has(op.metadata, op.schema.arguments[i].name)) arguments[i] = {};
  }
  if (makes_zeros(op, arguments)) return {Degree::zero};
  for (const Dependence& argument : arguments) {
    if (argument.degree == Degree::other) return {Degree::other, {}, argument.why};
  }
  const bool moves = std::any_of(arguments.begin(), arguments.end(),
                                 [](const Dependence& argument) { return argument.degree == Degree::linear; });
  for (size_t p = 0; moves && p < call.arguments.size(); ++p) {
    if (!parameters[p].type.is(Base::dtype) || !may_be_integral(*call.arguments[p], reading.formula)) continue;
    return {Degree::other, {}, problem(call.at, fmt::format("'{}' makes integers of it", op.name()))};
  }
  Dependence result = of_op(op, arguments);
  size_t first = 0;
  explain(result, call, arguments, first);
  return result;
}

void Linearity::explain(Dependence& value, const Term& call, const std::vector<Dependence>& arguments, size_t& result) {
  const size_t first = result;
  for (Dependence& part : value.parts) explain(part, call, arguments, result);
  if (value.parts.empty()) ++result;
  if (value.degree == Degree::other) value.why = std::make_shared<const Problem>(reason(call, arguments, first));
}

Dependence Linearity::of_op(const Op& op, const std::vector<Dependence>& arguments) {
  std::string key;
  for (const Dependence& argument : arguments) key += static_cast<char>('0' + static_cast<int>(argument.degree));
  const auto found = known_.find({&op, key});
  if (found != known_.end()) return found->second;
  return known_[{&op, key}] = results_of(op, arguments);
}

Dependence Linearity::results_of(const Op& op, const std::vector<Dependence>& arguments) {
  if (op.body == Op::Body::pointwise) {
    const auto of_name = [&](const std::string& name) {
      return op.schema.find(name) ? arguments[op.index_of(name)].degree : Degree::constant;
    };
    return {degree_of(op.pointwise, of_name)};
  }
  if (op.body == Op::Body::composite) return of_composite(op, arguments);
  std::vector<Degree> degrees = degrees_of(arguments);
  if (std::count(degrees.begin(), degrees.end(), Degree::linear) > 0) {
    const bool constant = constant_in(op, degrees).has_value();
    const auto of_result = [&](size_t i) -> Dependence {
      const bool linear = !constant && !op.is_constant_result(i) && is_linear(op, degrees, i).value_or(false);
      return {linear ? Degree::linear : Degree::other};
    };
    std::vector<Dependence> outcomes;
    for (const Parameter& outcome : op.schema.outcomes()) {
      std::vector<Dependence> slots;
      for (size_t i = 0; i < outcome.count; ++i) slots.push_back(of_result(outcome.first + i));
      outcomes.push_back(outcome.is_record() ? combine(std::move(slots)) : slots[0]);
    }
    return outcomes.size() == 1 ? outcomes[0] : combine(std::move(outcomes));
  }
  // Linear in arguments that are all zero: zero.
  for (size_t i = 0; i < degrees.size(); ++i) {
    if (degrees[i] == Degree::zero && op.schema.arguments[i].type.is_tensor_like()) degrees[i] = Degree::linear;
  }
  bool zeros = std::count(degrees.begin(), degrees.end(), Degree::linear) > 0;
  for (size_t i = 0; i < op.schema.results.size(); ++i) zeros = zeros && is_linear(op, degrees, i).value_or(false);
  return {zeros ? Degree::zero : Degree::constant};
}

bool Linearity::in_some_tensor(const Op& op) {
  constexpr size_t kMaxChoice = 6;  // of more tensors, one alone or all
  const std::vector<Argument>& arguments = op.schema.arguments;
  std::vector<size_t> tensors;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].type.is_tensor_like()) tensors.push_back(i);
  }
  const size_t count = tensors.size();
  const auto linear_in = [&](const std::vector<bool>& chosen) {
    std::vector<Dependence> values(arguments.size(), Dependence{Degree::constant});
    for (size_t t = 0; t < count; ++t) values[tensors[t]].degree = chosen[t] ? Degree::linear : Degree::constant;
    return of_op(op, values).degree == Degree::linear;
  };
  const size_t choices = count > kMaxChoice ? count : (size_t{1} << count) - 1;
  for (size_t choice = 0; choice < choices; ++choice) {
    std::vector<bool> chosen(count);
    for (size_t t = 0; t < count; ++t) chosen[t] = count > kMaxChoice ? t == choice : ((choice + 1) >> t & 1) != 0;
    if (linear_in(chosen)) return true;
  }
  return count > 0 && linear_in(std::vector<bool>(count, true));
}

Dependence Linearity::of_composite(const Op& op, const std::vector<Dependence>& arguments) {
  const DependenceOf of_symbol = [&](const Symbol& symbol) { return arguments[symbol.index]; };
  Dependence result = of(op.composite, of_symbol);
  for (const auto& [device, formula] : op.composite_on)
    result = both(result, of(formula, of_symbol), op.body_at, "devices differ in it");
  return result;
}

Problem Linearity::reason(const Term& call, const std::vector<Dependence>& arguments, size_t result) {
  const Op& op = *call.op;
  const std::vector<Degree> degrees = degrees_of(arguments);
  if (const std::optional<size_t> constant = constant_in(op, degrees))
    return {call.at, fmt::format("'{}' is not differentiable in '{}'{}", op.name(), op.schema.arguments[*constant].label(),
                                 op.is_composite() ? ""
                                                   : ": write its gradient, or, if derivatives end with it, "
                                                     "'derivative: {order: 1, of: OP}' in its entry")};
  std::vector<std::string> names;  // records by their own
  for (const Parameter& parameter : op.schema.parameters()) {
    const auto first = arguments.begin() + static_cast<std::ptrdiff_t>(parameter.first);
    if (std::any_of(first, first + static_cast<std::ptrdiff_t>(parameter.count),
                    [](const Dependence& argument) { return argument.degree == Degree::linear; }))
      names.push_back(parameter.name);
  }
  for (size_t i = 0; i < arguments.size(); ++i) {  // what it would be linear in too is added
    if (arguments[i].degree != Degree::constant) continue;
    std::vector<Dependence> more = arguments;
    more[i].degree = Degree::linear;
    std::vector<Degree> results;
    collect_results(of_op(op, more), results);
    if (result < results.size() && results[result] == Degree::linear)
      return {call.at, fmt::format("'{}' adds '{}', which is constant in it", op.name(), op.schema.arguments[i].label())};
  }
  const bool formula = op.body == Op::Body::pointwise || op.body == Op::Body::composite;
  const std::optional<bool> linear = formula ? std::optional(false) : is_linear(op, degrees, result);
  if (linear == true) return {call.at, fmt::format("'{}' gives integers, which have no derivative", op.name())};
  const std::string inputs = "'" + join(names, "' and '") + "'" + (names.size() > 1 ? " at once" : "");
  if (linear) return {call.at, fmt::format("'{}' is not linear in {}", op.name(), inputs)};
  return {call.at, fmt::format("nothing says that '{0}' is linear in {1}: say 'linear: {2}' in its entry", op.name(), inputs,
                               names.size() > 1 ? "[" + join(names) + "]" : names[0])};
}

}  // namespace opgen
