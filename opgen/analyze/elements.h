#pragma once

#include <map>
#include <string>
#include <vector>

#include "opgen/ir/program.h"

namespace opgen {

/// How conditions that the values of an element do not decide, those on sizes and dtypes, turn out: one way after the other.
class Choices {
 public:
  /// Of `condition`, the same for the same text until `next`.
  bool holds(const std::string& condition);
  /// Goes on to the next way; false if there is none.
  bool next();
  /// "self.dim() == 2": those that hold, and "!(...)" those that do not.
  std::string text() const;

 private:
  struct Choice {
    std::string condition;
    bool holds;
  };
  std::vector<Choice> made_;
  std::map<std::string, size_t> place_;
};

/// Formulas of tensors that all have the sizes [2, 3] as expressions of one element, where calls act element by element: over
/// the names of arguments and kResult. The gradient that arrives is 1, and of tangents that of one input.
class Elements {
 public:
  static constexpr const char* kResult = "=result";

  Elements(const Op& op, size_t input, Choices& choices) : op_(op), input_(input), choices_(choices) {}

  /// What depends on more, as ops that are not made of pointwise expressions, is a name without a value.
  ExprPtr of(const Block& formula, const Term& term) const;
  /// The expression of element `position` of the tuple that a term gives.
  ExprPtr of_part(const Block& formula, const Term& term, size_t position) const;

 private:
  struct Reading {
    const Op& op;
    const Block& formula;
    const std::vector<ExprPtr>* arguments = nullptr;  // of a composite that is called
    std::map<size_t, ExprPtr> lets = {};
  };
  ExprPtr of(const Term& term, Reading& reading) const;
  ExprPtr of_part(const Term& term, size_t position, Reading& reading) const;
  ExprPtr of_symbol(const Symbol& symbol, const Reading& reading) const;
  ExprPtr of_operation(const Term& term, Reading& reading) const;
  ExprPtr of_property(const Term& term) const;
  ExprPtr of_call(const Op& op, std::vector<ExprPtr> arguments) const;
  ExprPtr chosen(const Term& condition, const Reading& reading) const;
  /// Whether a condition can be so for tensors that have an element and a gradient.
  bool can_be(const Term& condition, bool holds, const Reading& reading) const;

  const Op& op_;
  size_t input_;
  Choices& choices_;
};

}  // namespace opgen
