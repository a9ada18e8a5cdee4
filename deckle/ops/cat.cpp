// Composites that put tensors or parts of one together.

#include <vector>

#include "deckle/base/check.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/promotion.h"
#include "deckle/ops/shapes.h"

namespace deckle {

Tensor cat(TensorList tensors, int64_t dim) try {
  std::vector<Tensor> alike;
  const DType dtype = result_type(tensors);
  for (const Tensor& tensor : tensors) alike.push_back(to(tensor, dtype));
  return concatenate(alike, dim, shapes::sizes_along(alike, dim));
} catch (...) {
  rethrow_from("cat");
}

Tensor stack(TensorList tensors, int64_t dim) try {
  check(!tensors.empty(), "the list is empty (expected at least one tensor)");
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) {
    check(tensor.sizes() == tensors[0].sizes(), "shapes {} and {} differ (expected one shape)", tensors[0].sizes(),
          tensor.sizes());
    rows.push_back(unsqueeze(tensor, dim));
  }
  return cat(rows, dim);
} catch (...) {
  rethrow_from("stack");
}

Tensor flip(const Tensor& self, Ints dims) try {
  Tensor result = self;
  for (const int64_t dim : dims) {
    const int64_t size = self.size(dim);
    result = index_select(result, dim, arange(size - 1, -1, -1));
  }
  return result;
} catch (...) {
  rethrow_from("flip");
}

Tensor roll(const Tensor& self, int64_t shift, int64_t dim) try {
  const int64_t size = self.size(dim);
  if (size == 0) return self;
  const int64_t start = (size - shift % size) % size;
  return cat({narrow(self, dim, start, size - start), narrow(self, dim, 0, start)}, dim);
} catch (...) {
  rethrow_from("roll");
}

Tensor pad_end(const Tensor& self, Ints sizes) try {
  check(static_cast<int64_t>(sizes.size()) == self.dim(), "sizes {} for shape {} (expected one for each dim)", sizes,
        self.sizes());
  Tensor result = self;
  for (int64_t dim = 0; dim < self.dim(); ++dim) {
    const int64_t missing = sizes[static_cast<size_t>(dim)] - self.size(dim);
    check(missing >= 0, "shape {} does not fit into {} (expected no smaller sizes)", self.sizes(), sizes);
    if (missing == 0) continue;
    Dims padding(result.sizes());
    padding[static_cast<size_t>(dim)] = missing;
    result = cat({result, zeros(padding, self.dtype())}, dim);
  }
  return result;
} catch (...) {
  rethrow_from("pad_end");
}

}  // namespace deckle
