#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen {

/// What the conditions of an op's formulas ask of a call: plain values that the formulas compare with others that are written
/// out, and bools. Numbers take, of all values, those that tell the comparisons apart.
class Conditions {
 public:
  /// The value of each thing that is asked about, both as formulas write them.
  using State = std::map<std::string, std::string>;

  explicit Conditions(const Op& op) : op_(op) {}

  void add(const Term& condition, const Block& formula);
  /// Every state that can be, or, beyond some hundreds, as many that are drawn, the same in every run.
  std::vector<State> states() const;
  /// Whether these were all.
  bool complete() const { return complete_; }
  /// Whether the condition holds; nullopt if the state does not say.
  std::optional<bool> holds(const Term& condition, const Block& formula, const State& state) const;
  /// Whether a part of a formula for which `is` holds is evaluated in the state.
  bool evaluates(const Block& formula, const Term& term, const State& state, const std::function<bool(const Term&)>& is) const;
  /// A part of a formula as it is written, its lets in their places.
  std::string text_of(const Term& term, const Block& formula) const;

 private:
  struct Asked {
    bool truth = false;
    bool whole = false;  // an integer
    bool count = false;  // and none below 0
    bool dtype = false;
    std::vector<std::string> values;  // what it may be, or else is compared with
  };
  struct Comparison {
    std::string of, with;
    Operator operation;
    bool truth = false, whole = false, count = false;
  };
  using LetOf = std::pair<const Block*, size_t>;
  /// What is known of the lets of a formula in a state.
  struct Reading {
    const Block& formula;
    const State& state;
    std::map<size_t, std::optional<bool>> holds = {};
    std::map<size_t, bool> evaluates = {};
  };

  void add_dtypes(const Term& term, const Block& formula);
  std::string dtype_in(const Term& term, const Block& formula, const State& state) const;
  std::string text_of_let(const Block& formula, size_t let) const;
  std::optional<bool> holds(const Term& condition, Reading& reading) const;
  bool evaluates(const Term& term, Reading& reading, const std::function<bool(const Term&)>& is) const;
  std::optional<Comparison> comparison(const Term& term, const Block& formula) const;
  std::optional<bool> constant_value(const Term& term, const Block& formula) const;

  const Op& op_;
  std::map<std::string, Asked> asked_;
  std::set<LetOf> added_;
  std::vector<std::string> dtypes_;  // that conditions name
  mutable bool complete_ = true;
  mutable std::map<LetOf, std::string> lets_;             // their texts
  mutable std::map<std::string, std::string> shortened_;  // and names for those that are long
};

}  // namespace opgen
