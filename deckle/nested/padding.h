#pragma once

#include <vector>

#include "deckle/nested/nested_tensor.h"

/// Nested tensors as dense ones with padding, and back. All differentiable: padding gets no gradient.
namespace deckle {

/// The side that is padded.
enum class PadSide { right, left };

struct PadOptions {
  PadSide side = PadSide::right;
  Scalar value = 0;                 // converted as fill_ does
  std::vector<int64_t> sizes = {};  // of each ragged dim; 0 or not given: the longest component
};

/// [B, padded sizes.., regular dims]; every component padded along each ragged dim.
Tensor to_padded(const NestedTensor& x, const PadOptions& options);

/// bool [B, padded sizes..]: true for elements of components, false for padding.
Tensor padding_mask(const NestedTensor& x, const PadOptions& options);

/// The components of padded [B, sizes.., regular dims], whose sizes are `shape`.
NestedTensor from_padded(const Tensor& padded, const Ragged& shape, PadSide side = PadSide::right);

/// The rows of padded [B, L, ...] where the bool mask [B, L] is set, in order; anywhere in each row of the mask.
NestedTensor from_mask(const Tensor& padded, const Tensor& mask);

}  // namespace deckle
