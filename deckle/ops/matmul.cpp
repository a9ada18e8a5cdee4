// The matrix product of any two tensors with dims, from linear (a matrix on the right) and bmm (batches on both sides).

#include "deckle/ops/generated/matmul.h"
#include "deckle/base/check.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {
namespace {

Tensor batched(const Tensor& self, const Tensor& other) {
  const Ints left = self.sizes(), right = other.sizes();
  const Dims batch = broadcast_shapes(left.first(left.size() - 2), right.first(right.size() - 2));
  const auto over_batch = [&](const Tensor& x) {  // broadcast by strides of 0: nothing is written out
    Dims sizes = batch;
    sizes.push_back(x.size(-2));
    sizes.push_back(x.size(-1));
    return Ints(sizes) == x.sizes() ? x : expand(x, sizes);
  };
  return bmm(over_batch(self), over_batch(other));
}

}  // namespace

Tensor matmul(const Tensor& self, const Tensor& other) try {
  check(self.dim() >= 1 && other.dim() >= 1, "self has shape {} and other {} (expected one dim or more each)", self.sizes(),
        other.sizes());
  const int64_t inner = other.size(other.dim() == 1 ? 0 : -2);
  check(self.size(-1) == inner, "inner dims differ: self is {}, other is {} (expected the same)", self.sizes(), other.sizes());
  if (other.dim() == 1) return squeeze(linear(self, unsqueeze(other, 0)), -1);
  if (other.dim() == 2) return self.dim() == 2 ? mm(self, other) : linear(self, t(other));
  if (self.dim() == 1) return squeeze(matmul(unsqueeze(self, 0), other), -2);
  return batched(self, other);
} catch (...) {
  rethrow_from("matmul");
}

Tensor linear_forward_mode(const Tensor& input, const Tensor& weight, const Tensor& input_tangent, const Tensor& weight_tangent,
                           const Tensor& bias_tangent, bool of_input, bool of_weight) try {
  // The product that takes the bias along, then the other one; without either, the bias alone, broadcast.
  if (of_input && of_weight) return linear(input_tangent, weight, bias_tangent) + linear(input, weight_tangent);
  if (of_input) return linear(input_tangent, weight, bias_tangent);
  return linear(input, weight_tangent, bias_tangent);
} catch (...) {
  rethrow_from("linear_forward_mode");
}

}  // namespace deckle
