#pragma once

#include "deckle/core/generator.h"
#include "deckle/core/tensor.h"

namespace deckle::nn {

/// A float32 parameter (a leaf that requires grad) of normal values with mean 0 and this standard deviation.
Tensor normal_parameter(Ints sizes, double deviation, Generator& generator);

/// A parameter that is one number everywhere.
Tensor constant_parameter(Ints sizes, double value);

}  // namespace deckle::nn
