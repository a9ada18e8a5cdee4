#pragma once

#include "deckle/core/generator.h"
#include "deckle/core/tensor.h"

namespace deckle::nn {

/// A copy of these values that is trained: a leaf that requires grad.
Tensor parameter(const Tensor& values);

/// A float32 parameter of normal values with mean 0 and this standard deviation; from the thread's generator if none is given.
Tensor normal_parameter(Ints sizes, double standard_deviation, Generator* generator = nullptr);

/// A parameter that is one number everywhere.
Tensor constant_parameter(Ints sizes, double value);

}  // namespace deckle::nn
