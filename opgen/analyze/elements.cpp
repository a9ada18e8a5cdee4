#include "opgen/analyze/elements.h"

#include <cmath>
#include <set>
#include <string>

namespace opgen {
namespace {

using Kind = Term::Kind;
using Real = long double;

/// Ops that give each element as it is, where sizes do not change.
const std::set<std::string> kSame = {"sum_to", "clone", "expand", "contiguous"};
const std::set<std::string> kFilled = {"full_like", "zeros_like", "ones_like"};

constexpr Real kSizes[] = {2, 3};

/// As generated C++ has it: there is no remainder of a division by zero.
Scalar apply_integers(Operator operation, Real a, Real b) {
  return operation == Operator::modulo && b == 0 ? std::nullopt : apply(spelling(operation), a, b);
}

/// Of a helper on numbers.
Scalar of_helper(const Helper& helper, const std::vector<Scalar>& arguments) {
  if (!helper.home.plain || helper.schema.name != "quotient" || !arguments[0] || !arguments[1] || *arguments[1] == 0)
    return std::nullopt;
  return std::floor(*arguments[0] / *arguments[1]);
}

bool is_none(const Term& term) {
  return term.is(Kind::literal) ? term.text == "none" : term.is(Kind::conversion) && is_none(*term.arguments[0]);
}

}  // namespace

Scalar Elements::of(const Block& formula, const Term& term, const OfSymbol& of_symbol) const {
  const auto part = [&](size_t i) { return of(formula, *term.arguments[i], of_symbol); };
  switch (term.kind) {
    case Kind::literal:
      return literal_value(term.text);
    case Kind::zeros:
      return 0;
    case Kind::conversion:
      return is_none(term) && term.type.is_tensor() ? 0 : part(0);  // no gradient
    case Kind::read:
      if (term.reads(Symbol::What::let)) return of(formula, *formula.lets[term.symbol.index].value, of_symbol);
      return term.symbol.how == Symbol::How::whole ? of_symbol(term.symbol) : std::nullopt;
    case Kind::has_tangent: {
      Symbol tangent = term.symbol;
      tangent.what = Symbol::What::tangent;
      const Scalar value = of_symbol(tangent);
      return value ? Scalar(*value != 0) : std::nullopt;
    }
    case Kind::wants:
      return 1;
    case Kind::condition: {
      const Scalar condition = part(0);
      return condition ? part(*condition != 0 ? 1 : 2) : std::nullopt;
    }
    case Kind::index: {
      const bool known = term.arguments.size() == 1;
      const Term* const element = known ? part_of(formula, *term.arguments[0], term.position, of_symbol) : nullptr;
      return element ? of(formula, *element, of_symbol) : std::nullopt;
    }
    default:
      break;
  }
  std::vector<Scalar> values;
  for (size_t i = 0; i < term.arguments.size(); ++i)
    values.push_back(term.is(Kind::op) && is_none(*term.arguments[i]) ? std::nullopt : part(i));
  if (term.is(Kind::op)) return of_call(*term.op, values);
  if (term.is(Kind::helper)) return of_helper(*term.helper, values);
  if (term.is(Kind::property)) return of_property(term, values);
  if (!term.is(Kind::operation) || !values[0]) return std::nullopt;
  if (values.size() == 1) return term.operation == Operator::negate ? -*values[0] : *values[0] == 0;
  if (!values[1]) return std::nullopt;
  if (term.type.is(Base::integer)) return apply_integers(term.operation, *values[0], *values[1]);
  return apply(spelling(term.operation), *values[0], *values[1]);
}

const Term* Elements::part_of(const Block& formula, const Term& term, size_t position, const OfSymbol& of_symbol) const {
  const auto in = [&](const Term& part) { return part_of(formula, part, position, of_symbol); };
  if (term.is(Kind::tuple)) return position < term.arguments.size() ? term.arguments[position].get() : nullptr;
  if (term.reads(Symbol::What::let)) return in(*formula.lets[term.symbol.index].value);
  if (term.is(Kind::conversion)) return in(*term.arguments[0]);
  if (!term.is(Kind::condition)) return nullptr;
  const Scalar condition = of(formula, *term.arguments[0], of_symbol);
  return condition ? in(*term.arguments[*condition != 0 ? 1 : 2]) : nullptr;
}

Scalar Elements::of_property(const Term& term, const std::vector<Scalar>& arguments) {
  if (!term.arguments[0]->type.is_tensor()) return std::nullopt;
  if (term.property == Property::dim) return 2;
  if (term.property == Property::numel) return kSizes[0] * kSizes[1];
  if (term.property != Property::size || !arguments[1]) return std::nullopt;
  const auto dim = static_cast<int64_t>(*arguments[1]);
  return dim >= -2 && dim < 2 ? Scalar(kSizes[(dim + 2) % 2]) : std::nullopt;
}

Scalar Elements::of_call(const Op& op, const std::vector<Scalar>& arguments) const {
  std::vector<Scalar> values = arguments;
  for (size_t i = values.size(); i < op.schema.arguments.size(); ++i)
    values.push_back(literal_value(op.schema.arguments[i].default_value.value_or("")));
  if (op.body == Op::Body::pointwise) return of_expression(op, values);
  if (kSame.count(op.name())) return values[0];
  if (kFilled.count(op.name())) return op.name() == "full_like" ? values[1] : op.name() == "ones_like" ? 1 : 0;
  if (op.body != Op::Body::composite || !op.schema.groups.empty()) return std::nullopt;
  return of(op.composite, [&](const Symbol& symbol) { return values[symbol.index]; });
}

Scalar Elements::of_expression(const Op& op, const std::vector<Scalar>& arguments) const {
  const auto of_name = [&](const std::string& name) -> Scalar {
    return op.schema.find(name) ? arguments[op.index_of(name)] : std::nullopt;
  };
  return value_of(op.pointwise, of_name, functions_);
}

}  // namespace opgen
