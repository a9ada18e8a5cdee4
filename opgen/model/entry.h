#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "opgen/formula/expr.h"
#include "opgen/ir/declaration.h"
#include "opgen/ir/program.h"
#include "opgen/text/tree.h"

namespace opgen {

/// What `derivative:` says about some inputs, or, in forward mode, about some results.
struct WrittenRule {
  enum class Kind { formula, non_differentiable, auto_linear, auto_element_wise };
  std::vector<std::string> keys;     // inputs or results, the fields of records one by one
  std::vector<std::string> written;  // and as they are written
  bool each = false;                 // `x[i]`: a formula for each element of a list
  Kind kind = Kind::formula;
  Formula formula;
  ExprPtr when;  // the rule holds only where this does, which the call decides; null: always
  Position at;
};

/// A contribution to the tangent of the result from one input of a pointwise op: only evaluated if that has a tangent.
struct WrittenTangent {
  std::string input;
  ExprPtr formula;
};

struct WrittenCheck {
  std::string of;  // the argument that the message goes on from; empty: it is about several
  ExprPtr condition;
  Text says;
  std::string by_hand = {};  // why the overload for nested tensors has another one, written by hand; empty: it has this one
};

/// One op: an entry of ops/*.yaml, or one derived from such an entry (a fused derivative).
struct Entry : Declaration {
  ExprPtr pointwise;                            // body pointwise
  Formula composite;                            // body composite
  std::map<std::string, Formula> composite_on;  // and of other devices than the cpu
  std::vector<ExprPtr> result_rules;            // one per result of a kernel
  std::vector<Text> calls;                      // body composite_cpp: the ops that it is made of
  std::vector<WrittenCheck> checks;
  std::map<std::string, ExprPtr> wraps;  // dim argument -> number of dims

  bool derivative_given = false;
  Position derivative_at;
  std::vector<WrittenRule> reverse;
  std::vector<WrittenRule> forward;
  std::vector<WrittenTangent> tangent_terms;  // instead of `forward`, for derived rules
  std::vector<std::string> recompute;         // results that are cheap to compute again

  Tree samples;         // a set's name or a list; absent for derived entries
  Tree nested_samples;  // the same, of `nested: {cpp: ...}` and of the ragged form

  bool has_ragged_form = false;  // `nested: {segment: ...}` asks for one, which ragged_form.cpp makes of this entry
  std::map<std::string, Kernel> ragged_kernels;

  const WrittenRule* reverse_rule(const std::string& input) const;
};

/// What by_hand.yaml says of a function.
struct WrittenFunction {
  FunctionByHand function;
  std::vector<Text> calls;
};

/// A word of formulas, name(x, dim): what it means over `dim`, if not what it says, and in ragged forms.
struct Word {
  ExprPtr head, dims, ragged;
};

/// Everything that was read: ops by name in the order of the files, functions and sample sets.
struct Library {
  DeclaredTypes types;
  std::vector<std::shared_ptr<const EnumType>> enums;  // in the order of the files
  std::vector<std::shared_ptr<const RecordType>> records;
  std::vector<std::shared_ptr<Entry>> entries;
  Functions functions;
  std::map<std::string, std::vector<Helper>> helpers;
  std::vector<Word> words;
  std::map<std::string, Tree> sample_sets;
  std::vector<WrittenFunction> by_hand;
  std::map<std::string, FunctionHeaders> headers;  // by namespace
  Home home;                                       // of what is compiled

  std::vector<const Entry*> overloads_of(const std::string& name) const;
  bool has(const std::string& name) const { return !overloads_of(name).empty(); }
  std::vector<std::string> op_names() const;
};

}  // namespace opgen
