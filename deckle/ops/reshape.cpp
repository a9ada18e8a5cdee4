// Composites that change the shape: views where strides allow it.

#include "deckle/base/check.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shape_tools.h"

namespace deckle {

Tensor reshape(const Tensor& self, Ints sizes) try {
  const Dims wanted = resolved_sizes(self, sizes);
  return view(view_strides(self, wanted) ? self : clone(self), wanted);
} catch (...) {
  rethrow_from("reshape");
}

Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim) try {
  if (self.dim() == 0) return reshape(self, {1});
  const int64_t first = wrap_dim(start_dim, self.sizes()), last = wrap_dim(end_dim, self.sizes());
  check(first <= last, "start_dim {} comes after end_dim {} (expected start_dim <= end_dim)", start_dim, end_dim);
  Dims sizes;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    if (dim == first)
      sizes.push_back(numel_of(self.sizes().subspan(static_cast<size_t>(first), static_cast<size_t>(last - first + 1))));
    if (dim < first || dim > last) sizes.push_back(self.size(dim));
  }
  return reshape(self, sizes);
} catch (...) {
  rethrow_from("flatten");
}

Tensor t(const Tensor& self) try {
  check(self.dim() <= 2, Argument{"self"}, "has shape {} (expected at most 2 dims; transpose swaps any two)", self.sizes());
  return self.dim() < 2 ? self : transpose(self, 0, 1);
} catch (...) {
  rethrow_from("t");
}

}  // namespace deckle
