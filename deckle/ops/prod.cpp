#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/pointwise.h"
#include "deckle/ops/generated/reduce.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/shapes.h"

namespace deckle {

Tensor composite::prod(const Tensor& self, OptionalInts dim, bool keepdim) {
  // The reduced dims move to the back and become one of n elements.
  const Dims result = shapes::reduced_shape(self.sizes(), dim, keepdim);
  const Ints dims = dim.value_or(Ints());
  Dims order, sizes;
  for (const bool reduced : {false, true}) {
    for (int64_t d = 0; d < self.dim(); ++d) {
      bool is_reduced = dims.empty();
      for (size_t i = 0; !is_reduced && i < dims.size(); ++i) is_reduced = wrap_dim(dims[i], self.sizes()) == d;
      if (is_reduced != reduced) continue;
      order.push_back(d);
      if (!reduced) sizes.push_back(self.size(d));
    }
  }
  int64_t n = shapes::reduced_count(self.sizes(), dim);
  sizes.push_back(n);
  Tensor x = reshape(permute(self, order), sizes);
  if (!is_floating(x.dtype())) x = to(x, DType::int64);
  if (n == 0) return reshape(add(sum(x, Ints{-1}, true), 1), result);
  while (n > 1) {  // halves times each other; an odd one stays
    const int64_t half = n / 2;
    Tensor product = mul(slice(x, -1, 0, half), slice(x, -1, half, 2 * half));
    x = n % 2 == 0 ? product : deckle::cat({product, slice(x, -1, 2 * half, n)}, -1);
    n -= half;
  }
  return reshape(x, result);
}

}  // namespace deckle
