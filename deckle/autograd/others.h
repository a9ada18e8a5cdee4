#pragma once

#include "deckle/core/tensor.h"

namespace deckle::autograd {

/// Whether a gradient of `tensors` or of their tangents may itself be differentiated by anything but `variables`, which are
/// leaves or results: their history, or that of a tangent of theirs, leads to another leaf that somebody may ask for. Variables
/// of transforms that have returned are nobody's. What a gradient hook or the rule of a
/// Function alone reads is not seen.
bool depend_on_others(TensorList tensors, TensorList variables);

}  // namespace deckle::autograd
