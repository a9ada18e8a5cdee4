#include "opgen/analyze/modes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "opgen/analyze/condition_values.h"
#include "opgen/analyze/conditions.h"
#include "opgen/analyze/uses.h"
#include "opgen/text/strings.h"

namespace opgen {
namespace {

using What = Symbol::What;
using State = Conditions::State;

bool reads_value(const Term& term) {
  return term.is(TermKind::read) && (term.symbol.how == Symbol::How::whole || term.symbol.how == Symbol::How::element);
}

class Modes {
 public:
  explicit Modes(const Op& op) : op_(op), conditions_(op) {
    for (const Rule& rule : op.forward) add_conditions(rule, true);
    for (const Rule& rule : op.reverse) add_conditions(rule, false);
    for (const auto& [result, when] : op.differentiable_if) conditions_.add(*when, {});
    states_ = conditions_.states();
  }

  void check() const {
    for (size_t i = 0; i < op_.schema.arguments.size(); ++i) {
      if (!op_.schema.arguments[i].type.is_tensor_like()) continue;
      for (const State& state : states_) {
        if (is_given(i, state) && differs(i, state)) fail(i, state);
      }
    }
  }

 private:
  /// Reverse formulas may ask which gradients arrived and are wanted; these conditions may hold or not.
  void add_conditions(const Rule& rule, bool forward) {
    if (rule.when) conditions_.add(*rule.when, {});
    visit(rule.formula, [&](const Term& term) {
      if (!term.is(TermKind::condition)) return;
      bool known = true;
      const auto see = [&](const Term& part) {
        known = known && !part.is(TermKind::wants) && !part.reads(What::gradient) && !part.reads(What::gradients);
      };
      visit(*term.arguments[0], see);
      if (forward || known) conditions_.add(*term.arguments[0], rule.formula);
    });
  }

  /// Whether the input is given in this state, is floating, and has a tangent.
  bool is_given(size_t input, const State& state) const {
    const Argument& argument = op_.schema.arguments[input];
    const std::string has = "has_t(" + argument.label() + ")";
    const std::set<std::string> questions = {has, argument.label() + ".defined()", argument.name + "_t.defined()"};
    const auto dtype = state.find(argument.label() + ".dtype()");
    if (dtype != state.end() && !is_floating_dtype(dtype->second)) return false;
    return std::all_of(state.begin(), state.end(),
                       [&](const auto& asked) { return asked.second != "false" || !questions.count(asked.first); });
  }

  bool applies(const Rule& rule, const State& state) const {
    return !rule.when || conditions_.holds(*rule.when, rule.formula, state).value_or(true);
  }

  bool has_history(size_t result, const State& state) const {
    const auto found = op_.differentiable_if.find(result);
    if (found != op_.differentiable_if.end()) return conditions_.holds(*found->second, {}, state).value_or(true);
    return !op_.is_constant_result(result);
  }

  bool has_gradient(size_t input, const State& state) const {
    return std::any_of(op_.reverse.begin(), op_.reverse.end(), [&](const Rule& rule) {
      if (!applies(rule, state)) return false;
      for (size_t i = 0; i < rule.of.size(); ++i) {
        if (rule.of[i] == input && conditions_.evaluates(rule.formula, value_for(rule, i), state, is_gradient_)) return true;
      }
      return false;
    });
  }

  /// What the formula gives for input number `i` of the rule, as far as it says so one by one.
  static const Term& value_for(const Rule& rule, size_t i) {
    const Term& all = *rule.formula.value;
    return all.is(TermKind::tuple) && all.arguments.size() == rule.of.size() ? *all.arguments[i] : all;
  }

  bool moves(size_t input, const State& state) const {
    const auto is_tangent = [&](const Term& term) { return reads_value(term) && term.symbol.is(What::tangent, input); };
    return std::any_of(op_.forward.begin(), op_.forward.end(), [&](const Rule& rule) {
      return applies(rule, state) && conditions_.evaluates(rule.formula, *rule.formula.value, state, is_tangent);
    });
  }

  bool differs(size_t input, const State& state) const {
    bool any = false;
    for (size_t i = 0; i < op_.schema.results.size(); ++i) any = any || has_history(i, state);
    return any && has_gradient(input, state) != moves(input, state);
  }

  /// "where mode is sum and product is false": what decides, in a state in which the modes differ.
  std::string where(size_t input, const State& state) const {
    std::vector<std::string> deciding;
    for (const auto& [of, value] : state) {
      const bool other = std::any_of(states_.begin(), states_.end(), [&, of = of](const State& another) {
        return !differs(input, another) && is_given(input, another) &&
               std::all_of(state.begin(), state.end(),
                           [&](const auto& asked) { return asked.first == of || another.at(asked.first) == asked.second; });
      });
      if (other) deciding.push_back(of + " is " + value);
    }
    return deciding.empty() ? "" : " where " + join(deciding, " and ");
  }

  [[noreturn]] void fail(size_t input, const State& state) const {
    const Argument& argument = op_.schema.arguments[input];
    const auto applied =
        std::find_if(op_.forward.begin(), op_.forward.end(), [&](const Rule& rule) { return applies(rule, state); });
    const Position& at = applied == op_.forward.end() ? op_.forward[0].at : applied->at;
    const std::string name = argument.label(), tangent = tangent_of(argument);
    if (has_gradient(input, state))
      throw Problem(at, fmt::format("'{0}' has a gradient, and no formula of '{1}' reads its tangent '{2}'{3}: add what it "
                                    "contributes, or say '{0}: non_differentiable'",
                                    name, op_.name(), tangent, where(input, state)));
    throw Problem(at,
                  fmt::format("a formula reads the tangent '{1}', and '{0}' has no gradient{2}: write the formula '{0}: ...', "
                              "or leave '{1}' out",
                              name, tangent, where(input, state)));
  }

  /// x_t, and x_t.q of a field of a record.
  static std::string tangent_of(const Argument& argument) {
    const size_t dot = argument.path.find('.');
    if (dot == std::string::npos) return argument.name + "_t";
    return argument.path.substr(0, dot) + "_t" + argument.path.substr(dot);
  }

  const Op& op_;
  Conditions conditions_;
  std::vector<State> states_;
  // Even if it is multiplied with 0.
  std::function<bool(const Term&)> is_gradient_ = [](const Term& term) {
    return reads_value(term) && (term.reads(What::gradient) || term.reads(What::gradients));
  };
};

}  // namespace

void check_cases(const Op& op) {
  for (const auto* rules : {&op.reverse, &op.forward}) {
    for (const Rule& rule : *rules) {
      if (!rule.when) continue;
      Conditions conditions(op);
      conditions.add(*rule.when, {});
      const std::vector<State> states = conditions.states();
      const bool can_be = !conditions.complete() || std::any_of(states.begin(), states.end(), [&](const State& state) {
        return conditions.holds(*rule.when, {}, state).value_or(true);
      });
      if (!can_be)
        throw Problem(rule.formula.value->at,
                      fmt::format("the case of '{}' never applies: its condition holds in none that those "
                                  "before it leave over; leave it out, or put it before them",
                                  op.name()));
    }
  }
}

void check_modes(const Op& op) {
  if (!op.forward.empty() && op.limit.order == 0) Modes(op).check();
}

}  // namespace opgen
