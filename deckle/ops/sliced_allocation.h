#pragma once

#include <initializer_list>
#include <optional>

#include "deckle/core/tensor.h"

namespace deckle::launch {

/// The sizes of the row-major tensor whose slices along a dim of its these are, one after another; nothing if they are no such.
std::optional<Dims> joined_sizes(TensorList slices, int64_t dim);

/// Memory of results that are like operands. Where the first operand and others are the slices of one tensor along its dim 1, as
/// parts of one product are, the results like them on a GPU are slices of one, too: joined_slices needs no copy then.
class SlicedAllocation {
 public:
  SlicedAllocation(std::initializer_list<Tensor> operands, Device device);

  /// Uninitialised, of the operand's shape and dtype.
  Tensor empty_like(const Tensor& operand) const;

 private:
  Device device_;
  Tensor first_;  // of the slices in their order; undefined if there are none
  Tensor whole_;  // their shape, slices side by side
};

}  // namespace deckle::launch
