#pragma once

#include "deckle/core/ragged_room.h"
#include "deckle/core/tensor.h"

namespace deckle::native {

/// Writes zeros to the rows of `values` that no component of the batch has. Below autograd, and unseen by version counters: these
/// rows have no meaning, whoever holds them.
void clear_spare_rows(const Tensor& values, const RaggedRoom& room);

}  // namespace deckle::native
