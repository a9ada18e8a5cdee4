// Composites that put tensors or parts of one together.

#include <algorithm>
#include <optional>
#include <vector>

#include "deckle/autograd/support.h"
#include "deckle/base/check.h"
#include "deckle/core/tensor_impl.h"
#include "deckle/ops/generated/factory.h"
#include "deckle/ops/generated/index.h"
#include "deckle/ops/generated/shape.h"
#include "deckle/ops/launch.h"
#include "deckle/ops/promotion.h"
#include "deckle/ops/shapes.h"
#include "deckle/ops/sliced_allocation.h"

namespace deckle {

Tensor composite::cat(TensorList tensors, int64_t dim) {
  std::vector<Tensor> alike;
  const DType dtype = result_type(tensors);
  for (const Tensor& tensor : tensors) alike.push_back(to(tensor, dtype));
  return concatenate(alike, dim, shapes::sizes_along(alike, dim));
}

Tensor composite::stack(TensorList tensors, int64_t dim) {
  check(!tensors.empty(), "the list is empty (expected at least one tensor)");
  std::vector<Tensor> rows;
  for (const Tensor& tensor : tensors) {
    check(tensor.sizes() == tensors[0].sizes(), "shapes {} and {} differ (expected one shape)", tensors[0].sizes(),
          tensor.sizes());
    rows.push_back(unsqueeze(tensor, dim));
  }
  return deckle::cat(rows, dim);
}

Tensor composite::joined_slices(TensorList tensors, int64_t dim) {
  check(!tensors.empty(), "the list is empty (expected at least one tensor)");
  const Tensor& first = tensors[0];
  dim = launch::wrap_dim(dim, first.dim() + 1);
  const std::optional<Dims> whole = launch::joined_sizes(tensors, dim);
  const bool recorded = std::any_of(tensors.begin(), tensors.end(), [](const Tensor& each) { return autograd::active(each); });
  return whole && !recorded ? alias(first, *whole, contiguous_strides(*whole), first.offset()) : deckle::stack(tensors, dim);
}

}  // namespace deckle
