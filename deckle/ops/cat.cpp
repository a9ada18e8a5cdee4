// Composites that put tensors or parts of one together.

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
  Dims sizes(first.sizes()), strides(first.strides());
  sizes.insert(sizes.begin() + dim, std::ssize(tensors));
  const int64_t step = contiguous_strides(sizes)[static_cast<size_t>(dim)];
  strides.insert(strides.begin() + dim, step);
  bool together = Ints(strides) == Ints(contiguous_strides(sizes));
  for (size_t i = 0; together && i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    together = tensor.storage() == first.storage() && tensor.dtype() == first.dtype() && tensor.sizes() == first.sizes() &&
               tensor.strides() == first.strides() && tensor.offset() == first.offset() + static_cast<int64_t>(i) * step &&
               !autograd::active(tensor);
  }
  return together ? alias(first, sizes, strides, first.offset()) : deckle::stack(tensors, dim);
}

}  // namespace deckle
