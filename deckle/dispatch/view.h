#pragma once

#include <vector>

#include "deckle/core/tensor.h"
#include "deckle/kernels/args/view.h"

namespace deckle::dispatch {

/// What a kernel sees of a tensor; an undefined tensor gives a View that is not defined.
View view(const Tensor& tensor);

std::vector<View> views(TensorList tensors);

}  // namespace deckle::dispatch
