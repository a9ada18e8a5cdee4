#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// A pointwise expression over the arguments of an entry, `grad` and `result`, as calls of ops: numbers become tensors where an
/// op takes only tensors.
ExprPtr compose(const ExprPtr& expression, const Entry& entry, const Functions& functions);

}  // namespace opgen
