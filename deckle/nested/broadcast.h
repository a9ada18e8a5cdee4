#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "deckle/core/dims.h"
#include "deckle/core/row_operand.h"
#include "deckle/nested/nested_tensor.h"
#include "deckle/nested/support.h"

/// Broadcasting of nested operands: the batch and ragged dims are aligned from the left, regular dims from the right as those of
/// dense tensors. An operand is broadcast along a ragged dim that it lacks, or in which every component has size 1 (as after a
/// reduction with keepdim).
namespace deckle::nested {

/// The common ragged shape after broadcasting, and the regular dims of the operand of highest rank, which may still broadcast.
class Lead {
 public:
  Lead(const NestedTensor& operand) : Lead(operand, operand.ragged()) {}
  Lead(const NestedTensor& operand, Ragged ragged) : ragged_(std::move(ragged)), values_sizes_(operand.values().sizes()) {}

  const Ragged& ragged() const { return ragged_; }
  int ragged_dims() const { return ragged_.defined() ? ragged_->ragged_dims() : 0; }
  int64_t values_dims() const { return static_cast<int64_t>(values_sizes_.size()); }
  int64_t dim() const { return values_dims() + ragged_dims(); }
  std::string shape() const { return shape_string(ragged_, values_sizes_); }

 private:
  Ragged ragged_;
  Dims values_sizes_;
};

/// The common shape of the operands; regular dims are those of the operand with the most ragged dims and the highest rank.
Lead leading(std::initializer_list<const NestedTensor*> operands);

/// The values of `other` beside the rows of `lead`, repeated where it is broadcast. Throws naming both shapes.
RepeatedRows broadcast_to(const NestedTensor& other, const Lead& lead);

/// The same of a dense operand: one of regular dims ([D], scalars) as it is; one of as many dims as `lead`, [B, 1, .., D] with
/// size 1 in the ragged dims, repeated along the rows of each component.
RepeatedRows broadcast_to(const Tensor& other, const Lead& lead);

}  // namespace deckle::nested
