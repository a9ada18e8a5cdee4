#pragma once

#include <set>
#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen {

/// A call that several gradient formulas make: computed once, if one of them is evaluated.
struct SharedCall {
  std::string name;
  TermPtr value;  // may read earlier ones
  std::set<size_t> rules;
};

/// The gradient formulas of an op as its node evaluates them: reading shared calls, Symbol::What::shared.
struct NodeRules {
  std::vector<SharedCall> shared;
  std::vector<Rule> rules;
};

/// Calls on tensors that stand in two formulas at least, and are evaluated in any case in each. What draws random numbers, or
/// copies, is left alone, and so are formulas for each element of a list.
NodeRules share_between_rules(const Op& op);

}  // namespace opgen
