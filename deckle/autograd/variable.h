#pragma once

#include "deckle/core/tensor.h"

namespace deckle::autograd {

/// Another variable with the same elements, in the same place unless several of them share one: it keeps the tangents and
/// passes its gradient on to `tensor` if that is recorded.
Tensor fresh_variable(const Tensor& tensor);

/// Says of a variable that is a leaf that nobody will ask for its gradient: passes that accumulate leave it out.
void close_variable(const Tensor& variable);

}  // namespace deckle::autograd
