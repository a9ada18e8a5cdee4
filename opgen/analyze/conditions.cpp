#include "opgen/analyze/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <set>
#include <utility>

#include "opgen/analyze/condition_values.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

using What = Symbol::What;

constexpr size_t kMaxStates = 512;

bool is_comparison(Operator operation) { return operation >= Operator::equal && operation <= Operator::greater_equal; }

/// The operator with its operands the other way round.
Operator swap_sides(Operator operation) {
  if (operation == Operator::less) return Operator::greater;
  if (operation == Operator::less_equal) return Operator::greater_equal;
  if (operation == Operator::greater) return Operator::less;
  return operation == Operator::greater_equal ? Operator::less_equal : operation;
}

/// The literal that a term is, through conversions and a sign; nullptr if it is none.
std::optional<std::string> literal_of(const Term& term) {
  if (term.is(TermKind::literal)) return term.text;
  if (term.is(TermKind::conversion)) return literal_of(*term.arguments[0]);
  if (!term.is(TermKind::operation) || term.operation != Operator::negate) return std::nullopt;
  const std::optional<std::string> positive = literal_of(*term.arguments[0]);
  return positive ? std::optional("-" + *positive) : std::nullopt;
}

bool is_count(const Term& term) {
  if (term.is(TermKind::conversion)) return is_count(*term.arguments[0]);
  static const std::set<Property> kCounts = {Property::size,   Property::dim,        Property::numel,
                                             Property::length, Property::components, Property::rows};
  return term.is(TermKind::property) && kCounts.count(term.property);
}

bool is_whole(const Term& term) {
  return term.is(TermKind::conversion) ? is_whole(*term.arguments[0]) : term.type.is(Base::integer);
}

/// Whether it is made of dtypes alone: whether they are floating, or equal.
bool is_of_dtypes(const Term& term, const Block& formula) {
  const Term& value = without_lets(term, formula);
  if (value.is(TermKind::helper)) return value.helper->schema.name == "floating" && is_of_dtypes(*value.arguments[0], formula);
  if (value.is(TermKind::operation))
    return (value.operation == Operator::equal || value.operation == Operator::not_equal) &&
           is_of_dtypes(*value.arguments[0], formula) && is_of_dtypes(*value.arguments[1], formula);
  return value.type.is(Base::dtype) && (value.is(TermKind::literal) || value.is(TermKind::read) || value.is(TermKind::property));
}

}  // namespace

std::string Conditions::text_of(const Term& term, const Block& formula) const {
  const auto part = [&](size_t i) { return text_of(*term.arguments[i], formula); };
  const auto operand = [&](size_t i) {
    return without_lets(*term.arguments[i], formula).is(TermKind::operation) ? "(" + part(i) + ")" : part(i);
  };
  const auto parts = [&](size_t first) {
    std::vector<std::string> texts;
    for (size_t i = first; i < term.arguments.size(); ++i) texts.push_back(part(i));
    return "(" + join(texts) + ")";
  };
  switch (term.kind) {
    case TermKind::literal:
      return term.text;
    case TermKind::conversion:
      return part(0);
    case TermKind::read:
      if (term.reads(What::let)) return text_of_let(formula, term.symbol.index);
      if (term.reads(What::argument) || term.reads(What::primal)) return op_.schema.arguments[term.symbol.index].label();
      return term.symbol.name;
    case TermKind::property:
      return operand(0) + "." + spelling(term.property) + parts(1);
    case TermKind::operation:
      if (term.arguments.size() == 1) return spelling(term.operation) + operand(0);
      return fmt::format("{} {} {}", operand(0), spelling(term.operation), operand(1));
    case TermKind::op:
      return term.op->name() + parts(0);
    case TermKind::helper:
      return term.helper->schema.name + parts(0);
    case TermKind::wants:
    case TermKind::has_tangent:
      return fmt::format("{}({})", term.is(TermKind::wants) ? "wants" : "has_t", op_.schema.arguments[term.symbol.index].label());
    case TermKind::list:
      return parts(0);
    case TermKind::index:
      return part(0) + (term.arguments.size() == 1 ? fmt::format("[{}]", term.position) : "[" + part(1) + "]");
    default:
      return "what stands at " + term.at.to_string();
  }
}

/// Lets may stand for texts that double with each: long ones go by a name, the same for the same text.
std::string Conditions::text_of_let(const Block& formula, size_t let) const {
  constexpr size_t kLong = 200;
  const auto known = lets_.find({&formula, let});
  if (known != lets_.end()) return known->second;
  std::string text = text_of(*formula.lets[let].value, formula);
  if (text.size() > kLong) text = shortened_.emplace(text, fmt::format("let {}", shortened_.size() + 1)).first->second;
  return lets_[{&formula, let}] = text;
}

/// Two values that are compared with each other stand in one order: their difference is compared with 0.
std::optional<Conditions::Comparison> Conditions::comparison(const Term& term, const Block& formula) const {
  if (!term.is(TermKind::operation) || !is_comparison(term.operation)) return std::nullopt;
  const Term &a = without_lets(*term.arguments[0], formula), &b = without_lets(*term.arguments[1], formula);
  for (const bool swap : {false, true}) {
    const Term &of = swap ? b : a, &with = swap ? a : b;
    const std::optional<std::string> written = literal_of(with);
    if (!written || literal_of(of)) continue;
    return Comparison{text_of(*term.arguments[swap ? 1 : 0], formula),
                      *written,
                      swap ? swap_sides(term.operation) : term.operation,
                      false,
                      is_whole(of),
                      is_count(of)};
  }
  std::string first = text_of(*term.arguments[0], formula), second = text_of(*term.arguments[1], formula);
  const Operator operation = first <= second ? term.operation : swap_sides(term.operation);
  if (second < first) std::swap(first, second);
  if (!a.type.is_number() || !b.type.is_number()) return Comparison{first + " == " + second, "true", operation, true};
  return Comparison{first + " - " + second, "0", operation, false, is_whole(a) && is_whole(b)};
}

/// The value of a comparison that holds or not whatever the state: of two literals, or of a value with itself.
std::optional<bool> Conditions::constant_value(const Term& term, const Block& formula) const {
  if (!term.is(TermKind::operation) || !is_comparison(term.operation)) return std::nullopt;
  const std::optional<std::string> a = literal_of(without_lets(*term.arguments[0], formula)),
                                   b = literal_of(without_lets(*term.arguments[1], formula));
  if (a && b) return compares(*a, term.operation, *b);
  if (a || b || text_of(*term.arguments[0], formula) != text_of(*term.arguments[1], formula)) return std::nullopt;
  return compares("0", term.operation, "0");
}

void Conditions::add(const Term& condition, const Block& formula) {
  if (condition.reads(What::let)) {
    const size_t let = condition.symbol.index;
    if (added_.emplace(&formula, let).second) add(*formula.lets[let].value, formula);
    return;
  }
  const bool logic = condition.is(TermKind::operation) &&
                     (condition.operation == Operator::logical_not || condition.operation == Operator::logical_and ||
                      condition.operation == Operator::logical_or);
  if (logic || condition.is(TermKind::condition)) {
    for (const TermPtr& part : condition.arguments) add(*part, formula);
    return;
  }
  if (condition.is(TermKind::literal) || constant_value(condition, formula)) return;
  if (is_of_dtypes(condition, formula)) return add_dtypes(condition, formula);
  if (const std::optional<Comparison> asked = comparison(condition, formula)) {
    Asked& question = asked_[asked->of];
    question.truth = asked->truth;
    question.whole = asked->whole;
    question.count = asked->count;
    if (asked->truth) return void(question.values = {"false", "true"});
    std::vector<std::string>& values = question.values;
    if (std::find(values.begin(), values.end(), asked->with) == values.end()) values.push_back(asked->with);
    return;
  }
  asked_[text_of(condition, formula)] = {true, false, false, false, {"false", "true"}};
}

void Conditions::add_dtypes(const Term& term, const Block& formula) {
  const Term& value = without_lets(term, formula);
  if (value.is(TermKind::literal)) {
    if (std::find(dtypes_.begin(), dtypes_.end(), value.text) == dtypes_.end()) dtypes_.push_back(value.text);
  } else if (value.is(TermKind::helper) || value.is(TermKind::operation)) {
    for (const TermPtr& part : value.arguments) add_dtypes(*part, formula);
  } else {
    asked_[text_of(value, formula)].dtype = true;
  }
}

std::string Conditions::dtype_in(const Term& term, const Block& formula, const State& state) const {
  const Term& value = without_lets(term, formula);
  if (value.is(TermKind::literal)) return value.text;
  const auto found = state.find(text_of(value, formula));
  return found == state.end() ? "" : found->second;
}

std::vector<Conditions::State> Conditions::states() const {
  std::map<std::string, std::vector<std::string>> values_of;
  double count = 1;
  for (const auto& [of, asked] : asked_) {
    values_of[of] = asked.dtype   ? dtypes_around(dtypes_)
                    : asked.truth ? asked.values
                                  : values_around(asked.values, asked.whole, asked.count);
    count *= static_cast<double>(values_of[of].size());
  }
  std::vector<State> all;
  if (count > static_cast<double>(kMaxStates)) {
    complete_ = false;
    std::minstd_rand draw;
    for (size_t i = 0; i < kMaxStates; ++i) {
      State& state = all.emplace_back();
      for (const auto& [of, values] : values_of) state[of] = values[draw() / 8 % values.size()];
    }
    return all;
  }
  all.emplace_back();
  for (const auto& [of, values] : values_of) {
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
  Reading reading{formula, state};
  return holds(condition, reading);
}

std::optional<bool> Conditions::holds(const Term& condition, Reading& reading) const {
  const Block& formula = reading.formula;
  const State& state = reading.state;
  const auto part = [&](size_t i) { return holds(*condition.arguments[i], reading); };
  if (condition.reads(What::let)) {
    const size_t let = condition.symbol.index;
    const auto known = reading.holds.find(let);
    return known != reading.holds.end() ? known->second : (reading.holds[let] = holds(*formula.lets[let].value, reading));
  }
  if (condition.is(TermKind::literal)) return condition.text == "true";
  if (condition.is(TermKind::condition)) {
    const std::optional<bool> first = part(0);
    return first ? part(*first ? 1 : 2) : std::nullopt;
  }
  if (condition.is(TermKind::operation)) {
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
  if (const std::optional<bool> known = constant_value(condition, formula)) return known;
  if (is_of_dtypes(condition, formula)) {
    const Term& value = without_lets(condition, formula);
    std::vector<std::string> dtypes;
    for (const TermPtr& part : value.arguments) dtypes.push_back(dtype_in(*part, formula, state));
    if (std::count(dtypes.begin(), dtypes.end(), "")) return std::nullopt;
    return value.is(TermKind::helper) ? is_floating_dtype(dtypes[0])
                                      : (dtypes[0] == dtypes[1]) == (value.operation == Operator::equal);
  }
  const std::optional<Comparison> asked = comparison(condition, formula);
  const auto found = state.find(asked ? asked->of : text_of(condition, formula));
  if (found == state.end()) return std::nullopt;
  return asked ? compares(found->second, asked->operation, asked->with) : found->second == "true";
}

bool Conditions::evaluates(const Block& formula, const Term& term, const State& state,
                           const std::function<bool(const Term&)>& is) const {
  Reading reading{formula, state};
  return evaluates(term, reading, is);
}

bool Conditions::evaluates(const Term& term, Reading& reading, const std::function<bool(const Term&)>& is) const {
  if (is(term)) return true;
  const auto in = [&](const Term& part) { return evaluates(part, reading, is); };
  if (term.reads(What::let)) {
    const size_t let = term.symbol.index;
    const auto known = reading.evaluates.find(let);
    return known != reading.evaluates.end() ? known->second : (reading.evaluates[let] = in(*reading.formula.lets[let].value));
  }
  if (!term.is(TermKind::condition))
    return std::any_of(term.arguments.begin(), term.arguments.end(), [&](const TermPtr& part) { return in(*part); });
  const std::optional<bool> first = holds(*term.arguments[0], reading);
  return (first.value_or(true) && in(*term.arguments[1])) || (!first.value_or(false) && in(*term.arguments[2]));
}

}  // namespace opgen
