#pragma once

#include "deckle/core/tensor.h"

// The few public ops that the engine itself is made of; generated with all others, declared here because autograd may
// not include ops.
namespace deckle {

Tensor add(const Tensor& self, const Tensor& other);
Tensor add_(const Tensor& self, const Tensor& other);
Tensor copy_(const Tensor& self, const Tensor& source);
Tensor zero_(const Tensor& self);
Tensor clone(const Tensor& self);
Tensor zeros_like(const Tensor& self);
Tensor ones_like(const Tensor& self);
Tensor sum_to(const Tensor& self, Ints sizes);
Tensor to(const Tensor& self, DType dtype);
Tensor contiguous(const Tensor& self);
Tensor as_strided(const Tensor& self, Ints sizes, Ints strides, IntArg offset);
Tensor as_strided_backward(const Tensor& gradient, Ints self_sizes, Ints strides, IntArg offset);

}  // namespace deckle
