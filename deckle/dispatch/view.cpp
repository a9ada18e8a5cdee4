#include "deckle/dispatch/view.h"

#include "deckle/base/check.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::dispatch {

View view(const Tensor& tensor) {
  if (!tensor.defined()) return {};
  View result;
  const IntSpan sizes = tensor.sizes(), strides = tensor.strides();
  check(sizes.size() <= kMaxDims, "a tensor of {} dims (expected {} at most)", sizes.size(), kMaxDims);
  result.data = address(tensor);
  if (const Storage& memory = *tensor.storage(); memory.device().is_cuda()) {
    cuda::use(memory.data(), memory.device());
    result.data = cuda::for_kernels(result.data);
  }
  result.dtype = tensor.dtype();
  result.defined = true;
  result.ndim = static_cast<int>(sizes.size());
  for (size_t dim = 0; dim < sizes.size(); ++dim) {
    result.sizes[dim] = sizes[dim];
    result.strides[dim] = strides[dim];
  }
  return result;
}

void repeat_rows(View& view, const Ragged& ragged) {
  view.sizes[0] = ragged->rows();
  view.table = ragged->row_map().components().data();
}

std::vector<View> views(TensorList tensors) {
  std::vector<View> result;
  result.reserve(tensors.size());
  for (const Tensor& tensor : tensors) result.push_back(view(tensor));
  return result;
}

RaggedView view(const Ragged& ragged) {
  check(ragged.defined(), Argument{"ragged"}, "is undefined (expected a ragged shape)");
  ragged->row_map().keep_mirrors();
  return {ragged->components(), ragged->ragged_dims(), ragged->sizes().data(), ragged->offsets().data(),
          ragged->order().empty() ? nullptr : ragged->order().data()};
}

}  // namespace deckle::dispatch
