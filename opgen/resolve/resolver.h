#pragma once

#include <string>
#include <vector>

#include "opgen/resolve/scope.h"

namespace opgen {

/// Formulas to terms: names and properties are in resolver.cpp, calls in calls.cpp, operators and literals of several values in
/// operators.cpp. Throws Problem at the first error.
class Resolver {
 public:
  explicit Resolver(Scope& scope) : scope_(scope) {}

  TermPtr resolve(const ExprPtr& expr);
  /// Then converts to `wanted`; `what` names the formula in the error.
  TermPtr resolve_to(const ExprPtr& expr, const Type& wanted, const std::string& what);
  /// `let`s become names of the scope as they go.
  Block resolve_body(const Formula& formula);

 private:
  const Meaning& meaning(const ExprPtr& expr) const;
  /// What a name or a field of a record, `x.q`, stands for; null if the expression is neither.
  const Meaning* known(const ExprPtr& expr) const;
  TermPtr value_of(const Meaning& meaning, const Position& at) const;
  TermPtr name(const ExprPtr& expr);
  /// The object of a method: an argument that may not be read as a whole may still be asked for its sizes.
  TermPtr object_of(const ExprPtr& expr);
  TermPtr method(const ExprPtr& expr);
  /// A value of an enum, `Padding.same`, or a field of a record, `x.q`.
  TermPtr member(const ExprPtr& expr);
  TermPtr asked_property(const ExprPtr& expr, const TermPtr& object);

  /// `first`: the first of `args`, if it is resolved already.
  TermPtr call(const ExprPtr& expr, const std::vector<ExprPtr>& args, const std::vector<std::string>& keys,
               TermPtr first = nullptr);
  void require_known(const std::string& function, const ExprPtr& expr) const;
  /// The call of an op with resolved arguments.
  TermPtr call_op(const std::string& function, const ExprPtr& expr, const std::vector<ExprPtr>& args,
                  const std::vector<std::string>& keys, const std::vector<TermPtr>& values);
  TermPtr zeros_like(const ExprPtr& expr, const ExprPtr& tensor);
  TermPtr query(const ExprPtr& expr, size_t input, const std::string& path) const;
  /// A bool for each field.
  TermPtr query_of_record(const ExprPtr& expr, const Meaning& record) const;
  TermPtr wanted_or_given(const ExprPtr& expr, const std::vector<ExprPtr>& args);

  TermPtr unary(const ExprPtr& expr);
  TermPtr binary(const ExprPtr& expr);
  TermPtr compared_with_none(const ExprPtr& expr);
  TermPtr arithmetic(const ExprPtr& expr, Operator op, const TermPtr& a, const TermPtr& b);
  TermPtr comparison(const ExprPtr& expr, Operator op, const TermPtr& a, const TermPtr& b);
  /// An operator between tensors: the op of that name.
  TermPtr operator_call(const std::string& op, Operator operation, const ExprPtr& expr, std::vector<TermPtr> operands);
  TermPtr conditional(const ExprPtr& expr, const TermPtr& condition, const ExprPtr& yes, const ExprPtr& no);
  TermPtr tuple(const ExprPtr& expr);
  TermPtr list(const ExprPtr& expr);
  TermPtr index(const ExprPtr& expr);
  /// A list is read at an element that it has: in a formula for each element, at that one.
  void require_index(const ExprPtr& expr, const Term& list, const Term& position) const;
  TermPtr index_of_gradients(const ExprPtr& expr);

  Scope& scope_;
};

}  // namespace opgen
