#include <fmt/format.h>

#include <map>

#include "opgen/check/arguments.h"
#include "opgen/check/lowerer.h"
#include "opgen/text.h"

namespace opgen {

using Kind = Expr::Kind;

Lowered Lowerer::unary(const ExprPtr& expr) {
  const Lowered operand = lower(expr->args[0]);
  if (expr->text == "!") {
    if (!operand.type.is(Base::boolean))
      throw Problem(expr->at, fmt::format("'!' wants a bool, not {}", operand.type.to_string()));
    return {"!" + wrap(operand, 6), type_of(Base::boolean), 6};
  }
  if (operand.type.is_tensor()) {
    require_op("neg", expr);
    return {"-" + wrap(operand, 6), tensor_type(), 6};
  }
  if (operand.type.is(Base::scalar)) return {"-" + wrap(operand, 7) + ".to_double()", type_of(Base::floating), 6};
  if (!operand.type.is_number())
    throw Problem(expr->at, fmt::format("'-' wants a number or a tensor, not {}", operand.type.to_string()));
  return {"-" + wrap(operand, 6), operand.type, 6};
}

void Lowerer::require_op(const std::string& op, const ExprPtr& expr) {
  const std::vector<const Entry*> found = scope_.library.named(op);
  if (found.empty()) throw Problem(expr->at, fmt::format("'{}' on tensors is the op '{}', which has no entry", expr->text, op));
  scope_.calls.insert(found[0]);
}

Lowered Lowerer::binary(const ExprPtr& expr) {
  static const std::map<std::string, std::string> kArithmetic = {{"+", "add"}, {"-", "sub"}, {"*", "mul"}, {"/", "div"}};
  static const std::map<std::string, std::string> kComparison = {{"==", "eq"}, {"!=", "ne"}, {"<", "lt"},
                                                                 {"<=", "le"}, {">", "gt"},  {">=", "ge"}};
  const ExprPtr &left = expr->args[0], &right = expr->args[1];
  // x == none asks whether an optional argument is there.
  if ((expr->text == "==" || expr->text == "!=") && right->is_name("none")) {
    const Lowered value = lower(left);
    const std::string there = wrap(value, 7) + (value.type.is_tensor_like() ? ".defined()" : ".has_value()");
    return {expr->text == "==" ? "!" + there : there, type_of(Base::boolean), 6};
  }
  const Lowered a = lower(left), b = lower(right);
  const int strength = precedence(*expr);
  const std::string infix = wrap(a, strength) + " " + expr->text + " " + wrap(b, strength + 1);
  const auto operand = [](const Type& type) { return type.is_tensor() || type.is_number(); };
  const auto mismatch = [&](const char* what) -> Problem {
    return {expr->at, fmt::format("'{}' wants {}, not {} and {}", expr->text, what, a.type.to_string(), b.type.to_string())};
  };
  if (const auto op = kArithmetic.find(expr->text); op != kArithmetic.end()) {
    if (!operand(a.type) || !operand(b.type)) throw mismatch("tensors or numbers");
    if (a.type.is_tensor() || b.type.is_tensor()) {
      require_op(op->second, expr);
      return {infix, tensor_type(), strength};
    }
    const bool whole = a.type.is(Base::integer) && b.type.is(Base::integer);
    return {plain(a, strength) + " " + expr->text + " " + plain(b, strength + 1), type_of(whole ? Base::integer : Base::floating),
            strength};
  }
  if (expr->text == "%") {
    if (!a.type.is(Base::integer) || !b.type.is(Base::integer)) throw mismatch("integers");
    return {infix, type_of(Base::integer), strength};
  }
  if (const auto op = kComparison.find(expr->text); op != kComparison.end()) {
    if (a.type.is_tensor() || b.type.is_tensor()) {
      if (!operand(a.type) || !operand(b.type)) throw mismatch("tensors or numbers");
      if (!a.type.is_tensor()) throw Problem(expr->at, "a comparison of a number with a tensor has the tensor on its left");
      const ExprPtr as_call = make_expr(Kind::call, op->second, {left, right}, expr->at);
      return call(as_call, as_call->args, as_call->keys);
    }
    if (a.type.is_number() && b.type.is_number()) {
      return {plain(a, strength) + " " + expr->text + " " + plain(b, strength + 1), type_of(Base::boolean), strength};
    }
    const bool equality = expr->text == "==" || expr->text == "!=";
    if (!equality || a.type.base != b.type.base || a.type.list != b.type.list) throw mismatch("two values of one type");
    if (a.type.list && a.type.base == Base::integer) {
      const auto as_ints = [](const Lowered& value) {
        return value.cpp[0] == '{' ? "Ints" + value.cpp : "Ints(" + value.cpp + ")";
      };
      const std::string same = as_ints(a) + " == " + as_ints(b);
      return {expr->text == "==" ? same : "!(" + same + ")", type_of(Base::boolean), expr->text == "==" ? 3 : 6};
    }
    return {infix, type_of(Base::boolean), strength};
  }
  if (!a.type.is(Base::boolean) || !b.type.is(Base::boolean)) throw mismatch("two bools");
  // GCC wants parentheses around && inside ||.
  const auto grouped = [&](const Lowered& value) {
    return expr->text == "||" && value.precedence == 2 ? "(" + value.cpp + ")" : wrap(value, strength);
  };
  return {grouped(a) + " " + expr->text + " " + grouped(b), type_of(Base::boolean), strength};
}

Lowered Lowerer::conditional(const ExprPtr& expr, const ExprPtr& condition, const ExprPtr& yes, const ExprPtr& no) {
  const Lowered c = lower(condition);
  if (c.type.is_tensor()) {
    const ExprPtr as_call = make_expr(Kind::call, "where", {condition, yes, no}, expr->at);
    return call(as_call, as_call->args, as_call->keys);
  }
  if (!c.type.is(Base::boolean))
    throw Problem(condition->at, fmt::format("a condition is a bool or a Tensor, not {}", c.type.to_string()));
  Lowered a = lower(yes), b = lower(no);
  Type type = a.type.base == Base::none ? b.type : a.type;
  if (a.type.is(Base::integer) && b.type.is(Base::floating)) type = b.type;
  const auto other = convert(a.type.base == Base::none || type == b.type ? a : b, type.is_tensor() ? tensor_type(true) : type);
  if (!other)
    throw Problem(expr->at,
                  fmt::format("the two values of a condition differ in type: {} and {}", a.type.to_string(), b.type.to_string()));
  if (a.type.base == Base::none) a.cpp = other->first;
  if (b.type.base == Base::none) b.cpp = other->first;
  for (Lowered* value : {&a, &b}) {
    if (value->cpp[0] == '{') value->cpp = list_literal(value->cpp, type);
  }
  return {fmt::format("{} ? {} : {}", wrap(c, 1), wrap(a, 1), b.cpp), type, 0};
}

Lowered Lowerer::tuple(const ExprPtr& expr) {
  Lowered result{"", type_of(Base::tuple)};
  std::vector<std::string> parts;
  for (const ExprPtr& element : expr->args) {
    Lowered value = lower(element);
    if (value.type.base == Base::none) value = {"Tensor()", tensor_type(true)};
    parts.push_back(value.cpp);
    result.type.elements.push_back(value.type);
  }
  result.cpp = "std::tuple(" + join(parts) + ")";
  return result;
}

Lowered Lowerer::list(const ExprPtr& expr) {
  Type type = type_of(Base::none, true);
  std::vector<std::string> parts;
  for (const ExprPtr& element : expr->args) {
    const Lowered value = lower(element);
    if (value.type.list || value.type.base == Base::tuple) throw Problem(element->at, "lists of lists do not exist");
    if (type.base == Base::none)
      type.base = value.type.base;
    else if (type.base == Base::integer && value.type.base == Base::floating)
      type.base = Base::floating;
    else if (type.base != value.type.base && !(type.base == Base::floating && value.type.base == Base::integer))
      throw Problem(element->at, fmt::format("the elements of a list differ in type: {} and {}", type_of(type.base).to_string(),
                                             value.type.to_string()));
    parts.push_back(value.cpp);
  }
  return {"{" + join(parts) + "}", type};
}

Lowered Lowerer::index(const ExprPtr& expr) {
  const Lowered object = lower(expr->args[0]);
  if (object.type.base == Base::tuple) {
    const ExprPtr& position = expr->args[1];
    const std::optional<int64_t> i = position->is(Kind::number) ? whole_number(position->text) : std::nullopt;
    const int64_t count = static_cast<int64_t>(object.type.elements.size());
    if (!i || *i < 0 || *i >= count)
      throw Problem(position->at, fmt::format("the tuple is indexed by a number from 0 to {}", count - 1));
    return {fmt::format("std::get<{}>({})", *i, object.cpp), object.type.elements[static_cast<size_t>(*i)]};
  }
  if (!object.type.list)
    throw Problem(expr->at, fmt::format("{} cannot be indexed; lists and tuples can", object.type.to_string()));
  const std::string position = lower_to(expr->args[1], type_of(Base::integer), "the index");
  Type type = object.type;
  type.list = false;
  type.length = 0;
  return {fmt::format("{}[{}]", wrap(object, 7), position), type};
}

}  // namespace opgen
