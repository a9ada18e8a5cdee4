#pragma once

#include <string>
#include <vector>

#include "opgen/ir/program.h"

namespace opgen {

/// What a formula of a pointwise op gives for an input, as an expression of one element.
struct WrittenSlope {
  size_t input;
  const Term* term;  // null: the input is said to have no derivative
  bool forward;
  ExprPtr when;  // null: always
  ExprPtr value;
  std::string where;  // "": whatever the sizes and dtypes are
};

/// The written derivatives by every tensor, for every outcome of conditions on sizes and dtypes.
std::vector<WrittenSlope> written_slopes(const Op& op);

}  // namespace opgen
