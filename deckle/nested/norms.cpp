// Norms whose statistics reach over rows, and what norms divide.

#include "deckle/nested/generated/linalg.h"
#include "deckle/nested/generated/norm.h"
#include "deckle/nested/generated/pointwise.h"
#include "deckle/nested/generated/reduce.h"
#include "deckle/nested/support.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/shapes.h"

namespace deckle::nested {

NestedTensor group_norm(const NestedTensor& self, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps) {
  if (!self.ragged().defined()) return {group_norm(self.values(), num_groups, weight, bias, eps), Ragged()};
  return NestedTensor::of_op(segment_group_norm(self.values(), self.ragged(), num_groups, weight, bias, eps), self.ragged());
}

NestedTensor batch_norm(const NestedTensor& self, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                        const Tensor& variance, double eps) {
  return NestedTensor::of_op(batch_norm(whole(self), weight, bias, mean, variance, eps), self.ragged());
}

NestedTensor normalize(const NestedTensor& self, int64_t dim, double eps) {
  require_floating(self, "self");
  const NestedTensor x = self.to(shapes::statistics_dtype(self.dtype()));  // a half may hold neither eps nor the norm
  return div(x, clamp_min(norm(x, dim, true), eps)).to(self.dtype());
}

NestedTensor cosine_similarity(const NestedTensor& x1, const NestedTensor& x2, int64_t dim, double eps) {
  require_floating(x1, "x1");
  require_floating(x2, "x2");
  const DType wide = shapes::statistics_dtype(x1.dtype());
  const NestedTensor a = x1.to(wide), b = x2.to(wide);
  const auto length = [&](const NestedTensor& x) { return clamp_min(norm(x, dim), eps); };
  const bool by_position = nested::wrap_dim(dim, x1) == 0;  // of which components have different numbers to divide
  return (by_position ? div(sum(mul(a, b), dim), mul(length(a), length(b)))
                      : sum(mul(normalize(a, dim, eps), normalize(b, dim, eps)), dim))
      .to(x1.dtype());
}

}  // namespace deckle::nested
