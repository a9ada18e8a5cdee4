#pragma once

#include "deckle/core/tensor.h"

/// Whether two tensors agree as a whole; no derivatives.
namespace deckle {

/// Whether every element differs from that of other by at most atol + rtol |other|, as isclose says; shapes broadcast.
bool allclose(const Tensor& self, const Tensor& other, FloatArg rtol = 1e-5, FloatArg atol = 1e-8, BoolArg equal_nan = false);

/// The same of a number, rounded to self's dtype.
bool allclose(const Tensor& self, const Scalar& other, FloatArg rtol = 1e-5, FloatArg atol = 1e-8, BoolArg equal_nan = false);

/// Whether shapes and all elements are equal. NaN is equal to nothing.
bool equal(const Tensor& self, const Tensor& other);

}  // namespace deckle
