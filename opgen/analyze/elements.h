#pragma once

#include <functional>
#include <vector>

#include "opgen/analyze/scalars.h"
#include "opgen/ir/program.h"

namespace opgen {

/// What formulas are at one element of tensors that all have the sizes [2, 3]: values, where calls act element by element.
class Elements {
 public:
  using OfSymbol = std::function<Scalar(const Symbol&)>;

  explicit Elements(const Functions& functions) : functions_(functions) {}

  /// nullopt where it depends on more: on an op that is not made of pointwise expressions, on sizes or dtypes.
  Scalar of(const Block& formula, const Term& term, const OfSymbol& of_symbol) const;
  Scalar of(const Block& formula, const OfSymbol& of_symbol) const { return of(formula, *formula.value, of_symbol); }
  /// Element `position` of the tuple that a term gives, as it is written; null where that is not known.
  const Term* part_of(const Block& formula, const Term& term, size_t position, const OfSymbol& of_symbol) const;
  /// Of the op's expression, for arguments as in the signature.
  Scalar of_expression(const Op& op, const std::vector<Scalar>& arguments) const;

 private:
  Scalar of_call(const Op& op, const std::vector<Scalar>& arguments) const;
  static Scalar of_property(const Term& term, const std::vector<Scalar>& arguments);

  const Functions& functions_;
};

}  // namespace opgen
