#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "opgen/ir/op.h"

namespace opgen {

/// The headers with a library's scalar functions and helpers, as generated code includes them.
struct FunctionHeaders {
  std::string simd;       // scalar functions on vectors
  std::string reference;  // and in plain double, for tests
  std::string shapes;     // helpers
};

/// A scalar function of pointwise expressions.
struct ScalarFunction {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<ExprPtr> derivatives;  // per parameter; null: not differentiable
  std::vector<ExprPtr> vanishes;
  ExprPtr means;  // what it is but for limits, in other functions; null: only itself
  bool integer = false;
  bool bits = false;     // of integers alone
  bool boolean = false;  // isnan and its like
  Home home;
};

using Functions = std::map<std::string, ScalarFunction>;

/// A public function that is no op: C++ in `header`, which readers of the table are to find all the same.
struct FunctionByHand {
  std::string name;  // without its class
  std::string signature, doc, header;
  std::string because;           // why it has no entry
  std::vector<const Op*> calls;  // what it is made of; none: not differentiable
  enum class Kind { composite, hands_on_values, transforms_function } kind = Kind::composite;
  Position at;
};

/// All ops, in the order of the files; derivatives that were fused follow them.
struct Program {
  DeclaredTypes types;
  std::vector<std::shared_ptr<const EnumType>> enums;
  std::vector<std::shared_ptr<const RecordType>> records;
  std::vector<std::unique_ptr<Op>> ops;
  Functions functions;
  std::map<std::string, std::vector<Helper>> helpers;
  std::vector<FunctionByHand> by_hand;
  std::map<std::string, FunctionHeaders> headers;  // by namespace, of other libraries than Deckle
  Home home;                                       // of what is compiled

  Op& add(std::unique_ptr<Op> op);
  /// The overloads of a name.
  std::vector<const Op*> overloads_of(const std::string& name) const;
  bool has(const std::string& name) const { return by_name_.count(name) > 0; }
  std::vector<std::string> op_names() const;

 private:
  std::multimap<std::string, const Op*> by_name_;
};

}  // namespace opgen
