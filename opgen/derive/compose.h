#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// The slope times `grad`, a pointwise expression over the arguments of an entry, `grad` and `result`, as calls of ops: numbers
/// become tensors like `grad` where an op takes only tensors.
ExprPtr compose(const ExprPtr& expression, const Entry& entry, const Library& library);

}  // namespace opgen
