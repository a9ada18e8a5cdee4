#pragma once

#include "deckle/core/tensor.h"

namespace deckle::native {

/// to[i] = from[i], floating and of one shape and dtype each; on a GPU up to 48 of them in one launch. Not recorded: throws where
/// history would have to be.
void copy_lists(TensorList to, TensorList from);

}  // namespace deckle::native
