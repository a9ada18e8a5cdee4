#pragma once

#include "deckle/nested/nested_tensor.h"

namespace deckle {

/// Transposed operands are read in place, without a copy.
struct MatmulOptions {
  bool transpose_self = false;
  bool transpose_other = false;
};

/// One matrix product per component, over the last two dims of [B, rows, cols], each ragged or regular; the inner dims agree
/// component by component. Rows of scores for two ragged sequences: matmul(q, k, {.transpose_other = true}) is [B, Lq, Lk].
NestedTensor matmul(const NestedTensor& self, const NestedTensor& other, const MatmulOptions& options);
NestedTensor matmul(const NestedTensor& self, const Tensor& other, const MatmulOptions& options);
NestedTensor matmul(const Tensor& self, const NestedTensor& other, const MatmulOptions& options);

}  // namespace deckle
