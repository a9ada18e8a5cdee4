#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "deckle/core/dims.h"
#include "deckle/nested/nested_tensor.h"
#include "deckle/nested/support.h"

/// How nested operands of different numbers of dims stand beside each other: the batch and ragged dims correspond, from the left;
/// regular dims broadcast as those of dense tensors do, from the right. A ragged dim that an operand lacks, or in which it has
/// size 1 throughout (as after a reduction with keepdim), is repeated.
namespace deckle::nested {

/// What operands are brought to: a raggedness, and regular dims that may still broadcast. That of an operand, if it needs no
/// repeating.
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

/// The raggedness that the operands have together, and the regular dims of the one that has most, of those with the most ragged
/// dims.
Lead leading(std::initializer_list<const NestedTensor*> operands);

/// The values of `other` as they must look beside those of `lead`, with gradients summed back. Throws naming both shapes.
Tensor beside(const NestedTensor& other, const Lead& lead);

/// The same for a dense operand: one of regular dims ([D], scalars) as it is; one of as many dims as `lead`, [B, 1, .., D] with
/// size 1 in the ragged dims, repeated along each component's rows.
Tensor broadcast_to_values(const Tensor& other, const Lead& lead);

}  // namespace deckle::nested
