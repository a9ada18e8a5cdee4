#include "opgen/readers/aten/typing.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/ir/build.h"
#include "opgen/readers/aten/convert.h"
#include "opgen/readers/aten/formula.h"
#include "opgen/readers/aten/overload.h"
#include "opgen/text/strings.h"

namespace opgen::aten {
namespace {

using MaybeType = std::optional<Type>;

std::string spell(const MaybeType& type) {
  if (!type) return "?";
  if (is_none(*type)) return "none";
  if (type->base == Base::none) return "{}";
  return type->to_string();
}

class Typer {
 public:
  Typer(const Scope& scope, const Functions& functions, const Helpers& helpers, Typed& typed)
      : scope_(scope), functions_(functions), helpers_(helpers), typed_(typed) {}

  MaybeType type(const ExprPtr& expr) {
    switch (expr->kind) {
      case ExprKind::number:
        return type_of(expr->text.find_first_of(".eE") == std::string::npos ? Base::integer : Base::floating);
      case ExprKind::string:
        return type_of(Base::string);
      case ExprKind::name:
        return name(*expr);
      case ExprKind::call:
        return call(*expr);
      case ExprKind::method:
        return method(*expr);
      case ExprKind::member:
        return untyped(expr->at, "this dialect has no records, so no field '" + expr->text + "'");
      case ExprKind::unary:
        return unary(*expr);
      case ExprKind::binary:
        return binary(*expr);
      case ExprKind::conditional:
        return conditional(*expr);
      case ExprKind::tuple:
        return tuple(*expr);
      case ExprKind::list:
        return list(*expr);
      case ExprKind::index:
        return index(*expr);
    }
    return std::nullopt;
  }

 private:
  MaybeType untyped(const Position& at, const std::string& reason) {
    typed_.reasons.push_back({at, reason});
    return std::nullopt;
  }

  MaybeType name(const Expr& expr) {
    if (expr.text == "none") return type_of(Base::none);
    if (expr.text == "true" || expr.text == "false") return type_of(Base::boolean);
    const auto found = scope_.find(expr.text);
    if (found != scope_.end()) return found->second;
    const auto constant = helpers_.constants.find(expr.text);
    if (constant != helpers_.constants.end()) return constant->second;
    std::vector<std::string> names;
    for (const auto& [known, ignored] : scope_) names.push_back(known);
    if (scope_.count(expr.text + "_p") > 0)
      return untyped(expr.at,
                     fmt::format("a forward formula reads '{0}_p', the value, or '{0}_t', the tangent, not '{0}'", expr.text));
    return untyped(expr.at, fmt::format("no name '{}' is in scope{}", expr.text, did_you_mean(expr.text, names)));
  }

  std::vector<MaybeType> types(const Expr& expr) {
    std::vector<MaybeType> found;
    for (const ExprPtr& argument : expr.args) {
      if (argument->is_call(kLambda))
        found.push_back(std::nullopt);
      else
        found.push_back(type(argument));
    }
    return found;
  }

  /// Two that take values of any type.
  MaybeType generic(const Expr& expr, const std::vector<MaybeType>& arguments) {
    if (expr.text == "repeated") {
      MaybeType element = arguments[1];
      if (element && is_none(*element)) element = type_of(Base::tensor);
      return element ? list_of(*element) : element;
    }
    for (const ExprPtr& argument : expr.args) {
      if (argument->is_call(kLambda)) untyped(argument->at, "a lambda, whose body is not read");
    }
    return arguments[0];
  }

  MaybeType call(const Expr& expr) {
    if (expr.text == kLambda) return untyped(expr.at, "a lambda, whose body is not read");
    ++typed_.calls;
    const std::vector<MaybeType> arguments = types(expr);
    if ((expr.text == "repeated" || expr.text == "fmap") && arguments.size() == 2) {
      const MaybeType found = generic(expr, arguments);
      if (found) typed_.callees.push_back({expr.text, *found, false, expr.at});
      return found;
    }
    std::vector<const Schema*> candidates = schemas(expr.text, false);
    const size_t of_file = candidates.size();
    if (const auto helper = helpers_.functions.find(expr.text); helper != helpers_.functions.end()) {
      for (const Schema& schema : helper->second) candidates.push_back(&schema);
    }
    return choose(expr, candidates, of_file, arguments, false);
  }

  MaybeType method(const Expr& expr) {
    ++typed_.calls;
    std::vector<MaybeType> arguments = types(expr);
    if (!arguments[0]) return untyped(expr.at, fmt::format("the type of what '.{}' is called on is not known", expr.text));
    const Type on = *arguments[0];
    if (const MaybeType held = of_optional(expr, on, arguments)) return held;
    if (const MaybeType counted = of_list(expr, on)) return counted;
    arguments[0] = without_optional(on);
    std::vector<const Schema*> candidates = on.is_tensor() ? schemas(expr.text, true) : std::vector<const Schema*>();
    const size_t of_file = candidates.size();
    if (const auto methods = helpers_.methods.find(expr.text); methods != helpers_.methods.end()) {
      for (const Schema& schema : methods->second) candidates.push_back(&schema);
    }
    return choose(expr, candidates, of_file, arguments, true);
  }

  MaybeType found(const Expr& expr, Type result) {
    typed_.callees.push_back({expr.text, result, false, expr.at});
    return result;
  }

  MaybeType of_optional(const Expr& expr, const Type& on, const std::vector<MaybeType>& arguments) {
    if (!on.optional && !on.is_tensor()) return std::nullopt;
    if (expr.text == "has_value" && arguments.size() == 1) return found(expr, type_of(Base::boolean));
    if (expr.text == "value" && arguments.size() == 1) return found(expr, without_optional(on));
    if (expr.text == "value_or" && arguments.size() == 2) return found(expr, without_optional(on));
    return std::nullopt;
  }

  MaybeType of_list(const Expr& expr, const Type& on) {
    if (!on.list) return std::nullopt;
    if (expr.text == "size" && expr.args.size() == 1) return found(expr, type_of(Base::integer));
    if (expr.text == "empty" && expr.args.size() == 1) return found(expr, type_of(Base::boolean));
    if ((expr.text == "back" || expr.text == "front") && expr.args.size() == 1) return found(expr, element_of(on));
    return std::nullopt;
  }

  std::vector<const Schema*> schemas(const std::string& name, bool method) const {
    std::vector<const Schema*> found;
    const auto candidates = functions_.by_name.find(name);
    if (candidates == functions_.by_name.end()) return found;
    for (const Function* function : candidates->second) {
      if (function->kind == Function::Kind::out) continue;
      if (!method || function->schema.find("self")) found.push_back(&function->schema);
    }
    return found;
  }

  MaybeType choose(const Expr& expr, const std::vector<const Schema*>& candidates, size_t of_file,
                   const std::vector<MaybeType>& arguments, bool method) {
    const auto [best, at] = best_overload(candidates, arguments, method);
    if (best) {
      const Type result = result_type_of(*best);
      typed_.callees.push_back(
          {best->overload.empty() ? best->name : best->name + "." + best->overload, result, at < of_file, expr.at});
      return result;
    }
    std::vector<std::string> spelled_types;
    for (size_t i = method ? 1 : 0; i < arguments.size(); ++i) spelled_types.push_back(spell(arguments[i]));
    const std::string given = fmt::format("({})", join(spelled_types));
    if (candidates.empty() && method)
      return untyped(expr.at, fmt::format("{} has no method '{}{}'", spell(arguments[0]), expr.text, given));
    if (candidates.empty()) return untyped(expr.at, fmt::format("no function is named '{}' (called with {})", expr.text, given));
    return untyped(expr.at, fmt::format("'{}' does not take {}; it is {}", expr.text, given, candidates[0]->to_string()));
  }

  MaybeType unary(const Expr& expr) {
    const MaybeType operand = type(expr.args[0]);
    if (expr.text == "!") return type_of(Base::boolean);
    if (operand && !operand->is_tensor() && !is_number(*operand))
      return untyped(expr.at, fmt::format("'{}' of {}", expr.text, spell(operand)));
    if (operand && operand->base == Base::boolean) return type_of(Base::integer);
    return operand;
  }

  MaybeType binary(const Expr& expr) {
    const MaybeType left = type(expr.args[0]), right = type(expr.args[1]);
    const std::string& symbol = expr.text;
    if (symbol == "&&" || symbol == "||") return type_of(Base::boolean);
    if (!left || !right) return std::nullopt;
    const bool comparison = precedence(expr) == 3;
    const auto operand = [](const Type& type) { return type.is_tensor() || is_number(type); };
    if (operand(*left) && operand(*right)) {
      if (left->is_tensor() || right->is_tensor()) return type_of(Base::tensor);
      if (comparison) return type_of(Base::boolean);
      if (left->base == Base::scalar && right->base == Base::scalar)
        return untyped(expr.at, fmt::format("'{}' of two Scalars, which C++ does not have: take toDouble() of one", symbol));
      return common_type(*left, *right);
    }
    if ((symbol == "==" || symbol == "!=") && common_type(*left, *right)) return type_of(Base::boolean);
    return untyped(expr.at, fmt::format("'{}' of {} and {}", symbol, spell(left), spell(right)));
  }

  MaybeType conditional(const Expr& expr) {
    const MaybeType condition = type(expr.args[0]);
    const MaybeType yes = type(expr.args[1]), no = type(expr.args[2]);
    if (condition && !(condition->optional || (is_number(*condition) && condition->base != Base::scalar)))
      untyped(expr.args[0]->at, fmt::format("{} is no condition", spell(condition)));
    if (!yes || !no) return yes ? yes : no;
    const MaybeType common = common_type(*yes, *no);
    if (!common) return untyped(expr.at, fmt::format("'? :' of {} and {}", spell(yes), spell(no)));
    return common;
  }

  MaybeType tuple(const Expr& expr) {
    Type tuple = type_of(Base::tuple);
    for (const MaybeType& element : types(expr)) {
      if (!element) return std::nullopt;
      tuple.elements.push_back(*element);
    }
    return tuple;
  }

  MaybeType list(const Expr& expr) {
    MaybeType common;
    for (const ExprPtr& argument : expr.args) {
      const MaybeType element = type(argument);
      if (!element) return std::nullopt;
      common = common ? common_type(*common, *element) : element;
      if (!common || common->list || common->base == Base::tuple)
        return untyped(argument->at, fmt::format("a list cannot hold {} here", spell(element)));
    }
    if (!common) common = type_of(Base::none);
    if (is_none(*common) && !expr.args.empty()) common = type_of(Base::tensor);
    return list_of(*common);
  }

  MaybeType index(const Expr& expr) {
    const MaybeType on = type(expr.args[0]), position = type(expr.args[1]);
    if (!on) return std::nullopt;
    if (on->base == Base::tuple) {
      const std::optional<int64_t> number = expr.args[1]->is(ExprKind::number) ? whole_number(expr.args[1]->text) : std::nullopt;
      if (number && *number >= 0 && *number < static_cast<int64_t>(on->elements.size()))
        return on->elements[static_cast<size_t>(*number)];
      return untyped(expr.at, fmt::format("the tuple has {} elements", on->elements.size()));
    }
    if (on->list) return element_of(*on);
    if (on->is_tensor()) return type_of(Base::tensor);
    return untyped(expr.at, fmt::format("{} has no elements", spell(on)));
  }

  const Scope& scope_;
  const Functions& functions_;
  const Helpers& helpers_;
  Typed& typed_;
};

}  // namespace

Typed type_formula(const ExprPtr& formula, const Scope& scope, const Functions& functions, const Helpers& helpers) {
  Typed typed;
  typed.type = Typer(scope, functions, helpers, typed).type(formula);
  return typed;
}

}  // namespace opgen::aten
