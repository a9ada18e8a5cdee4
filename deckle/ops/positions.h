#pragma once

#include "deckle/core/tensor.h"

namespace deckle {

/// The places in the flattened leading dims of `self`, one for each index, that the indices, broadcast to `shape`, name: int64,
/// [elements of shape]. Negative ones count from the end; throws for those out of range.
Tensor flat_positions(const Tensor& self, TensorList indices, IntSpan shape);

}  // namespace deckle
