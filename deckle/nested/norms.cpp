// Norms whose statistics reach over rows.

#include "deckle/nested/generated/norm.h"
#include "deckle/ops/generated/norm.h"

namespace deckle::nested {

NestedTensor group_norm(const NestedTensor& self, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  if (!self.ragged().defined()) return {group_norm(self.values(), num_groups, weight, bias, eps), Ragged()};
  return {segment_group_norm(self.values(), self.ragged(), num_groups, weight, bias, eps), self.ragged()};
}

NestedTensor batch_norm(const NestedTensor& self, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                        const Tensor& variance, double eps) {
  return {batch_norm(self.values(), weight, bias, mean, variance, eps), self.ragged()};
}

}  // namespace deckle::nested
