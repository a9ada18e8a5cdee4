#include "deckle/dispatch/view.h"

#include "deckle/base/check.h"

namespace deckle::dispatch {

View view(const Tensor& tensor) {
  View result;
  if (!tensor.defined()) return result;
  const Ints sizes = tensor.sizes(), strides = tensor.strides();
  check(sizes.size() <= kMaxDims, "a tensor of {} dims (at most {} are supported)", sizes.size(), kMaxDims);
  result.data = tensor.raw_data();
  result.dtype = tensor.dtype();
  result.defined = true;
  result.ndim = static_cast<int>(sizes.size());
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    result.sizes[dim] = sizes[dim];
    result.strides[dim] = strides[dim];
  }
  return result;
}

std::vector<View> views(TensorList tensors) {
  std::vector<View> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(view(tensor));
  return result;
}

RaggedView view(const Ragged& ragged) {
  check(ragged.defined(), "a ragged shape is needed, none was given");
  return {ragged->components(), ragged->ragged_dims(), ragged->sizes().data(), ragged->offsets().data()};
}

}  // namespace deckle::dispatch
