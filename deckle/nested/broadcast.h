#pragma once

#include <initializer_list>

#include "deckle/nested/nested_tensor.h"

/// How nested operands of different numbers of dims stand beside each other: the batch and ragged dims correspond, from the left;
/// regular dims broadcast as those of dense tensors do, from the right.
namespace deckle::nested {

/// The operand with the most ragged dims, of those the one with the most dims: the result has its raggedness.
const NestedTensor& leading(std::initializer_list<const NestedTensor*> operands);

/// The values of `other` as they must look beside those of `lead`: repeated along the ragged dims that it lacks (in which it may have
/// size 1, as after a reduction with keepdim), with gradients summed back. Throws naming both shapes.
Tensor beside(const NestedTensor& other, const NestedTensor& lead);

}  // namespace deckle::nested
