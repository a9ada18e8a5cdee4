#include "opgen/emit/site/latex.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "opgen/emit/site/notation.h"
#include "opgen/text/strings.h"

namespace opgen::site {
namespace {

const char* const kTimes = "\\,";

/// Ops on tensors that are operators of mathematics, by their names.
const std::map<std::string, const char*> kOperators = {{"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"div", "/"}, {"eq", "=="},
                                                       {"ne", "!="}, {"lt", "<"},  {"le", "<="}, {"gt", ">"},  {"ge", ">="}};
const std::set<std::string> kProducts = {"mm", "matmul", "bmm", "batched_matmul", "mv", "dot"};

bool is_literal(const Term& term, const std::string& text) {
  if (term.is(TermKind::conversion)) return is_literal(*term.arguments[0], text);
  return term.is(TermKind::literal) && term.text == text;
}

/// Arguments up to the last that differs from its default.
size_t given(const Schema& schema, const std::vector<TermPtr>& arguments) {
  size_t count = arguments.size();
  while (count > 0 && count <= schema.arguments.size()) {
    const auto& standard = schema.arguments[count - 1].default_value;
    const bool left_out = standard && (is_literal(*arguments[count - 1], *standard) ||
                                       (is_literal(*arguments[count - 1], "none") && *standard == "None"));
    if (!left_out) break;
    --count;
  }
  return count;
}

/// How the elements of two tensors are multiplied: a sign only where another product could be meant.
const char* product_sign(const Op& op, const TermPtr& left, const TermPtr& right) {
  const bool tensors = left->type.is_tensor_like() && right->type.is_tensor_like();
  return tensors && op.body != Op::Body::pointwise ? " \\odot " : kTimes;
}

/// where(c, a, b) and c ? a : b, whose parts are in the same order.
bool is_choice(const Expr& expr) { return expr.is(ExprKind::conditional) || (expr.is_call("where") && expr.args.size() == 3); }

}  // namespace

std::vector<std::string> Latex::all(const std::vector<TermPtr>& terms) const {
  std::vector<std::string> texts;
  for (const TermPtr& term : terms) texts.push_back(print(*term).text);
  return texts;
}

Printed Latex::read(const Term& term) const { return {letters_.of(term.symbol), 8}; }

Printed Latex::operation(Operator operation, const std::vector<TermPtr>& arguments) const {
  if (operation == Operator::negate) return negate(print(*arguments[0]));
  if (operation == Operator::logical_not) return invert(print(*arguments[0]));
  const char* sign = arguments.size() == 2 ? product_sign(op_, arguments[0], arguments[1]) : kTimes;
  return binary(spelling(operation), print(*arguments[0]), print(*arguments[1]), sign);
}

Printed Latex::property(const Term& term) const {
  const std::vector<std::string> of = all(term.arguments);
  switch (term.property) {
    case Property::sizes:
      return print_call(function_name("shape"), of);
    case Property::size:
      return {fmt::format("\\operatorname{{size}}_{{{}}}{}", of[1], parenthesise(of[0])), 8};
    case Property::numel:
    case Property::length:
      return {fmt::format("\\left|{}\\right|", of[0]), 8};
    case Property::defined:
    case Property::has_value:
      return {of[0] + " \\text{ given}", 3};
    case Property::value:
      return {of[0], 8};
    default:
      return print_call(function_name(spelling(term.property)), of);
  }
}

Printed Latex::condition(const Term& term) const {
  std::vector<std::pair<std::string, std::string>> rows;
  const Term* rest = &term;
  for (; rest->is(TermKind::condition); rest = rest->arguments[2].get())
    rows.emplace_back(print(*rest->arguments[1]).text, print(*rest->arguments[0]).text);
  rows.emplace_back(print(*rest).text, "");
  return cases(rows);
}

/// x, where all fields are those of one record x; else its fields.
Printed Latex::record(const Term& term) const {
  std::set<std::string> owners;
  std::vector<std::string> fields;
  for (size_t i = 0; i < term.arguments.size(); ++i) {
    const Term& field = *term.arguments[i];
    fields.push_back(identifier(term.type.record->fields[i].name) + " = " + print(field).text);
    if (!field.is(TermKind::read)) {
      owners.insert(fields.back());
      continue;
    }
    const Symbol& symbol = field.symbol;
    const bool from_result = symbol.what == Symbol::What::result || symbol.what == Symbol::What::gradient;
    const auto& groups = from_result ? op_.schema.result_groups : op_.schema.groups;
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& one) {
      return one.first <= symbol.index && symbol.index < one.first + one.count();
    });
    std::string owner = group == groups.end() ? fields.back() : letters_.of(group->name);
    if (symbol.what == Symbol::What::gradient) owner = add_bar(owner);
    if (symbol.what == Symbol::What::tangent) owner = add_dot(owner);
    owners.insert(owner);
  }
  if (owners.size() == 1 && term.arguments.size() > 1) return {*owners.begin(), 8};
  return {fmt::format("\\left\\{{{}\\right\\}}", join(fields, ",\\, ")), 8};
}

Printed Latex::expand(const Op& derivative, const std::vector<TermPtr>& arguments) const {
  return print(derivative.pointwise, [&](const std::string& name) -> Printed {
    for (size_t i = 0; i < derivative.schema.arguments.size(); ++i) {
      if (derivative.schema.arguments[i].name == name) return print(*arguments[i]);
    }
    return {identifier(name), 8};
  });
}

Printed Latex::call(const Term& term) const {
  const Op& callee = *term.op;
  const std::vector<TermPtr>& arguments = term.arguments;
  const std::string& name = callee.name();
  if (term.operation != Operator::none) return operation(term.operation, arguments);
  if (callee.derived && callee.pointwise) return expand(callee, arguments);
  const size_t count = given(callee.schema, arguments);
  const auto named = kOperators.find(name);
  if (named != kOperators.end() && arguments.size() == 2)
    return binary(named->second, print(*arguments[0]), print(*arguments[1]), product_sign(op_, arguments[0], arguments[1]));
  if (name == "neg") return negate(print(*arguments[0]));
  if (kProducts.count(name) && count == 2) return binary("*", print(*arguments[0]), print(*arguments[1]), kTimes);
  if (name == "t" && count == 1) return {within(print(*arguments[0]), 8) + "^{\\top}", 7};
  if (name == "sum" && count == 1) return {"\\sum " + within(print(*arguments[0]), 5), 5};
  if (name == "to" && count == 2) return print(*arguments[0]);  // another dtype is the same number
  if (name == "sum_to" && arguments[1]->is(TermKind::property) && arguments[1]->property == Property::sizes)
    return {fmt::format("\\operatorname{{sum}}_{{\\to {}}}{}", print(*arguments[1]->arguments[0]).text,
                        parenthesise(print(*arguments[0]).text)),
            8};
  if (program_.functions.count(name) && count == callee.schema.arguments.size()) {
    std::vector<Printed> printed;
    for (const TermPtr& argument : arguments) printed.push_back(print(*argument));
    if (const auto known = known_function(name, printed)) return *known;
  }
  return print_call(function_name(name), all({arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(count)}));
}

Printed Latex::print(const Term& term) const {
  switch (term.kind) {
    case TermKind::literal:
      if (term.type.base == Base::enumeration || term.type.is(Base::string)) return {function_name(term.text), 8};
      if (term.text == "none") return {"\\text{none}", 8};
      if (term.text == "true" || term.text == "false" || term.type.is(Base::dtype)) return {function_name(term.text), 8};
      return number(term.text);
    case TermKind::read:
      return read(term);
    case TermKind::op:
      return call(term);
    case TermKind::helper:
      return print_call(function_name(term.helper->schema.name), all(term.arguments));
    case TermKind::zeros:
      return {"\\mathbf{0}", 8};
    case TermKind::operation:
      return operation(term.operation, term.arguments);
    case TermKind::property:
      return property(term);
    case TermKind::conversion:
      return print(*term.arguments[0]);
    case TermKind::condition:
      return condition(term);
    case TermKind::tuple:
      return {parenthesise(join(all(term.arguments), ",\\, ")), 8};
    case TermKind::list: {
      const bool asks = !term.arguments.empty() && std::all_of(term.arguments.begin(), term.arguments.end(),
                                                               [](const TermPtr& one) { return one->is(TermKind::wants); });
      if (asks) return {"\\text{wanted}", 8};
      return {fmt::format("\\left[{}\\right]", join(all(term.arguments), ",\\, ")), 8};
    }
    case TermKind::record:
      return record(term);
    case TermKind::index: {
      const Printed of = print(*term.arguments[0]);
      if (term.arguments.size() == 2) return {fmt::format("{{{}}}_{{{}}}", within(of, 8), print(*term.arguments[1]).text), 8};
      if (term.arguments[0]->type.base == Base::record)
        return {within(of, 8) + "." + identifier(term.arguments[0]->type.record->fields[term.position].name), 8};
      return {fmt::format("{{{}}}_{{{}}}", within(of, 8), term.position), 8};
    }
    case TermKind::wants:
      return {add_bar(letters_.of(op_.schema.arguments[term.symbol.index].label())) + " \\text{ wanted}", 3};
    case TermKind::has_tangent:
      return {add_dot(letters_.of(op_.schema.arguments[term.symbol.index].label())) + " \\text{ given}", 3};
  }
  return {};
}

/// x x is x squared.
Printed Latex::product(const ExprPtr& expr, const Names& names) const {
  std::vector<ExprPtr> factors;
  ExprPtr rest = expr;
  for (; rest->is(ExprKind::binary) && rest->text == "*"; rest = rest->args[0]) factors.insert(factors.begin(), rest->args[1]);
  factors.insert(factors.begin(), rest);
  std::optional<Printed> result;
  for (size_t i = 0; i < factors.size();) {
    size_t end = i + 1;
    while (end < factors.size() && equal(factors[i], factors[end])) ++end;
    Printed factor = print(factors[i], names);
    if (end - i > 1) factor = {fmt::format("{}^{{{}}}", within(factor, 8), end - i), 7};
    result = result ? binary("*", *result, factor, kTimes) : factor;
    i = end;
  }
  return *result;
}

Printed Latex::choice(const ExprPtr& expr, const Names& names) const {
  std::vector<std::pair<std::string, std::string>> rows;
  ExprPtr rest = expr;
  for (; is_choice(*rest); rest = rest->args[2])
    rows.emplace_back(print(rest->args[1], names).text, print(rest->args[0], names).text);
  rows.emplace_back(print(rest, names).text, "");
  return cases(rows);
}

Printed Latex::call(const ExprPtr& expr, const Names& names) const {
  std::vector<Printed> arguments;
  std::vector<std::string> texts;
  for (const ExprPtr& argument : expr->args) {
    arguments.push_back(print(argument, names));
    texts.push_back(arguments.back().text);
  }
  if (const auto known = known_function(expr->text, arguments)) return *known;
  const auto function = program_.functions.find(expr->text);
  if (function == program_.functions.end() || !function->second.means) return print_call(function_name(expr->text), texts);
  return print(function->second.means, [&](const std::string& name) -> Printed {
    const auto& parameters = function->second.parameters;
    const auto found = std::find(parameters.begin(), parameters.end(), name);
    return found == parameters.end() ? Printed{identifier(name), 8} : arguments[static_cast<size_t>(found - parameters.begin())];
  });
}

Printed Latex::print(const ExprPtr& expr, const Names& names) const {
  const auto part = [&](size_t i) { return print(expr->args[i], names); };
  if (is_choice(*expr)) return choice(expr, names);
  switch (expr->kind) {
    case ExprKind::number:
      return number(expr->text);
    case ExprKind::name:
      if (expr->text == "pi" || expr->text == "inf" || expr->text == "nan") return number(expr->text);
      return names(expr->text);
    case ExprKind::unary:
      return expr->text == "-" ? negate(part(0)) : invert(part(0));
    case ExprKind::binary:
      return expr->text == "*" ? product(expr, names) : binary(expr->text, part(0), part(1), kTimes);
    case ExprKind::call:
      return call(expr, names);
    default:
      return {"\\text{" + escape(to_string(expr)) + "}", 8};
  }
}

std::string Latex::expression(const ExprPtr& expr) const {
  return print(expr, [&](const std::string& name) -> Printed { return {letters_.of(name), 8}; }).text;
}

}  // namespace opgen::site
