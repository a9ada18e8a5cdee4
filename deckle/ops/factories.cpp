// Tensors from nothing, below autograd.

#include <cmath>

#include "deckle/base/check.h"
#include "deckle/core/shown.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/copy.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/launch.h"
#include "deckle/ops/promotion.h"

namespace deckle::native {
namespace {

/// How many of start, start + step, ... come before end; in unsigned arithmetic, for the distance of two int64 may be no int64.
int64_t whole_steps(int64_t start, int64_t end, int64_t step) {
  if (step > 0 ? start >= end : start <= end) return 0;
  const uint64_t distance = step > 0 ? static_cast<uint64_t>(end) - static_cast<uint64_t>(start)
                                     : static_cast<uint64_t>(start) - static_cast<uint64_t>(end);
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  const uint64_t count = (distance - 1) / stride + 1;
  check(count < uint64_t{1} << 62, "{} to {} by {} has {} elements (expected fewer than 2^62)", start, end, step, count);
  return static_cast<int64_t>(count);
}

Tensor make_filled(IntSpan sizes, const Scalar& value, DType dtype, Device device) {
  Tensor result = empty(sizes, dtype, device);
  fill(result, value);
  return result;
}

}  // namespace

Tensor zeros(IntSpan sizes, DType dtype) { return zeros_raw(sizes, dtype, factory_device()); }

Tensor ones(IntSpan sizes, DType dtype) { return make_filled(sizes, 1, dtype, factory_device()); }

Tensor full(IntSpan sizes, const Scalar& value, std::optional<DType> dtype) {
  const DType own = value.is_floating() ? DType::float32 : value.dtype();
  return make_filled(sizes, value, dtype.value_or(own), factory_device());
}

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype) {
  const bool floating = start.is_floating() || end.is_floating() || step.is_floating();
  check(!step.is_zero(), Argument{"step"}, "is 0 (expected any other number)");
  const double steps = floating ? std::ceil((end.to_double() - start.to_double()) / step.to_double()) : 0;
  check(std::isfinite(steps) && steps < 0x1p62,
        "{} to {} by {} is no range (expected finite numbers and fewer than 2^62 elements)", Shown{start}, Shown{end},
        Shown{step});
  const int64_t count = floating ? std::max<int64_t>(0, static_cast<int64_t>(steps))
                                 : whole_steps(start.to_int64(), end.to_int64(), step.to_int64());
  if (!floating && factory_device().is_cuda() && dtype.value_or(DType::int64) == DType::int64 && count > 0) {
    const uint64_t before = static_cast<uint64_t>(start.to_int64()) - static_cast<uint64_t>(step.to_int64());  // modulo 2^64
    return deckle::cumsum(deckle::full({count}, step, DType::int64), 0) + static_cast<int64_t>(before);
  }
  // Each element is start + i * step, rounded once; an exact int64 where all are integers.
  Tensor result = empty({count}, floating ? DType::float64 : DType::int64);
  for (int64_t i = 0; i < count; ++i) {
    if (floating)
      result.data<double>()[i] = start.to_double() + static_cast<double>(i) * step.to_double();
    else
      // Modulo 2^64: the product alone may leave int64 where the element does not.
      result.data<int64_t>()[i] = static_cast<int64_t>(static_cast<uint64_t>(start.to_int64()) +
                                                       static_cast<uint64_t>(i) * static_cast<uint64_t>(step.to_int64()));
  }
  const DType wanted = dtype.value_or(floating ? DType::float32 : DType::int64);
  for (const int64_t i : {int64_t{0}, count - 1}) {  // the outermost
    if (count == 0 || !is_integral(wanted)) continue;
    integer_of(floating ? Scalar(result.data<double>()[i]) : Scalar(result.data<int64_t>()[i]), wanted);
  }
  return upload(wanted == result.dtype() ? result : copy_as(result, wanted));
}

Tensor eye(int64_t n, DType dtype) {
  Tensor result = zeros_raw({n, n}, dtype, factory_device());
  fill(alias(result, {n}, {n + 1}, 0), 1);
  return result;
}

Tensor zeros_like(const Tensor& self) { return zeros_raw(self.sizes(), self.dtype(), self.device()); }

Tensor ones_like(const Tensor& self) { return make_filled(self.sizes(), 1, self.dtype(), self.device()); }

Tensor full_like(const Tensor& self, const Scalar& value) {
  return make_filled(self.sizes(), value, self.dtype(), self.device());
}

void fill_(const Tensor& self, const Scalar& value) {
  check_writable(self);
  if (value.is_floating() && !self.is_floating_point()) {
    if (self.dtype() != DType::bool_) integer_of(value, self.dtype());  // throws where none is near
    fail(Argument{"value"}, "is {}, for elements of {} (expected an integer)", to_string(value), name(self.dtype()));
  }
  fill(self, value);
}

void zero_(const Tensor& self) { native::fill_(self, 0); }

}  // namespace deckle::native
