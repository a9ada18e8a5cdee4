#include <fmt/format.h>

#include <map>

#include "opgen/ir/build.h"
#include "opgen/resolve/convert.h"
#include "opgen/resolve/resolver.h"
#include "opgen/text/strings.h"

namespace opgen {

namespace {

/// An operator of formulas, and the op that it is between tensors.
struct NamedOperator {
  Operator operation;
  const char* op;
};
const std::map<std::string, NamedOperator> kArithmetic = {{"+", {Operator::add, "add"}},
                                                          {"-", {Operator::subtract, "sub"}},
                                                          {"*", {Operator::multiply, "mul"}},
                                                          {"/", {Operator::divide, "div"}}};
const std::map<std::string, NamedOperator> kComparison = {
    {"==", {Operator::equal, "eq"}},      {"!=", {Operator::not_equal, "ne"}}, {"<", {Operator::less, "lt"}},
    {"<=", {Operator::less_equal, "le"}}, {">", {Operator::greater, "gt"}},    {">=", {Operator::greater_equal, "ge"}}};

bool is_operand(const Type& type) { return type.is_tensor() || type.is_number(); }

Problem mismatch(const ExprPtr& expr, const char* what, const TermPtr& a, const TermPtr& b) {
  return {expr->at, fmt::format("'{}' wants {}, not {} and {}", expr->text, what, a->type.to_string(), b->type.to_string())};
}

}  // namespace

TermPtr Resolver::unary(const ExprPtr& expr) {
  const TermPtr operand = resolve(expr->args[0]);
  if (expr->text == "!") {
    if (!operand->type.is(Base::boolean))
      throw Problem(expr->at, fmt::format("'!' wants a bool, not {}", operand->type.to_string()));
    return operation(Operator::logical_not, {operand}, type_of(Base::boolean), expr->at);
  }
  if (operand->type.is_tensor()) return operator_call("neg", Operator::negate, expr, {operand});
  if (!operand->type.is_number())
    throw Problem(expr->at, fmt::format("'-' wants a number or a tensor, not {}", operand->type.to_string()));
  const TermPtr plain = plain_number(operand);
  return operation(Operator::negate, {plain}, plain->type, expr->at);
}

TermPtr Resolver::operator_call(const std::string& op, Operator operation, const ExprPtr& expr, std::vector<TermPtr> operands) {
  const std::vector<const Op*> found = scope_.program.overloads_of(op);
  if (found.empty()) throw Problem(expr->at, fmt::format("'{}' on tensors is the op '{}', which has no entry", expr->text, op));
  const std::vector<std::string> keys(operands.size());
  for (const Op* candidate : found) {
    Bound bound = bind_arguments(candidate->schema, expr, expr->args, keys, operands);
    if (bound.mismatch.empty()) return call_of(*candidate, std::move(bound.arguments), expr->at, operation);
  }
  return call_of(*found[0], std::move(operands), expr->at, operation);
}

TermPtr Resolver::compared_with_none(const ExprPtr& expr) {
  const TermPtr value = resolve(expr->args[0]);
  if (!value->type.optional)
    throw Problem(expr->at, fmt::format("'{}' is {}, which is always there: only optional values are compared with none",
                                        to_string(expr->args[0]), value->type.to_string()));
  const Property asked =
      value->type.is_tensor_like() || value->type.base == Base::ragged ? Property::defined : Property::has_value;
  const TermPtr there = property(asked, {value}, type_of(Base::boolean), expr->at);
  return expr->text == "==" ? operation(Operator::logical_not, {there}, type_of(Base::boolean), expr->at) : there;
}

TermPtr Resolver::binary(const ExprPtr& expr) {
  // x == none asks whether an optional argument is there.
  if ((expr->text == "==" || expr->text == "!=") && expr->args[1]->is_name("none")) return compared_with_none(expr);
  const TermPtr a = resolve(expr->args[0]), b = resolve(expr->args[1]);
  if (const auto op = kArithmetic.find(expr->text); op != kArithmetic.end()) {
    if (!is_operand(a->type) || !is_operand(b->type)) throw mismatch(expr, "tensors or numbers", a, b);
    if (a->type.is_tensor() || b->type.is_tensor()) return operator_call(op->second.op, op->second.operation, expr, {a, b});
    return arithmetic(expr, op->second.operation, a, b);
  }
  if (expr->text == "%") {
    if (!a->type.is(Base::integer) || !b->type.is(Base::integer)) throw mismatch(expr, "integers", a, b);
    return operation(Operator::modulo, {a, b}, type_of(Base::integer), expr->at);
  }
  if (const auto op = kComparison.find(expr->text); op != kComparison.end()) {
    if (!a->type.is_tensor() && !b->type.is_tensor()) return comparison(expr, op->second.operation, a, b);
    if (!is_operand(a->type) || !is_operand(b->type)) throw mismatch(expr, "tensors or numbers", a, b);
    if (!a->type.is_tensor()) throw Problem(expr->at, "a comparison of a number with a tensor has the tensor on its left");
    const ExprPtr as_call = make_expr(ExprKind::call, op->second.op, expr->args, expr->at);
    require_known(op->second.op, as_call);
    return call_op(op->second.op, as_call, as_call->args, as_call->keys, {a, b});
  }
  if (!a->type.is(Base::boolean) || !b->type.is(Base::boolean)) throw mismatch(expr, "two bools", a, b);
  return operation(expr->text == "&&" ? Operator::logical_and : Operator::logical_or, {a, b}, type_of(Base::boolean), expr->at);
}

TermPtr Resolver::arithmetic(const ExprPtr& expr, Operator op, const TermPtr& a, const TermPtr& b) {
  const bool whole = a->type.is(Base::integer) && b->type.is(Base::integer);
  if (whole && op == Operator::divide) {  // in an expression for a kernel 1 / 2 is 0.5
    const auto product =
        make_expr(ExprKind::binary, "*", {make_expr(ExprKind::number, "1.0", {}, expr->at), expr->args[0]}, expr->at);
    throw Problem(expr->at, fmt::format("'{}' divides integers: write quotient({}, {}), which rounds down, or {} for a fraction",
                                        to_string(expr), to_string(expr->args[0]), to_string(expr->args[1]),
                                        to_string(make_expr(ExprKind::binary, "/", {product, expr->args[1]}, expr->at))));
  }
  return operation(op, {plain_number(a), plain_number(b)}, type_of(whole ? Base::integer : Base::floating), expr->at);
}

TermPtr Resolver::comparison(const ExprPtr& expr, Operator op, const TermPtr& a, const TermPtr& b) {
  if (a->type.is_number() && b->type.is_number())
    return operation(op, {plain_number(a), plain_number(b)}, type_of(Base::boolean), expr->at);
  const bool equality = op == Operator::equal || op == Operator::not_equal;
  if (!equality || a->type.base != b->type.base || a->type.list != b->type.list || a->type.enumeration != b->type.enumeration)
    throw mismatch(expr, "two values of one type", a, b);
  return operation(op, {a, b}, type_of(Base::boolean), expr->at);
}

TermPtr Resolver::conditional(const ExprPtr& expr, const TermPtr& condition, const ExprPtr& yes, const ExprPtr& no) {
  if (condition->type.is_tensor()) {
    const ExprPtr as_call = make_expr(ExprKind::call, "where", {expr->args[0], yes, no}, expr->at);
    return call(as_call, as_call->args, as_call->keys, condition);
  }
  if (!condition->type.is(Base::boolean))
    throw Problem(condition->at, fmt::format("a condition is a bool or a Tensor, not {}", condition->type.to_string()));
  TermPtr a = resolve(yes), b = resolve(no);
  Type type = a->type.base == Base::none && !a->type.list ? b->type : a->type;
  if (type.is(Base::integer) && b->type.is(Base::floating)) type = b->type;
  if (type.is_tensor()) type.optional = a->type.optional || b->type.optional || a->type.base != b->type.base;
  for (TermPtr* value : {&a, &b}) {
    const auto converted = convert(*value, type);
    if (!converted)
      throw Problem(expr->at, fmt::format("the two values of a condition differ in type: {} and {}", a->type.to_string(),
                                          b->type.to_string()));
    *value = converted->first;
  }
  return compound(TermKind::condition, {condition, a, b}, type, expr->at);
}

TermPtr Resolver::tuple(const ExprPtr& expr) {
  Type type = type_of(Base::tuple);
  std::vector<TermPtr> elements;
  for (const ExprPtr& element : expr->args) {
    TermPtr value = resolve(element);
    if (value->type.base == Base::none) value = convert_to(tensor_type(true), value);
    type.elements.push_back(value->type);
    elements.push_back(std::move(value));
  }
  return compound(TermKind::tuple, std::move(elements), type, expr->at);
}

TermPtr Resolver::list(const ExprPtr& expr) {
  Type type = type_of(Base::none, true);
  std::vector<TermPtr> elements;
  for (const ExprPtr& element : expr->args) {
    const TermPtr value = resolve(element);
    if (value->type.list || value->type.base == Base::tuple) throw Problem(element->at, "lists of lists do not exist");
    if (type.base == Base::none)
      type.base = value->type.base;
    else if (type.base == Base::integer && value->type.base == Base::floating)
      type.base = Base::floating;
    else if (type.base != value->type.base && !(type.base == Base::floating && value->type.base == Base::integer))
      throw Problem(element->at, fmt::format("the elements of a list differ in type: {} and {}", type_of(type.base).to_string(),
                                             value->type.to_string()));
    elements.push_back(value);
  }
  return compound(TermKind::list, std::move(elements), type, expr->at);
}

TermPtr Resolver::index_of_gradients(const ExprPtr& expr) {
  if (!expr->args[0]->is_name("grads")) return nullptr;
  const auto found = scope_.names.find("grads");
  // Only gradients of several results refuse to be read as a whole: each of them is a symbol of its own.
  if (found == scope_.names.end() || found->second.refuse.empty()) return nullptr;
  size_t count = 0;
  while (scope_.names.count(fmt::format("grad{}", count))) ++count;
  const ExprPtr& position = expr->args[1];
  const std::optional<int64_t> i = position->is(ExprKind::number) ? whole_number(position->text) : std::nullopt;
  if (!i || *i < 0 || *i >= static_cast<int64_t>(count))
    throw Problem(position->at, fmt::format("'grads' is indexed by a number from 0 to {}", count - 1));
  const Meaning& gradient = scope_.names.at(fmt::format("grad{}", *i));
  return value_of(gradient, expr->at);
}

void Resolver::require_index(const ExprPtr& expr, const Term& list, const Term& position) const {
  const ExprPtr& written = expr->args[1];
  const ExprPtr& number = written->is(ExprKind::unary) ? written->args[0] : written;
  if (number->is(ExprKind::number) && to_string(written)[0] == '-')
    throw Problem(written->at,
                  fmt::format("the elements of a list are numbered from 0: there is none at {}", to_string(written)));
  const size_t known = list.is(TermKind::list) ? list.arguments.size() : static_cast<size_t>(list.type.length);
  if (const std::optional<int64_t> at = number->is(ExprKind::number) ? whole_number(number->text) : std::nullopt;
      at && known > 0 && *at >= static_cast<int64_t>(known))
    throw Problem(written->at, fmt::format("'{}' has {} elements, numbered from 0: there is none at {}", to_string(expr->args[0]),
                                           known, *at));
  const auto i = scope_.names.find("i");
  const bool each = i != scope_.names.end() && i->second.symbol.what == Symbol::What::element;
  if (!each || !list.is(TermKind::read) || !list.type.is_list_of(Base::tensor) || position.reads(Symbol::What::element)) return;
  throw Problem(written->at,
                fmt::format("a formula for each element reads element i of every list, and '{0}' is another: write '{1}[i]', or "
                            "one formula for the whole list",
                            to_string(expr), to_string(expr->args[0])));
}

TermPtr Resolver::index(const ExprPtr& expr) {
  if (TermPtr gradient = index_of_gradients(expr)) return gradient;
  const TermPtr object = resolve(expr->args[0]);
  if (object->type.base == Base::tuple) {
    const ExprPtr& position = expr->args[1];
    const std::optional<int64_t> i = position->is(ExprKind::number) ? whole_number(position->text) : std::nullopt;
    const int64_t count = static_cast<int64_t>(object->type.elements.size());
    if (!i || *i < 0 || *i >= count)
      throw Problem(position->at, fmt::format("the tuple is indexed by a number from 0 to {}", count - 1));
    const auto chosen = static_cast<size_t>(*i);
    return element(object, chosen, object->type.elements[chosen], expr->at);
  }
  if (!object->type.list)
    throw Problem(expr->at, fmt::format("{} cannot be indexed; lists and tuples can", object->type.to_string()));
  const TermPtr position = resolve_to(expr->args[1], type_of(Base::integer), "the index");
  require_index(expr, *object, *position);
  Type type = object->type;
  type.list = false;
  type.length = 0;
  if (position->reads(Symbol::What::element) && object->is(TermKind::read) && type.base == Base::tensor) {
    Symbol symbol = object->symbol;
    symbol.how = Symbol::How::element;
    return read(symbol, type, expr->at);
  }
  return compound(TermKind::index, {object, position}, type, expr->at);
}

}  // namespace opgen
