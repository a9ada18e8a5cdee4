#pragma once

#include <vector>

#include "deckle/nested/nested_tensor.h"

namespace deckle::nested {

/// Whether `dim`, or all of `dims`, are regular dims, so that an op over them works on the values as they are.
bool is_regular(int64_t dim, const NestedTensor& x);
bool are_regular(IntSpan dims, const NestedTensor& x);

/// The rows of a nested tensor grouped for an op over some dims, the batch or a ragged one among them: rows whose positions
/// differ in those dims alone are one group, so the op becomes a segment op:
///
///   over the ragged dim     a group is a component          x [B, L, D] -> [B, D]
///   over the batch          a group is a position           x [B, L, D] -> [longest, D], of the components that reach so far
///   over both               all rows are one group          x [B, L, D] -> [D]
///   over one of two ragged  a group is a row or a column    x [B, H, W, D] -> [B, H, D]
///
/// The rows stay where they are: the order of the groups' ragged shape says which belong to a group (RaggedShape::order). Regular
/// dims among the dims are folded into the rows first. Differentiable: the values carry their history.
class Groups {
 public:
  /// No dims mean all of them, as in reductions of dense tensors.
  Groups(const NestedTensor& x, IntSpan dims);

  /// Values, and the rows of each group; groups are in row-major order of the dims that stay.
  const Tensor& values() const { return values_; }
  const Ragged& ragged() const { return ragged_; }

  /// One row per group -> x's shape without the dims (with size 1 in their place if keepdim).
  NestedTensor reduce(const Tensor& rows, bool keepdim) const;

  /// Values like values(), as those of x. Not for regular dims.
  NestedTensor restore(const Tensor& values) const { return NestedTensor::of_op(values, x_.ragged()); }

  /// Rows of values() -> their positions along the one dim that the op is over; -1 stays.
  Tensor positions(const Tensor& rows) const;

 private:
  Ragged group_rows() const;
  void fold_regular_dims();

  NestedTensor x_;
  std::vector<bool> over_;  // by dim of x
  Tensor values_;
  Ragged ragged_;
};

}  // namespace deckle::nested
