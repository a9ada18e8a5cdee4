#pragma once

#include "deckle/core/dims.h"
#include "deckle/core/tensor.h"

/// Rules on sizes and dtypes that op entries call (declared in ops/functions.yaml, `helpers:`).
namespace deckle::shapes {

/// `sizes` without `dims` (with them as 1 if keepdim). No dims: all of them.
Dims reduced_shape(Ints sizes, Ints dims, bool keepdim);

/// NumPy's broadcasting rules.
Dims broadcast_shape(Ints a, Ints b);

Dims concat(Ints a, Ints b);

/// Of log-sum-exp and other row statistics: float64 for float64, float32 otherwise.
DType statistics_dtype(DType dtype);

}  // namespace deckle::shapes
