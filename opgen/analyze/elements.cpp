#include "opgen/analyze/elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "opgen/analyze/conditions.h"
#include "opgen/analyze/scalars.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

using What = Symbol::What;

/// Ops that give each element as it is, where sizes do not change.
const std::set<std::string> kSame = {"sum_to", "clone", "expand", "contiguous"};
const std::set<std::string> kFilled = {"full_like", "zeros_like", "ones_like"};

constexpr int kSizes[] = {2, 3};

ExprPtr unknown() { return make_expr(ExprKind::name, "=unknown", {}); }

ExprPtr parse_text(const std::string& text) {
  const bool named = text == "true" || text == "false" || text == "inf" || text == "nan" || text == "pi";
  if (named) return make_expr(ExprKind::name, text, {});
  return literal_value(text) ? make_expr(ExprKind::number, text, {}) : unknown();
}
ExprPtr number(int value) { return make_expr(ExprKind::number, std::to_string(value), {}); }
ExprPtr truth(bool value) { return parse_text(value ? "true" : "false"); }

bool is_none(const Term& term) {
  return term.is(TermKind::literal) ? term.text == "none" : term.is(TermKind::conversion) && is_none(*term.arguments[0]);
}

/// Whether a condition asks for sizes, dtypes, or what else no element has.
bool asks_of_the_call(const Term& term, const Block& formula) {
  const Term& value = without_lets(term, formula);
  if (value.is(TermKind::property) || value.is(TermKind::list)) return true;
  if (value.is(TermKind::helper) && value.helper->schema.name != "quotient") return true;
  if (!value.type.is_tensor() && !value.type.is_number() && !value.type.is(Base::boolean)) return true;
  return std::any_of(value.arguments.begin(), value.arguments.end(),
                     [&](const TermPtr& part) { return asks_of_the_call(*part, formula); });
}

/// Whether a conversion to this dtype keeps the values of numbers.
bool keeps_numbers(const Term& dtype) {
  return dtype.is(TermKind::property) || (dtype.is(TermKind::literal) && dtype.text.find("float") != std::string::npos);
}

bool is_logic(const Term& term) {
  return term.operation == Operator::logical_and || term.operation == Operator::logical_or ||
         term.operation == Operator::logical_not;
}

}  // namespace

bool Choices::holds(const std::string& condition) {
  const auto [place, fresh] = place_.emplace(condition, made_.size());
  if (fresh) made_.push_back({condition, true});
  return made_[place->second].holds;
}

bool Choices::next() {
  while (!made_.empty() && !made_.back().holds) {
    place_.erase(made_.back().condition);
    made_.pop_back();
  }
  if (made_.empty()) return false;
  made_.back().holds = false;
  return true;
}

std::string Choices::text() const {
  std::vector<std::string> parts;
  for (const Choice& choice : made_) parts.push_back(choice.holds ? choice.condition : "!(" + choice.condition + ")");
  return join(parts, " && ");
}

ExprPtr Elements::of(const Block& formula, const Term& term) const {
  Reading reading{op_, formula};
  return of(term, reading);
}

ExprPtr Elements::of_part(const Block& formula, const Term& term, size_t position) const {
  Reading reading{op_, formula};
  return of_part(term, position, reading);
}

ExprPtr Elements::of(const Term& term, Reading& reading) const {
  const auto part = [&](size_t i) { return of(*term.arguments[i], reading); };
  switch (term.kind) {
    case TermKind::literal:
      return parse_text(term.text);
    case TermKind::zeros:
      return number(0);
    case TermKind::conversion:
      return is_none(term) && term.type.is_tensor() ? number(0) : part(0);  // no gradient
    case TermKind::read: {
      if (!term.reads(What::let)) return of_symbol(term.symbol, reading);
      const auto known = reading.lets.find(term.symbol.index);
      if (known != reading.lets.end()) return known->second;
      return reading.lets[term.symbol.index] = of(*reading.formula.lets[term.symbol.index].value, reading);
    }
    case TermKind::has_tangent:  // of this input; others may have one too
    case TermKind::wants:
      return term.symbol.index == input_ ? truth(true) : chosen(term, reading);
    case TermKind::condition: {
      const ExprPtr condition = part(0);
      if (condition->is_name("true") || condition->is_name("false")) return part(condition->is_name("true") ? 1 : 2);
      return make_expr(ExprKind::conditional, "", {condition, part(1), part(2)}, term.at);
    }
    case TermKind::index:
      return term.arguments.size() == 1 ? of_part(*term.arguments[0], term.position, reading) : unknown();
    case TermKind::op: {
      if (term.op->name() == "to" && keeps_numbers(*term.arguments[1])) return part(0);
      std::vector<ExprPtr> arguments;
      for (size_t i = 0; i < term.arguments.size(); ++i) arguments.push_back(is_none(*term.arguments[i]) ? unknown() : part(i));
      return of_call(*term.op, std::move(arguments));
    }
    case TermKind::property:
      return term.type.is(Base::boolean) ? chosen(term, reading) : of_property(term);
    case TermKind::helper:
      if (term.type.is(Base::boolean)) return chosen(term, reading);
      if (!term.helper->home.is_deckle() || term.helper->schema.name != "quotient") return unknown();
      return make_expr(ExprKind::call, "floor_divide", {part(0), part(1)}, term.at);
    case TermKind::operation:
      return of_operation(term, reading);
    default:
      return unknown();
  }
}

ExprPtr Elements::of_operation(const Term& term, Reading& reading) const {
  if (term.type.is(Base::boolean) && !is_logic(term) && asks_of_the_call(term, reading.formula)) return chosen(term, reading);
  std::vector<ExprPtr> operands;
  for (const TermPtr& argument : term.arguments) operands.push_back(of(*argument, reading));
  const bool one = operands.size() == 1;
  if (is_logic(term)) {
    for (size_t i = 0; i < operands.size(); ++i) {
      const bool yes = operands[i]->is_name("true"), no = operands[i]->is_name("false");
      if (one && (yes || no)) return truth(no);
      const bool decides = term.operation == Operator::logical_or ? yes : no;
      if (decides) return operands[i];
      if (yes || no) return operands[1 - i];
    }
  }
  return make_expr(one ? ExprKind::unary : ExprKind::binary, spelling(term.operation), std::move(operands), term.at);
}

ExprPtr Elements::of_part(const Term& term, size_t position, Reading& reading) const {
  const auto in = [&](const Term& part) { return of_part(part, position, reading); };
  if (term.is(TermKind::tuple)) return position < term.arguments.size() ? of(*term.arguments[position], reading) : unknown();
  if (term.reads(What::let)) return in(*reading.formula.lets[term.symbol.index].value);
  if (term.is(TermKind::conversion)) return in(*term.arguments[0]);
  if (!term.is(TermKind::condition)) return unknown();
  const ExprPtr condition = of(*term.arguments[0], reading);
  if (condition->is_name("true") || condition->is_name("false")) return in(*term.arguments[condition->is_name("true") ? 1 : 2]);
  return make_expr(ExprKind::conditional, "", {condition, in(*term.arguments[1]), in(*term.arguments[2])}, term.at);
}

ExprPtr Elements::of_symbol(const Symbol& symbol, const Reading& reading) const {
  if (symbol.how != Symbol::How::whole) return unknown();
  if (symbol.what == What::argument || symbol.what == What::primal)
    return reading.arguments ? (*reading.arguments)[symbol.index]
                             : make_expr(ExprKind::name, reading.op.schema.arguments[symbol.index].name, {});
  if (symbol.what == What::result) return make_expr(ExprKind::name, kResult, {});
  if (symbol.what == What::gradient) return number(1);
  return symbol.what == What::tangent ? number(symbol.index == input_ ? 1 : 0) : unknown();
}

ExprPtr Elements::of_property(const Term& term) const {
  if (!term.arguments[0]->type.is_tensor()) return unknown();
  if (term.property == Property::dim) return number(2);
  if (term.property == Property::numel) return number(kSizes[0] * kSizes[1]);
  const Scalar dim = term.property == Property::size ? literal_value(term.arguments[1]->text) : std::nullopt;
  return dim && *dim >= -2 && *dim < 2 ? number(kSizes[(static_cast<int>(*dim) + 2) % 2]) : unknown();
}

ExprPtr Elements::of_call(const Op& op, std::vector<ExprPtr> arguments) const {
  for (size_t i = arguments.size(); i < op.schema.arguments.size(); ++i)
    arguments.push_back(parse_text(op.schema.arguments[i].default_value.value_or("")));
  if (op.body == Op::Body::pointwise) {
    return rewrite(op.pointwise, [&](const ExprPtr& node) -> ExprPtr {
      return node->is(ExprKind::name) && op.schema.find(node->text) ? arguments[op.index_of(node->text)] : nullptr;
    });
  }
  if (kSame.count(op.name())) return arguments[0];
  if (kFilled.count(op.name())) return op.name() == "full_like" ? arguments[1] : number(op.name() == "ones_like" ? 1 : 0);
  if (op.body != Op::Body::composite || !op.schema.groups.empty()) return unknown();
  Reading reading{op, op.composite, &arguments};
  return of(*op.composite.value, reading);
}

ExprPtr Elements::chosen(const Term& condition, const Reading& reading) const {
  const bool yes = can_be(condition, true, reading), no = can_be(condition, false, reading);
  if (!yes || !no) return truth(yes);
  const std::string text = Conditions(reading.op).text_of(condition, reading.formula);
  return truth(choices_.holds(&reading.op == &op_ ? text : reading.op.name() + ": " + text));
}

bool Elements::can_be(const Term& condition, bool holds, const Reading& reading) const {
  const auto has_gradient = [&](const Term& tensor) {  // and is floating
    return tensor.reads(What::gradient) || tensor.reads(What::tangent) ||
           (!reading.arguments && tensor.is(TermKind::read) && tensor.symbol.index == input_ && !tensor.reads(What::result));
  };
  if (condition.is(TermKind::property) && condition.property == Property::defined)
    return holds || condition.arguments[0]->type.optional;
  if (condition.is(TermKind::helper) && condition.helper->schema.name == "floating") {
    const Term& dtype = without_lets(*condition.arguments[0], reading.formula);
    return holds || !dtype.is(TermKind::property) || !has_gradient(*dtype.arguments[0]);
  }
  if (!condition.is(TermKind::operation) || condition.arguments.size() != 2) return true;
  const Term &a = without_lets(*condition.arguments[0], reading.formula),
             &b = without_lets(*condition.arguments[1], reading.formula);
  const bool swap = a.is(TermKind::literal);
  const Term &of = swap ? b : a, &with = swap ? a : b;
  if (!of.is(TermKind::property) || !with.is(TermKind::literal)) return true;
  if (of.property == Property::dtype && has_gradient(*of.arguments[0])) {
    const bool floating = with.text.find("float") != std::string::npos;
    return floating || holds == (condition.operation == Operator::not_equal);
  }
  if (of.property != Property::size && of.property != Property::numel && of.property != Property::dim) return true;
  const Scalar limit = literal_value(with.text);
  const int least = of.property == Property::dim ? 0 : 1;  // there is an element
  for (const long double value :
       {static_cast<long double>(least), limit.value_or(0) - 1, limit.value_or(0), limit.value_or(0) + 1}) {
    const auto compare = function_of_two(spelling(condition.operation));
    const Scalar outcome = limit && compare ? Scalar(compare(swap ? *limit : value, swap ? value : *limit)) : std::nullopt;
    if (!outcome || (value >= least && (*outcome != 0) == holds)) return true;
  }
  return false;
}

}  // namespace opgen
