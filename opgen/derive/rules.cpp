#include "opgen/derive/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "opgen/derive/algebra.h"
#include "opgen/derive/calculus.h"
#include "opgen/derive/compose.h"
#include "opgen/derive/forward.h"
#include "opgen/ir/build.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

using algebra::call;
using algebra::name;

ExprPtr method(const ExprPtr& object, const std::string& function, const Position& at) {
  return make_expr(ExprKind::method, function, {object}, at);
}

/// Positions of derived formulas: the entry's derivative field.
ExprPtr at_position(const ExprPtr& expr, const Position& at) {
  std::vector<ExprPtr> args;
  for (const ExprPtr& argument : expr->args) args.push_back(at_position(argument, at));
  return std::make_shared<Expr>(expr->kind, expr->text, std::move(args), expr->keys, at);
}

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// The gradient of one input: a pointwise expression over `grad`, the arguments and `result`.
struct Gradient {
  std::string input;
  ExprPtr expression;   // null: not differentiable
  bool itself = false;  // the op is linear in this input: its gradient is the op with the input replaced by grad
};

class PointwiseRules {
 public:
  PointwiseRules(const std::shared_ptr<Entry>& entry, Library& library) : entry_(*entry), library_(library) {}

  void derive() {
    std::vector<std::string> names;
    for (const Argument& argument : entry_.schema.arguments) names.push_back(argument.name);
    if (!entry_.derived) check_pointwise(entry_.pointwise, names, library_);
    expression_ = algebra::simplify(entry_.pointwise);
    for (const Argument& argument : entry_.schema.arguments) {
      if (argument.type.is_tensor()) tensors_.push_back(argument.name);
    }
    if (is_boolean(entry_.pointwise, library_.functions) && !entry_.derivative_given) entry_.non_differentiable = true;
    if (entry_.non_differentiable || (!entry_.derivative_auto && entry_.reverse.empty())) return;
    if (is_boolean(entry_.pointwise, library_.functions))
      throw Problem(entry_.derivative_at, "a condition has no derivative: leave 'derivative' out");

    std::vector<Gradient> gradients = entry_.derivative_auto ? automatic() : declared_gradients(names);
    if (gradients.empty()) return;
    int nonlinear = 0;
    for (const Gradient& gradient : gradients) {
      nonlinear += gradient.expression != nullptr && !gradient.itself;
    }
    std::vector<WrittenRule> rules;
    std::vector<WrittenTangent> terms;
    for (const Gradient& gradient : gradients) {
      WrittenRule rule;
      rule.keys = rule.written = {gradient.input};
      rule.at = entry_.derivative_at;
      if (!gradient.expression && only_condition(entry_.pointwise, gradient.input)) {
        rule.kind = WrittenRule::Kind::non_differentiable;
      } else if (!gradient.expression) {  // a slope of zero: the input takes part, and what it gets is zeros
        rule.formula.body = make_expr(ExprKind::name, "none", {}, rule.at);
      } else {
        const auto formula = formula_of(gradient, nonlinear > 1);
        ExprPtr reverse = formula(name("grad"), [](const std::string& input) { return name(input); });
        if (tensors_.size() > 1) reverse = call("sum_to", {reverse, method(name(gradient.input), "sizes", rule.at)}, rule.at);
        rule.formula.body = at_position(reverse, rule.at);
        const ExprPtr tangent = formula(name(gradient.input + "_t"), [&](const std::string& input) {
          return is_tensor(input) ? name(input + "_p") : name(input);
        });
        terms.push_back({gradient.input, at_position(tangent, rule.at)});
      }
      rules.push_back(std::move(rule));
    }
    if (terms.empty() && !tensors_.empty()) {
      terms.push_back({tensors_[0], make_expr(ExprKind::name, "none", {}, entry_.derivative_at)});
    }
    entry_.reverse = std::move(rules);
    if (entry_.forward.empty()) entry_.tangent_terms = std::move(terms);
  }

 private:
  bool is_tensor(const std::string& input) const { return std::find(tensors_.begin(), tensors_.end(), input) != tensors_.end(); }

  std::vector<Gradient> automatic() const {
    std::vector<Gradient> gradients;
    for (const std::string& input : tensors_) {
      Gradient gradient{input, nullptr, false};
      const bool linear = std::any_of(entry_.linear_in.begin(), entry_.linear_in.end(),
                                      [&](const LinearSet& set) { return set.inputs == std::vector{input}; });
      if (linear) {
        gradient.expression = name("grad");
        gradient.itself = true;
      } else {
        ExprPtr slope = differentiate(expression_, input, library_);
        if (!algebra::is_number(slope, 0)) {
          // The form in the result, if it exists and costs no more: what it saves is there anyway.
          if (entry_.order == 0 && !expression_->is(ExprKind::name)) {
            const ExprPtr by_result =
                rewrite(slope, [&](const ExprPtr& node) { return equal(node, expression_) ? name("result") : nullptr; });
            if (by_result != slope && cost_of(by_result) <= cost_of(slope)) slope = by_result;
          }
          gradient.expression = algebra::mul(name("grad"), slope);
        }
      }
      gradients.push_back(std::move(gradient));
    }
    return gradients;
  }

  /// Written formulas, if all of them are pointwise expressions; else none: they are then ordinary formulas.
  std::vector<Gradient> declared_gradients(std::vector<std::string> names) const {
    names.insert(names.end(), {"grad", "result"});
    std::vector<Gradient> gradients;
    for (const WrittenRule& rule : entry_.reverse) {
      if (rule.keys.size() != 1 || rule.when) return {};
      Gradient gradient{rule.keys[0], nullptr, false};
      if (rule.kind == WrittenRule::Kind::formula) {
        const ExprPtr expression = inline_lets(rule.formula);
        try {
          check_pointwise(expression, names, library_);
        } catch (const Problem&) {
          return {};
        }
        gradient.expression = algebra::simplify(expression);
        const ExprPtr slope = differentiate(gradient.expression, "grad", library_);
        const ExprPtr without = algebra::simplify(algebra::substitute(gradient.expression, "grad", algebra::number(0)));
        if (mentions(slope, "grad") || algebra::is_number(slope, 0) || !algebra::is_number(without, 0))
          throw Problem(rule.at, fmt::format("the gradient of '{}' must be linear in grad, and '{}' is not", rule.keys[0],
                                             to_string(expression)));
      }
      gradients.push_back(std::move(gradient));
    }
    return gradients;
  }

  /// A name for an argument of a derivative, which takes those of this op too.
  std::string free_name(const std::string& wanted) const {
    std::string free = wanted;
    for (int i = 2; entry_.schema.find(free); ++i) free = wanted + std::to_string(i);
    return free;
  }

  using Rename = std::function<ExprPtr(const std::string&)>;
  using FormulaOf = std::function<ExprPtr(const ExprPtr& gradient, const Rename& rename)>;

  FormulaOf formula_of(const Gradient& gradient, bool name_input) {
    const Position at = entry_.derivative_at;
    if (gradient.itself) {
      return [this, gradient, at](const ExprPtr& incoming, const Rename& rename) {
        std::vector<ExprPtr> args;
        for (const Argument& argument : entry_.schema.arguments)
          args.push_back(argument.name == gradient.input ? incoming : rename(argument.name));
        return call(entry_.name(), args, at);
      };
    }
    const bool one_op = operations_in(gradient.expression) <= 1;
    if (one_op || entry_.order >= kFusedOrders) {
      const ExprPtr tree = compose(gradient.expression, entry_, library_);
      return [this, tree](const ExprPtr& incoming, const Rename& rename) {
        return rewrite(tree, [&](const ExprPtr& node) -> ExprPtr {
          if (node->is_name("grad")) return incoming;
          if (node->is(ExprKind::name) && entry_.schema.find(node->text)) return rename(node->text);
          return nullptr;
        });
      };
    }
    return fuse(gradient, name_input);
  }

  /// A fused kernel for the gradient; the formula calls it.
  FormulaOf fuse(const Gradient& gradient, bool name_input) {
    const std::string base = entry_.derived ? entry_.name() : lower_case(entry_.unique_name());
    const std::string function = base + "_backward" + (name_input ? "_" + gradient.input : "");
    const std::string incoming_name = free_name(entry_.order == 0 ? "grad_output" : "grad_grad");
    const std::string output_name = free_name("output");
    auto derived = std::make_shared<Entry>();
    derived->at = entry_.at;
    derived->stem = entry_.stem;
    derived->external = entry_.external;
    derived->home = entry_.home;
    derived->derived = true;
    derived->order = entry_.order + 1;
    derived->body = Entry::Body::pointwise;
    derived->derivative_given = derived->derivative_auto = true;
    derived->derivative_at = entry_.derivative_at;
    derived->dtypes = Dtypes::floating;
    derived->nested.kind = NestedRule::Kind::values;
    derived->schema.name = function;
    derived->schema.results = {Result{tensor_type(), "", std::nullopt, ""}};
    derived->linear_in = entry_.linear_in;
    derived->linear_in.push_back({{incoming_name}});
    derived->doc = fmt::format("The gradient of {} for {}.", entry_.name(), gradient.input);
    std::vector<std::string> passed;
    const auto argument = [&](const std::string& as, const std::string& from, Type type) {
      Argument added;
      added.name = as;
      added.type = std::move(type);
      added.at = entry_.derivative_at;
      derived->schema.arguments.push_back(std::move(added));
      passed.push_back(from);
    };
    argument(incoming_name, "grad", tensor_type());
    for (const std::string& tensor : tensors_) {
      if (mentions(gradient.expression, tensor)) argument(tensor, tensor, tensor_type());
    }
    if (mentions(gradient.expression, "result")) argument(output_name, "result", tensor_type());
    for (const Argument& other : entry_.schema.arguments) {
      if (!other.type.is_tensor() && mentions(gradient.expression, other.name)) argument(other.name, other.name, other.type);
    }
    derived->pointwise =
        algebra::substitute(algebra::substitute(gradient.expression, "grad", name(incoming_name)), "result", name(output_name));
    if (library_.has(function))
      throw Problem(
          entry_.derivative_at,
          fmt::format("the derivative of '{}' would be the op '{}', which has an entry at {} already: write the "
                      "formula by hand, e.g. {}: {}(grad, ...)",
                      entry_.name(), function, library_.overloads_of(function)[0]->at.to_string(), gradient.input, function));
    library_.entries.push_back(derived);
    return [function, passed, at = entry_.derivative_at](const ExprPtr& incoming, const Rename& rename) {
      std::vector<ExprPtr> args;
      for (const std::string& from : passed)
        args.push_back(from == "grad" ? incoming : from == "result" ? name("result") : rename(from));
      return call(function, args, at);
    };
  }

  Entry& entry_;
  Library& library_;
  ExprPtr expression_;
  std::vector<std::string> tensors_;
};

}  // namespace

void derive_rules(Library& library, Problems& problems) {
  for (size_t i = 0; i < library.entries.size(); ++i) {  // grows: derived entries are derived in turn
    const std::shared_ptr<Entry> entry = library.entries[i];
    try {
      if (entry->body == Entry::Body::pointwise) PointwiseRules(entry, library).derive();
      expand_forward(*entry);
    } catch (const TooLarge&) {
      const Problem problem(
          entry->derivative_at,
          fmt::format("derivatives of this op grow beyond {} parts or {} levels: write its formulas by hand, or "
                      "make it of several ops",
                      Expr::kMaxParts, Expr::kMaxDepth));
      if (problems.empty() || problems.back() != problem.what()) problems.emplace_back(problem.what());
    } catch (const Problem& problem) {
      problems.emplace_back(problem.what());
    }
  }
}

}  // namespace opgen
