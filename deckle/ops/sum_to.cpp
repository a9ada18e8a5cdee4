#include "deckle/base/check.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"

namespace deckle {

Tensor sum_to(const Tensor& self, Ints sizes) try {
  if (self.sizes() == sizes) return self;
  const int64_t missing = self.dim() - static_cast<int64_t>(sizes.size());
  check(missing >= 0, "{} does not broadcast to {}", sizes, self.sizes());
  Dims reduced;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    const int64_t wanted = dim < missing ? 1 : sizes[static_cast<size_t>(dim - missing)];
    check(wanted == self.size(dim) || wanted == 1, "{} does not broadcast to {}", sizes, self.sizes());
    if (dim < missing || wanted != self.size(dim)) reduced.push_back(dim);
  }
  return reshape(sum(self, reduced, true), sizes);
} catch (...) {
  rethrow_from("sum_to");
}

}  // namespace deckle
