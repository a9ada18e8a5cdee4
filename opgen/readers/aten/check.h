#pragma once

#include <memory>
#include <string>
#include <vector>

#include "opgen/readers/aten/family.h"
#include "opgen/readers/aten/saved.h"
#include "opgen/readers/aten/typing.h"

namespace opgen::aten {

/// Something that has no tree or no type: where, in which formula, why.
struct NotTyped {
  Position at;
  std::string formula;  // add.Tensor, self
  std::string reason;
};

/// A rule as it is checked.
struct CheckedRule {
  const Rule* rule = nullptr;
  ExprPtr tree;  // of a forward rule that is said in a word: what it means
  Typed typed;
};

struct CheckedSet {
  const RuleSet* rules = nullptr;
  std::vector<std::string> inputs;  // with a gradient formula
  std::vector<CheckedRule> checked;
  std::vector<Saved> saved;
  std::string forward;                // auto_linear, auto_element_wise, formula, partly, none
  std::vector<std::string> original;  // what in-place variants clone before they write it, as a formula reads it: self in mul_
};

/// A record, joined with its functions.
struct CheckedRecord {
  const Record* record = nullptr;
  std::vector<std::string> outputs;  // differentiable results
  std::vector<CheckedSet> sets;
};

struct Counts {
  int schema_entries = 0, schemas = 0, families = 0, foreach = 0;
  int record_entries = 0, records = 0;
  int served = 0, unserved = 0;  // functions that a record serves, in any variant; others with kernels of their own
  int formulas = 0, trees = 0, typed_formulas = 0;
  int calls = 0, typed_calls = 0, schema_calls = 0;
};

/// Both files, read, joined and typed.
struct Checked {
  Functions functions;
  Families families;
  Records records;
  std::unordered_map<const Function*, Served> served;
  std::vector<CheckedRecord> entries;
  std::vector<NotTyped> not_typed;
  std::vector<const Function*> lists_alone;  // foreach functions without a record and without an op for one element
  Counts counts;
};

struct File {
  std::string path;
  std::string name;  // in messages
};

Checked check(const File& functions, const File& derivatives, Problems& problems);

/// `auto_element_wise` and `auto_linear` as the formulas that they stand for; null if there is none.
ExprPtr forward_formula(const Rule& rule, const RuleSet& rules, const Function& function);

}  // namespace opgen::aten
