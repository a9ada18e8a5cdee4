#pragma once

#include <set>
#include <vector>

#include "opgen/analyze/uses.h"

namespace opgen {

/// A differentiable input. Its gradients go to slot `fixed` plus the lengths of `lists`, the lists before it.
struct Slot {
  size_t argument;
  size_t fixed;
  std::vector<size_t> lists;
  bool list;
};

/// What a node keeps from the call.
struct Saved {
  enum class Kind {
    tensor,  // an input, or the tensors of one
    output,  // a result
    value,   // a plain argument, or sizes, dtype ... of an input or a result
    count,   // the length of a list of inputs
  };
  Kind kind;
  Symbol symbol;
  Type type;                            // of the argument or result
  std::set<size_t> only_for;            // inputs: kept only if one of them wants a gradient; empty: always
  bool by_element = false;              // of a list: element by element, for the same element of those inputs
  std::vector<TermPtr> only_when = {};  // kept only if one of these holds; empty: always
  bool rows = false;                    // of an input whose rows may repeat
  bool repeated_sizes = false;          // of its sizes: with the rows as often as they repeat, not what gradients are summed to
};

/// What the node of an op keeps, and what writing in place destroys.
struct NodePlan {
  std::vector<Slot> slots;
  std::vector<Saved> saved;
  std::set<size_t> original_self_for;  // in place: inputs whose gradient or tangent reads self as it was before the write

  const Slot* slot_of(size_t argument) const;
};

NodePlan plan_node(const Op& op);

}  // namespace opgen
