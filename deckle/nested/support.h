#pragma once

#include "deckle/nested/nested_tensor.h"

/// What generated overloads for nested tensors call.
namespace deckle::nested {

/// `dim` in [0, x.dim()); throws naming the shape.
int64_t wrap_dim(int64_t dim, const NestedTensor& x);

/// The dim of x.values() that holds the regular dim `dim` (wrapped): dim - ragged dims.
int64_t values_dim(int64_t dim, const NestedTensor& x);

/// The same for the place of a new dim, in [0, x.dim()]: it must come after the ragged dims.
int64_t new_values_dim(int64_t dim, const NestedTensor& x);

Dims values_dims(Ints dims, const NestedTensor& x);

/// Whether `dim` is the one ragged dim of x; whether `dims` are all of its ragged dims.
bool is_the_ragged_dim(int64_t dim, const NestedTensor& x);
bool are_the_ragged_dims(Ints dims, const NestedTensor& x);

/// `rows` [B, ...], x reduced over its ragged dims: a nested tensor with none left, or with size 1 in their place.
NestedTensor reduced(const Tensor& rows, const NestedTensor& x, bool keepdim);

/// Throws unless both have equal ragged shapes; the message gives both and the first component that differs.
void require_same_ragged(const NestedTensor& self, const NestedTensor& other);

/// Dense `other` as it must look beside self.values(): a trailing-dims operand ([D], scalars) as it is; an operand with a
/// batch dim ([B,1,..,D]: as many dims as self, size 1 on ragged dims) repeated along each component's rows, with gradients
/// summed back to its shape.
Tensor broadcast_to_values(const Tensor& other, const NestedTensor& self);

/// "[3, 2..9, 4]".
std::string shape_string(const NestedTensor& x);

}  // namespace deckle::nested
