#include "deckle/ops/shapes.h"

#include "deckle/base/check.h"

namespace deckle::shapes {

Dims reduced_shape(Ints sizes, Ints dims, bool keepdim) {
  std::vector<bool> reduced(sizes.size(), dims.empty());
  for (const int64_t dim : dims) {
    const auto at = static_cast<size_t>(wrap_dim(dim, sizes));
    if (sizes.empty()) continue;
    check(!reduced[at], "dim {} appears twice in {}", dim, to_string(dims));
    reduced[at] = true;
  }
  Dims result;
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    if (!reduced[dim]) result.push_back(sizes[dim]);
    if (reduced[dim] && keepdim) result.push_back(1);
  }
  return result;
}

Dims broadcast_shape(Ints a, Ints b) { return broadcast_shapes(a, b); }

Dims concat(Ints a, Ints b) {
  Dims result(a);
  for (const int64_t value : b) result.push_back(value);
  return result;
}

DType statistics_dtype(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

}  // namespace deckle::shapes
