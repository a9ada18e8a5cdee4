#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "opgen/ir/declaration.h"
#include "opgen/ir/sample.h"
#include "opgen/ir/term.h"

namespace opgen {

/// What one value of a formula is for: an input or result, or a record of such.
struct Target {
  std::string name;
  Type type;
  std::vector<std::optional<size_t>> slots;  // one, or one for each field; nullopt: no tensor

  bool is_record() const { return type.base == Base::record; }
};

/// The derivative for some inputs (gradients) or some results (tangents), which are numbered as in the signature.
struct Rule {
  std::vector<size_t> of;       // the fields of records one by one
  std::vector<Target> targets;  // and as the formula gives them: one value, or a tuple
  Block formula;
  Position at;
  bool each = false;  // the formula is for one element of a list, number i
  TermPtr when;  // the rule holds only where this does, known at the call; null: always. At most one of those for an input does
};

/// What the tangent of one input adds to the tangent of the result of a pointwise op.
struct TangentTerm {
  size_t input = 0;
  Block formula;
};

/// A refusal: text, with values put in between.
struct Check {
  struct Piece {
    std::string text;
    TermPtr value;  // null: the text
  };
  std::string of;  // the argument that the message goes on from; empty: it is about several
  TermPtr condition;
  std::vector<Piece> message;
  std::string by_hand;  // why an overload for nested tensors that is written by hand has another one; empty: it has this one
};

/// How a kernel's result is allocated: like(tensor, dtype), like(tensor, wanted) or empty(shape, dtype).
struct Allocation {
  TermPtr like;  // or
  TermPtr shape;
  TermPtr dtype;   // null: that of `like`
  TermPtr wanted;  // beside `like`: a condition without which the result has no elements; null: none
};

/// A dim argument that arrives counted from 0.
struct Wrap {
  size_t argument = 0;
  TermPtr rank;  // null: that of the first tensor
};

/// One op, resolved: what every printer reads.
struct Op : Declaration {
  ExprPtr pointwise;                          // body pointwise: the expression as it is written, for tests and comments
  ExprPtr computed;                           // and as the kernel computes it
  bool condition = false;                     // whose value is a condition
  Block composite;                            // body composite
  std::map<std::string, Block> composite_on;  // and on other devices than the cpu
  std::vector<const Op*> calls;               // body composite_cpp: what it is made of
  std::vector<Wrap> wraps;
  std::vector<Check> checks;            // of pointwise ops, kernels and composites
  std::vector<Allocation> allocations;  // one per result of a kernel
  std::vector<Rule> reverse;            // only those with a formula
  std::vector<size_t> constants;        // inputs that are non_differentiable
  std::vector<Rule> forward;
  std::vector<size_t> constant_results;         // results that are non_differentiable: indices and the like
  std::map<size_t, TermPtr> differentiable_if;  // results that are only where this holds
  std::vector<size_t> cheap;                    // results that cost little to compute again
  std::vector<size_t> recomputed;               // of these, those that the node does
  std::vector<TangentTerm> tangent_terms;       // in place of `forward`: a sum
  std::vector<Sample> samples;
  std::vector<Sample> nested_samples;  // calls on components, of overloads that are written by hand

  const Rule* reverse_rule(size_t argument) const;
  bool is_constant(size_t argument) const;
  bool is_constant_result(size_t result) const;
  /// Inputs with a gradient formula, or beyond the limit of orders with an error in its place, in argument order.
  std::vector<size_t> differentiable() const;
  bool has_node() const { return !non_differentiable && !differentiable().empty(); }
  bool has_forward() const { return !forward.empty() || !tangent_terms.empty(); }
  bool has_raw() const { return body == Body::pointwise || body == Body::kernel; }
};

/// A host function on sizes and dtypes.
struct Helper {
  Schema schema;
  Home home;
};

}  // namespace opgen
