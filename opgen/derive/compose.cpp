#include "opgen/derive/compose.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "opgen/derive/algebra.h"
#include "opgen/derive/calculus.h"
#include "opgen/derive/limits.h"

namespace opgen {
namespace {

using algebra::call;
using algebra::name;

class Composer {
 public:
  Composer(const Entry& entry, const Library& library) : entry_(entry), library_(library) {}

  ExprPtr compose(const ExprPtr& expression) const {
    // What arrives is floating and as wide as the result, which a condition or a label is not.
    const Fill fill = [&](const ExprPtr& argument) {
      return has_tensor(argument) ? argument : call("full_like", {name("grad"), argument}, {});
    };
    const std::function<ExprPtr(const ExprPtr&)> visit = [&](const ExprPtr& node) -> ExprPtr {
      if (const ExprPtr meaning = meaning_of(node, library_.functions)) return visit(meaning);
      if (node->is(ExprKind::name) && is_bool(node->text))  // a number in expressions, none in formulas
        return make_expr(ExprKind::conditional, "?", {node, algebra::number(1), algebra::number(0)}, node->at);
      std::vector<ExprPtr> args;
      for (const ExprPtr& argument : node->args) args.push_back(visit(argument));
      if (node->is_call("where") && has_tensor(node->args[0]) && is_of_names(node->args[0])) {
        for (const size_t branch : {1, 2}) args[branch] = guard(args, branch, growing(node->args[branch]), fill);
      }
      if (node->is_call("damped")) return damp(args[0], args[1], fill);
      // Scaling by a Scalar that is usually 1 (alpha) costs nothing when it is.
      if (node->is(ExprKind::binary) && node->text == "*" && args[1]->is(ExprKind::name) && is_scalar(args[1]->text))
        return make_expr(
            ExprKind::conditional, "?",
            {make_expr(ExprKind::binary, "==", {args[1], algebra::number(1)}), args[0], make_expr(ExprKind::binary, "*", args)},
            node->at);
      // Between plain numbers, formulas divide integers as C++ does; expressions do not.
      if (node->is(ExprKind::binary) && node->text == "/" && !has_tensor(args[0]) && !has_tensor(args[1]))
        args[0] = make_expr(ExprKind::binary, "*", {args[0], make_expr(ExprKind::number, "1.0", {})});
      if (node->is_call("where") && is_boolean(node->args[1], library_.functions))  // part of a condition
        return call("where", std::move(args), node->at);
      if (node->is_call("where")) return choice(args[0], args[1], args[2], fill);
      if (node->is(ExprKind::call) && node->text != "pow" && !takes(node->text, args)) {
        for (ExprPtr& argument : args) argument = fill(argument);
      }
      return node->args.empty() ? node : std::make_shared<Expr>(node->kind, node->text, std::move(args), node->keys, node->at);
    };
    return visit(entry_.order >= kFusedOrders ? protect_limits(expression, library_) : expression);
  }

 private:
  bool is_tensor(const std::string& input) const {
    const Argument* argument = entry_.schema.find(input);
    return argument && argument->type.is_tensor();
  }

  bool is_scalar(const std::string& input) const {
    const Argument* argument = entry_.schema.find(input);
    return argument && argument->type.is(Base::scalar);
  }

  bool is_bool(const std::string& input) const {
    const Argument* argument = entry_.schema.find(input);
    return argument && argument->type.is(Base::boolean);
  }

  bool has_tensor(const ExprPtr& expression) const {
    const std::vector<std::string> names = names_in(expression);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& used) { return is_tensor(used) || used == "grad" || used == "result"; });
  }

  /// Whether an overload of the op takes numbers where these are.
  bool takes(const std::string& op, const std::vector<ExprPtr>& args) const {
    const std::vector<const Entry*> overloads = library_.overloads_of(op);
    return std::any_of(overloads.begin(), overloads.end(), [&](const Entry* overload) {
      const std::vector<Argument>& taken = overload->schema.arguments;
      for (size_t i = 0; i < args.size() && taken.size() == args.size(); ++i) {
        if (has_tensor(args[i]) ? !taken[i].type.is_tensor() : !taken[i].type.is(Base::scalar)) return false;
      }
      return taken.size() == args.size();
    });
  }

  using Fill = std::function<ExprPtr(const ExprPtr&)>;

  /// vanishing * factor, but 0 where that is 0 * inf, if there is an op to ask for it. A zero beside a finite factor stays a
  /// product, as it has a slope.
  ExprPtr damp(const ExprPtr& vanishing, const ExprPtr& factor, const Fill& fill) const {
    if (!has_tensor(factor) || library_.overloads_of("isinf").empty())
      return make_expr(ExprKind::binary, "*", {vanishing, factor});
    const ExprPtr zero = algebra::number(0);
    const ExprPtr lost =
        make_expr(ExprKind::binary, "&&", {make_expr(ExprKind::binary, "==", {vanishing, zero}), call("isinf", {factor}, {})});
    return make_expr(ExprKind::binary, "*", {vanishing, choice(lost, zero, factor, fill)});
  }

  /// The inputs of which a branch has slopes that may be infinite where its value is not asked for: those of quotients, and of
  /// functions but bounded ones.
  std::set<std::string> growing(const ExprPtr& branch) const {
    std::set<std::string> inputs;
    if (entry_.order < kFusedOrders) return inputs;
    const auto all_of = [&](const ExprPtr& part) {
      for (const std::string& used : names_in(part)) {
        if (is_tensor(used)) inputs.insert(used);
      }
    };
    rewrite(branch, [&](const ExprPtr& node) -> ExprPtr {
      if (node->is(ExprKind::binary) && node->text == "/") all_of(node->args[1]);
      const auto function = node->is(ExprKind::call) ? library_.functions.find(node->text) : library_.functions.end();
      if (function != library_.functions.end() && !function->second.integer && !is_bounded_function(node->text)) all_of(node);
      return nullptr;
    });
    return inputs;
  }

  /// Whether a condition compares names and numbers: others would be computed for every name that they guard.
  static bool is_of_names(const ExprPtr& condition) {
    return !condition->is_call("where") &&
           std::all_of(condition->args.begin(), condition->args.end(), [](const ExprPtr& part) { return part->args.empty(); });
  }

  /// A branch of a choice, of which ops compute both, so that where it is not taken its slopes are finite: 0 * inf is not 0.
  /// There the inputs are 1.
  ExprPtr guard(const std::vector<ExprPtr>& choices, size_t branch, const std::set<std::string>& inputs, const Fill& fill) const {
    return rewrite(choices[branch], [&](const ExprPtr& node) -> ExprPtr {
      if (!node->is(ExprKind::name) || inputs.count(node->text) == 0) return nullptr;
      const ExprPtr one = algebra::number(1);
      return branch == 1 ? choice(choices[0], node, one, fill) : choice(choices[0], one, node, fill);
    });
  }

  /// A choice by ops. Ops compare a tensor with what stands on the right, and know no && and no !: these become choices too.
  ExprPtr choice(const ExprPtr& condition, const ExprPtr& yes, const ExprPtr& no, const Fill& fill) const {
    const auto is = [&](const char* symbol) { return condition->is(ExprKind::binary) && condition->text == symbol; };
    if (condition->is_call("where")) {
      return choice(condition->args[0], choice(condition->args[1], yes, no, fill), choice(condition->args[2], yes, no, fill),
                    fill);
    }
    if (!has_tensor(condition)) return make_expr(ExprKind::conditional, "?", {condition, fill(yes), fill(no)}, condition->at);
    const auto of = [&](size_t i) { return condition->args[i]; };
    if (condition->is(ExprKind::unary)) return choice(of(0), no, yes, fill);
    if (is("&&")) return choice(of(0), choice(of(1), yes, no, fill), no, fill);
    if (is("||")) return choice(of(0), yes, choice(of(1), yes, no, fill), fill);
    const bool conditions = condition->is(ExprKind::binary) && is_boolean(of(0), library_.functions);
    if (conditions && is("==")) return choice(of(0), choice(of(1), yes, no, fill), choice(of(1), no, yes, fill), fill);
    if (conditions) return choice(of(0), choice(of(1), no, yes, fill), choice(of(1), yes, no, fill), fill);
    ExprPtr asked = condition;
    if (condition->is(ExprKind::binary) && !has_tensor(of(0))) {
      static const std::map<std::string, std::string> kMirrored = {{"<", ">"},   {"<=", ">="}, {">", "<"},
                                                                   {">=", "<="}, {"==", "=="}, {"!=", "!="}};
      asked = make_expr(ExprKind::binary, kMirrored.at(condition->text), {of(1), of(0)}, condition->at);
    }
    const bool numbers = !has_tensor(yes) && !has_tensor(no);  // of which there would be no dtype
    if (!numbers && takes("where", {asked, yes, no})) return call("where", {asked, yes, no}, condition->at);
    return call("where", {asked, fill(yes), fill(no)}, condition->at);
  }

  const Entry& entry_;
  const Library& library_;
};

}  // namespace

ExprPtr compose(const ExprPtr& expression, const Entry& entry, const Library& library) {
  return Composer(entry, library).compose(expression);
}

}  // namespace opgen
