#pragma once

#include <span>

#include "deckle/core/tensor.h"

namespace deckle::optim {

/// Euclidean norm of all gradients of the parameters as one vector.
double gradient_norm(TensorList parameters);

/// Scales all gradients by one factor so that their norm is at most `max_norm`; returns the norm before. If it is not finite,
/// the gradients are left as they are; the non-finite norm is returned.
double clip_gradient_norm(TensorList parameters, double max_norm);

/// The norm of each gradient, [gradients] in float64, where the gradients are: to be read together with whatever else the host
/// waits for.
Tensor gradient_norms(TensorList parameters);

/// clip_gradient_norm where `norms` are the values of gradient_norms.
double clip_gradient_norm(TensorList parameters, double max_norm, std::span<const double> norms);

/// clip_gradient_norm without the host, for a step in a cuda::Graph: the norm, float64 without dims, stays where the gradients
/// are.
Tensor clip_gradient_norm_on_device(TensorList parameters, double max_norm);

}  // namespace deckle::optim
