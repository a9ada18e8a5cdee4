#pragma once

#include "deckle/core/tensor.h"

namespace deckle::optim {

/// Euclidean norm of all gradients of the parameters as one vector.
double gradient_norm(TensorList parameters);

/// Scales all gradients by one factor so that their norm is at most `max_norm`; returns the norm before. If it is not finite,
/// the gradients are left as they are; the non-finite norm is returned.
double clip_gradient_norm(TensorList parameters, double max_norm);

}  // namespace deckle::optim
