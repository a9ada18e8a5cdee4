// 1 over the root mean square of rows: of the norm, which sums squares in double, so that none overflows or vanishes.
#include <cmath>

#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/norm.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/on_device.h"

namespace deckle {

Tensor native::inverse_rms(const Tensor& self, double eps) {
  check(self.dim() >= 1, Argument{"self"}, "has shape {} (expected a last dim)", self.sizes());
  check(eps >= 0, Argument{"eps"}, "is {} (expected 0 or more)", eps);
  const Dims last{-1};
  const Tensor length = raw::norm(self, IntSpan(last), true);
  const Tensor root = full({}, std::sqrt(eps), self.dtype(), self.device());
  return raw::reciprocal(raw::hypot(raw::mul(length, 1 / std::sqrt(static_cast<double>(self.size(-1)))), root));
}

}  // namespace deckle
