#pragma once

#include <initializer_list>

#include "deckle/core/tensor.h"

namespace deckle::launch {

/// The order of dims in which operands of an op lie that are all permuted in one way. The op then runs on them as they lie, with
/// their dims in that order, and its result lies so too: no operand is copied.
class MemoryOrder {
 public:
  /// None unless all are on the CPU and would be contiguous with their dims in one other order than the row-major one.
  MemoryOrder(std::initializer_list<const Tensor*> operands);

  explicit operator bool() const { return !order_.empty(); }
  /// An operand, the number of a dim, and sizes, with the dims in this order; below autograd.
  Tensor permute(const Tensor& operand) const;
  int64_t permute(int64_t dim) const;
  /// Whether the dim is the last in this order: slices along it are then no runs of elements.
  bool innermost(int64_t dim) const { return dim == order_[order_.size() - 1]; }
  Dims permute(IntSpan sizes) const;
  /// A result, with its dims in their own order.
  Tensor restore(const Tensor& result) const;

 private:
  void find(const Tensor& first);
  bool fits(const Tensor& operand) const;

  Dims order_;  // the dims, from the outermost on; empty: none
};

}  // namespace deckle::launch
