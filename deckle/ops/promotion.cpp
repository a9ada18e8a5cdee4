#include "deckle/ops/promotion.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "deckle/base/check.h"
#include "deckle/core/shown.h"

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

int64_t integer_of(const Scalar& number, DType dtype) {
  constexpr double kLimit = 0x1p63;
  const double real = number.to_double();
  const bool fits = number.is_floating() ? real >= -kLimit && real < kLimit : true;
  const int64_t integer = fits ? number.to_int64() : 0;
  const auto held_to = [&]<typename T>(TypeTag<T>) {
    using Limits = std::numeric_limits<T>;
    check(fits && std::in_range<T>(integer), "{} has no {} (expected {} to {})", Shown{number}, name(dtype), Limits::min(),
          Limits::max());
  };
  if (dtype == DType::uint8)
    held_to(TypeTag<uint8_t>());
  else if (dtype == DType::int32)
    held_to(TypeTag<int32_t>());
  else
    held_to(TypeTag<int64_t>());
  return integer;
}

}  // namespace deckle
