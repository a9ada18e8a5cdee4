#include "opgen/analyze/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "opgen/text/strings.h"

namespace opgen {
namespace {

using Kind = Term::Kind;
using What = Symbol::What;

constexpr size_t kMaxStates = 512;

bool is_comparison(Operator operation) { return operation >= Operator::equal && operation <= Operator::greater_equal; }

/// The operator with its operands the other way round.
Operator swapped(Operator operation) {
  if (operation == Operator::less) return Operator::greater;
  if (operation == Operator::less_equal) return Operator::greater_equal;
  if (operation == Operator::greater) return Operator::less;
  return operation == Operator::greater_equal ? Operator::less_equal : operation;
}

/// The literal that a term is, through conversions and a sign; nullptr if it is none.
std::optional<std::string> literal_of(const Term& term) {
  if (term.is(Kind::literal)) return term.text;
  if (term.is(Kind::conversion)) return literal_of(*term.arguments[0]);
  if (!term.is(Kind::operation) || term.operation != Operator::negate) return std::nullopt;
  const std::optional<std::string> positive = literal_of(*term.arguments[0]);
  return positive ? std::optional("-" + *positive) : std::nullopt;
}

double number_of(const std::string& text) { return std::strtod(text.c_str(), nullptr); }

bool is_number(const std::string& text) {
  char* end = nullptr;
  std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == 0;
}

bool compares(const std::string& value, Operator operation, const std::string& with) {
  switch (operation) {
    case Operator::equal:
      return is_number(with) ? number_of(value) == number_of(with) : value == with;
    case Operator::not_equal:
      return !compares(value, Operator::equal, with);
    case Operator::less:
      return number_of(value) < number_of(with);
    case Operator::less_equal:
      return number_of(value) <= number_of(with);
    default:
      return !compares(value, operation == Operator::greater ? Operator::less_equal : Operator::less, with);
  }
}

/// What tells apart the values that something is compared with: these, and others beside them.
std::vector<std::string> values_around(const std::vector<std::string>& written) {
  if (!std::all_of(written.begin(), written.end(), is_number)) {
    std::vector<std::string> values = written;
    values.emplace_back("another");
    return values;
  }
  std::set<double> numbers;
  for (const std::string& text : written) numbers.insert({number_of(text) - 1, number_of(text), number_of(text) + 1});
  std::vector<std::string> values;
  for (const double number : numbers) values.push_back(fmt::format("{}", number));
  return values;
}

}  // namespace

std::string Conditions::text_of(const Term& term, const Block& formula) const {
  const auto part = [&](size_t i) { return text_of(*term.arguments[i], formula); };
  const auto parts = [&](size_t first) {
    std::vector<std::string> texts;
    for (size_t i = first; i < term.arguments.size(); ++i) texts.push_back(part(i));
    return "(" + join(texts) + ")";
  };
  switch (term.kind) {
    case Kind::literal:
      return term.text;
    case Kind::conversion:
      return part(0);
    case Kind::read:
      if (term.reads(What::let)) return text_of(*formula.lets[term.symbol.index].value, formula);
      if (term.reads(What::argument) || term.reads(What::primal)) return op_.schema.arguments[term.symbol.index].label();
      return term.symbol.name;
    case Kind::property:
      return part(0) + "." + spelling(term.property) + parts(1);
    case Kind::operation:
      if (term.arguments.size() == 1) return spelling(term.operation) + part(0);
      return fmt::format("{} {} {}", part(0), spelling(term.operation), part(1));
    case Kind::op:
      return term.op->name() + parts(0);
    case Kind::helper:
      return term.helper->schema.name + parts(0);
    case Kind::wants:
    case Kind::has_tangent:
      return fmt::format("{}({})", term.is(Kind::wants) ? "wants" : "has_t", op_.schema.arguments[term.symbol.index].label());
    case Kind::list:
      return parts(0);
    case Kind::index:
      return part(0) + (term.arguments.size() == 1 ? fmt::format("[{}]", term.position) : "[" + part(1) + "]");
    default:
      return "what stands at " + term.at.to_string();
  }
}

std::optional<Conditions::Comparison> Conditions::comparison(const Term& term, const Block& formula) const {
  if (!term.is(Kind::operation) || !is_comparison(term.operation)) return std::nullopt;
  for (const size_t side : {0, 1}) {
    const std::optional<std::string> with = literal_of(*term.arguments[1 - side]);
    if (!with || literal_of(*term.arguments[side])) continue;
    return Comparison{text_of(*term.arguments[side], formula), *with, side == 0 ? term.operation : swapped(term.operation)};
  }
  return std::nullopt;
}

void Conditions::add(const Term& condition, const Block& formula) {
  if (condition.reads(What::let)) return add(*formula.lets[condition.symbol.index].value, formula);
  const bool logic = condition.is(Kind::operation) &&
                     (condition.operation == Operator::logical_not || condition.operation == Operator::logical_and ||
                      condition.operation == Operator::logical_or);
  if (logic || condition.is(Kind::condition)) {
    for (const TermPtr& part : condition.arguments) add(*part, formula);
    return;
  }
  if (condition.is(Kind::literal)) return;
  if (const std::optional<Comparison> asked = comparison(condition, formula)) {
    std::vector<std::string>& values = asked_[asked->of].values;
    if (std::find(values.begin(), values.end(), asked->with) == values.end()) values.push_back(asked->with);
    return;
  }
  asked_[text_of(condition, formula)] = {true, {"false", "true"}};
}

std::vector<Conditions::State> Conditions::states() const {
  std::vector<State> all = {{}};
  for (const auto& [of, asked] : asked_) {
    const std::vector<std::string> values = asked.truth ? asked.values : values_around(asked.values);
    if (all.size() * values.size() > kMaxStates) return {{}};
    std::vector<State> more;
    for (const State& state : all) {
      for (const std::string& value : values) {
        more.push_back(state);
        more.back()[of] = value;
      }
    }
    all = std::move(more);
  }
  return all;
}

std::optional<bool> Conditions::holds(const Term& condition, const Block& formula, const State& state) const {
  const auto part = [&](size_t i) { return holds(*condition.arguments[i], formula, state); };
  if (condition.reads(What::let)) return holds(*formula.lets[condition.symbol.index].value, formula, state);
  if (condition.is(Kind::literal)) return condition.text == "true";
  if (condition.is(Kind::condition)) {
    const std::optional<bool> first = part(0);
    return first ? part(*first ? 1 : 2) : std::nullopt;
  }
  if (condition.is(Kind::operation)) {
    if (condition.operation == Operator::logical_not) {
      const std::optional<bool> value = part(0);
      return value ? std::optional(!*value) : std::nullopt;
    }
    if (condition.operation == Operator::logical_and || condition.operation == Operator::logical_or) {
      const bool decides = condition.operation == Operator::logical_or;
      const std::optional<bool> first = part(0), second = part(1);
      if (first == decides || second == decides) return decides;
      return first && second ? std::optional(!decides) : std::nullopt;
    }
  }
  const std::optional<Comparison> asked = comparison(condition, formula);
  const auto found = state.find(asked ? asked->of : text_of(condition, formula));
  if (found == state.end()) return std::nullopt;
  return asked ? compares(found->second, asked->operation, asked->with) : found->second == "true";
}

bool Conditions::evaluates(const Block& formula, const Term& term, const State& state,
                           const std::function<bool(const Term&)>& is) const {
  if (is(term)) return true;
  const auto in = [&](const Term& part) { return evaluates(formula, part, state, is); };
  if (term.reads(What::let)) return in(*formula.lets[term.symbol.index].value);
  if (!term.is(Kind::condition))
    return std::any_of(term.arguments.begin(), term.arguments.end(), [&](const TermPtr& part) { return in(*part); });
  const std::optional<bool> first = holds(*term.arguments[0], formula, state);
  return (first.value_or(true) && in(*term.arguments[1])) || (!first.value_or(false) && in(*term.arguments[2]));
}

}  // namespace opgen
