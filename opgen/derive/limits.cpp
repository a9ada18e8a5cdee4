#include "opgen/derive/limits.h"

#include <functional>
#include <set>

#include "opgen/derive/algebra.h"
#include "opgen/derive/calculus.h"

namespace opgen {
namespace {

class LimitProtector {
 public:
  explicit LimitProtector(const Library& library) : library_(library) {}

  ExprPtr protect(const ExprPtr& expr) {
    if (!has_multiplication(expr)) return rebuild(expr);
    std::vector<ExprPtr> vanishing, unbounded, rest;
    ExprPtr divisor;
    std::vector<ExprPtr> factors;
    flatten(expr, factors);
    for (const ExprPtr& factor : factors) {
      if (vanishes(factor))
        vanishing.push_back(factor);
      else if (!is_bounded(factor))
        unbounded.push_back(factor);
      else
        rest.push_back(factor);
    }
    std::vector<ExprPtr> dependent, independent;
    for (const ExprPtr& factor : unbounded) (depends(factor, vanishing) ? dependent : independent).push_back(factor);
    if (vanishing.empty() || dependent.empty()) return rebuild(expr);
    ExprPtr product = make_expr(ExprKind::call, "damped", {product_of(vanishing), product_of(dependent)});
    if (!rest.empty()) product = make_expr(ExprKind::binary, "*", {product_of(rest), product});
    if (!independent.empty()) product = make_expr(ExprKind::binary, "*", {product_of(independent), product});
    return product;
  }

 private:
  static bool has_multiplication(const ExprPtr& expr) { return expr->is(ExprKind::binary) && expr->text == "*"; }

  static void flatten(const ExprPtr& expr, std::vector<ExprPtr>& factors) {
    if (has_multiplication(expr)) {
      flatten(expr->args[0], factors);
      flatten(expr->args[1], factors);
    } else {
      factors.push_back(expr);
    }
  }

  ExprPtr rebuild(const ExprPtr& expr) {
    if (expr->args.empty()) return expr;
    std::vector<ExprPtr> args;
    for (const ExprPtr& argument : expr->args) args.push_back(protect(argument));
    return std::make_shared<Expr>(expr->kind, expr->text, std::move(args), expr->keys, expr->at);
  }

  ExprPtr product_of(const std::vector<ExprPtr>& factors) {
    ExprPtr product = protect(factors[0]);
    for (size_t i = 1; i < factors.size(); ++i) product = make_expr(ExprKind::binary, "*", {product, protect(factors[i])});
    return product;
  }

  bool vanishes(const ExprPtr& expr) const {
    if (expr->is(ExprKind::unary)) return vanishes(expr->args[0]);
    if (expr->is(ExprKind::binary)) {
      const ExprPtr &a = expr->args[0], &b = expr->args[1];
      if ((expr->text == "+" || expr->text == "-") && vanishes(a) && vanishes(b)) return true;
      if (expr->text == "*" && (vanishes(a) || vanishes(b))) return true;
      if (expr->text == "/" && vanishes(a) && algebra::is_number(b)) return true;
    }
    // Is it, however it is written, one of the declared patterns of a function that it calls?
    const ExprPtr simple = algebra::simplify(expr);
    bool found = false;
    const std::function<void(const ExprPtr&)> visit = [&](const ExprPtr& node) {
      if (node->is(ExprKind::call)) {
        const auto function = library_.functions.find(node->text);
        if (function != library_.functions.end()) {
          for (const ExprPtr& pattern : function->second.vanishes)
            found = found || equal(instantiate(pattern, function->second, node->args, node), simple);
        }
      }
      for (const ExprPtr& argument : node->args) visit(argument);
    };
    visit(expr);
    return found;
  }

  static bool is_bounded(const ExprPtr& expr) {
    switch (expr->kind) {
      case ExprKind::number:
        return true;
      case ExprKind::unary:
        return is_bounded(expr->args[0]);
      case ExprKind::binary:
        return (expr->text == "+" || expr->text == "-" || expr->text == "*") && is_bounded(expr->args[0]) &&
               is_bounded(expr->args[1]);
      case ExprKind::call:
        return is_bounded_function(expr->text);
      default:
        return false;
    }
  }

  static bool depends(const ExprPtr& factor, const std::vector<ExprPtr>& vanishing) {
    for (const std::string& name : names_in(factor)) {
      for (const ExprPtr& other : vanishing) {
        if (mentions(other, name)) return true;
      }
    }
    return false;
  }

  const Library& library_;
};

}  // namespace

bool is_bounded_function(const std::string& name) {
  static const std::set<std::string> kBounded = {"sigmoid", "tanh", "erf", "sin", "cos", "sign"};
  return kBounded.count(name) > 0;
}

ExprPtr protect_limits(const ExprPtr& expr, const Library& library) { return LimitProtector(library).protect(expr); }

}  // namespace opgen
