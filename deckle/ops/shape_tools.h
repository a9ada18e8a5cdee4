#pragma once

#include <optional>

#include "deckle/core/tensor.h"

namespace deckle {

/// `sizes` with -1, at most once, replaced by what makes the number of elements that of `self`; throws if nothing does.
Dims resolved_sizes(const Tensor& self, IntSpan sizes);

/// Strides under which `self` has the shape `sizes` (as many elements) without a copy, if there are any.
std::optional<Dims> view_strides(const Tensor& self, IntSpan sizes);

/// A slice of `size` positions as Python reads it: from `start` in steps to before `end`, `count` of them.
struct SliceBounds {
  int64_t start, end, count;
};
SliceBounds slice_bounds(int64_t size, int64_t start, int64_t end, int64_t step);

}  // namespace deckle
