#pragma once

#include <string>
#include <vector>

#include "opgen/formula/expr.h"
#include "opgen/readers/aten/function.h"

namespace opgen::aten {

/// What a record says about some inputs (their gradients) or some results (their tangents).
struct Rule {
  enum class Kind { formula, non_differentiable, auto_linear, auto_element_wise };
  std::vector<std::string> keys;
  bool reverse = true;     // `of` are inputs; else results
  std::vector<size_t> of;  // numbered as in the signature
  Kind kind = Kind::formula;
  ExprPtr tree;  // null: not_a_tree says why
  std::string not_a_tree;
  Position at;  // of the formula, or of what is wrong in it

  bool is(Kind wanted) const { return kind == wanted; }
};

/// The rules for one autograd dispatch key; `Default` serves all keys without rules of their own.
struct RuleSet {
  std::string key;
  std::vector<Rule> rules;
  Position at;

  /// The rule for an input (or a result); null if there is none.
  const Rule* find(bool reverse, size_t index) const;
};

/// An entry of derivatives.yaml.
struct Record {
  Schema schema;
  const Function* function = nullptr;
  Position at;
  std::vector<RuleSet> sets;
  std::vector<bool> output_differentiability;  // per result; empty: not given
  ExprPtr condition;                           // instead of flags: when the one result is differentiable
  Position condition_at;
};

struct Records {
  std::vector<Record> all;
  int entries = 0;   // of the file
  int formulas = 0;  // that are expressions, and those of them that are trees
  int trees = 0;
};

Records read_records(const std::string& path, const std::string& name, Functions& functions, Problems& problems);

}  // namespace opgen::aten
