#include "deckle/ops/promotion.h"

#include <algorithm>
#include <optional>

namespace deckle {
namespace {

using Candidate = std::optional<DType>;

void join(Candidate& candidate, DType dtype) { candidate = candidate ? promote_types(*candidate, dtype) : dtype; }

/// `weaker` only counts when its category is higher.
Candidate combine(const Candidate& stronger, const Candidate& weaker) {
  if (!stronger) return weaker;
  if (!weaker || category(*weaker) <= category(*stronger)) return stronger;
  return weaker;
}

}  // namespace

int category(DType dtype) { return dtype == DType::bool_ ? 0 : is_integral(dtype) ? 1 : 2; }

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const DType low = std::min(a, b), high = std::max(a, b);
  if (low == DType::float16 && high == DType::bfloat16) return DType::float32;
  return high;
}

DType result_type(TensorList tensors, std::initializer_list<Scalar> numbers) {
  Candidate with_dims, without_dims, plain;
  for (const Tensor& tensor : tensors) {
    if (tensor.defined()) join(tensor.dim() > 0 ? with_dims : without_dims, tensor.dtype());
  }
  for (const Scalar& number : numbers) join(plain, number.is_floating() ? DType::float32 : number.dtype());
  return combine(combine(with_dims, without_dims), plain).value_or(DType::float32);
}

}  // namespace deckle
