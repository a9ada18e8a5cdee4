#pragma once

#include <vector>

#include "deckle/core/tensor.h"

namespace deckle::functional {

/// Fresh variables on the same data, for differentiating with respect to them: each requires grad, keeps its tangents,
/// and passes gradients on to the tensor it came from if that requires grad.
std::vector<Tensor> variables(TensorList tensors);

}  // namespace deckle::functional
