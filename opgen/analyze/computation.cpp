#include "opgen/analyze/computation.h"

#include <cmath>
#include <utility>

namespace opgen {

Computation::Computation(const ExprPtr& expr, const PlaceOf& place_of, const Functions& functions) {
  Known known;
  std::map<std::string, size_t> names;
  const auto name = [&](const std::string& text) {
    const auto [found, fresh] = names.emplace(text, steps_.size());
    if (!fresh) return found->second;
    if (const std::optional<size_t> place = place_of(text)) return add({.kind = Step::Kind::name, .a = *place});
    return add_literal(text);
  };
  value_ = add(expr, name, functions, known);
}

int64_t Computation::cost() const {
  int64_t sum = 0;
  for (const Step& step : steps_) sum += step.cost;
  return sum;
}

size_t Computation::add(Step step) {
  steps_.push_back(std::move(step));
  return steps_.size() - 1;
}

size_t Computation::add_literal(const std::string& text) {
  const Scalar value = literal_value(text);
  return add(value ? Step{.kind = Step::Kind::constant, .constant = *value} : Step{});
}

size_t Computation::add(const ExprPtr& expr, const std::function<size_t(const std::string&)>& name, const Functions& functions,
                        Known& known) {
  if (expr->is(ExprKind::name)) return name(expr->text);
  if (const auto found = known.find(expr.get()); found != known.end()) return found->second;
  if (expr->is(ExprKind::number)) return known[expr.get()] = add_literal(expr->text);
  std::vector<size_t> args;
  for (const ExprPtr& argument : expr->args) args.push_back(add(argument, name, functions, known));
  Step step;
  if (!args.empty()) step.a = args[0];
  if (args.size() > 1) step.b = args[1];
  if (args.size() > 2) step.c = args[2];
  const auto function = functions.find(expr->text);
  const bool call = expr->is(ExprKind::call), declared = call && function != functions.end();
  if (declared && function->second.means) {
    const std::vector<std::string>& parameters = function->second.parameters;
    Known own;
    const auto parameter = [&](const std::string& text) {
      for (size_t i = 0; i < parameters.size() && i < args.size(); ++i) {
        if (parameters[i] == text) return args[i];
      }
      return add_literal(text);
    };
    return known[expr.get()] = add(function->second.means, parameter, functions, own);
  }
  const bool foreign = declared && !function->second.home.is_deckle();
  if ((expr->is(ExprKind::conditional) || expr->is_call("where")) && args.size() == 3) {
    step.kind = Step::Kind::choice;
  } else if ((call || expr->is(ExprKind::unary) || expr->is(ExprKind::binary)) && !foreign) {
    step.one = args.size() == 1 ? function_of_one(expr->text) : nullptr;
    step.two = args.size() == 2 ? function_of_two(expr->text) : nullptr;
    if (step.one || step.two) step.kind = step.one ? Step::Kind::one : Step::Kind::two;
    step.steps = has_steps(expr->text);
    step.cost = call ? 20 : 1;
  }
  return known[expr.get()] = add(std::move(step));
}

Scalar Computation::at(const std::vector<Scalar>& values) const {
  values_.resize(steps_.size());
  const auto compute = [&](const Step& step) -> Scalar {
    switch (step.kind) {
      case Step::Kind::constant:
        return step.constant;
      case Step::Kind::name:
        return values[step.a];
      case Step::Kind::unknown:
        return std::nullopt;
      default:
        break;
    }
    const Scalar& a = values_[step.a];
    if (!a) return std::nullopt;
    if (step.kind == Step::Kind::choice) return values_[*a != 0 ? step.b : step.c];
    // Steps that stand too close together cannot be told from a slope by differences.
    if (step.kind == Step::Kind::one) return step.steps && std::fabs(*a) > 1e6L ? std::nullopt : Scalar(step.one(*a));
    const Scalar& b = values_[step.b];
    return b ? Scalar(step.two(*a, *b)) : std::nullopt;
  };
  for (size_t i = 0; i < steps_.size(); ++i) values_[i] = compute(steps_[i]);
  return values_[value_];
}

}  // namespace opgen
