#pragma once

#include "opgen/model/entry.h"

namespace opgen {

/// Orders of derivatives that are kernels of their own; those above are made of ops.
constexpr int kFusedOrders = 2;

/// The slope times `grad`, a pointwise expression over the arguments of an entry, `grad` and `result`, as calls of ops: numbers
/// become tensors like `grad` where an op takes only tensors.
ExprPtr compose(const ExprPtr& expression, const Entry& entry, const Library& library);

}  // namespace opgen
