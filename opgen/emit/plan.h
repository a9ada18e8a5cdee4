#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "opgen/check/lower.h"

namespace opgen {

/// One differentiable input of a node and where its gradients go.
struct Slot {
  const Argument* argument;
  std::string first;  // C++ of its first slot
  std::string count;  // of a list: the field with its length
};

/// A value that a node keeps.
struct Field {
  enum class Kind { tensor, tensors, output, outputs, value };
  Kind kind;
  std::string name;
  std::string type;
  std::string save;                // C++ of what is saved
  std::set<std::string> only_for;  // inputs: kept only if one of them wants a gradient; empty: always
};

/// A reverse formula in C++.
struct ReverseStatement {
  const Rule* rule;
  std::vector<const Slot*> slots;    // one per key
  std::vector<std::string> hoisted;  // declarations before the formula
  std::string formula;
  Type type;
};

/// What a node keeps and computes.
struct NodePlan {
  std::vector<Slot> slots;
  std::vector<Field> fields;
  std::vector<ReverseStatement> statements;
  bool reads_grad = false;  // `grad` is read: hoisted once
  std::set<const Entry*> calls;

  std::set<std::string> original_self_for;  // in place: inputs whose gradient or tangent reads self as it was before the write
};

/// Whether the op gets a node: it has inputs with formulas.
bool has_node(const Entry& entry);
/// Inputs with a formula, in argument order.
std::vector<const Argument*> differentiable_inputs(const Entry& entry);

NodePlan plan_node(const Entry& entry, const Library& library);

/// Scope of a reverse formula. With `fields`, names read a node's fields.
Scope reverse_scope(const Entry& entry, const Library& library);
/// Scope of a forward formula: x_p, x_t, plain arguments, results. `self_source` is what stands for self: its name, or, in
/// place, what it was before.
Scope forward_scope(const Entry& entry, const Library& library);
/// Scope of formulas on the arguments themselves: composite, check, result, wrap.
Scope argument_scope(const Entry& entry, const Library& library);

}  // namespace opgen
