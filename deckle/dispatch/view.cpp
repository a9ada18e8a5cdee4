#include "deckle/dispatch/view.h"

#include <algorithm>

#include "deckle/base/check.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/core/cuda/uses.h"
#include "deckle/core/tensor_impl.h"

namespace deckle::dispatch {
namespace {

/// GCC would compile a loop up to kMaxDims to `rep movs`, which takes longer to start than all the rest of a view.
void copy_dims(IntSpan from, int64_t* to) {
  const int64_t* const dims = from.data();
  switch (from.size()) {
    default:
      std::copy(dims + 4, dims + from.size(), to + 4);
      [[fallthrough]];
    case 4:
      to[3] = dims[3];
      [[fallthrough]];
    case 3:
      to[2] = dims[2];
      [[fallthrough]];
    case 2:
      to[1] = dims[1];
      [[fallthrough]];
    case 1:
      to[0] = dims[0];
      [[fallthrough]];
    case 0:
      break;
  }
}

}  // namespace

View view(const Tensor& tensor) {
  View result;  // every return gives it, so that it is made where the caller wants it
  if (!tensor.defined()) return result;
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
  copy_dims(sizes, result.sizes);
  copy_dims(strides, result.strides);
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

RaggedView view(const Ragged& ragged, Device device) {
  check(ragged.defined(), Argument{"ragged"}, "is undefined (expected a ragged shape)");
  ragged->row_map().keep_mirrors(device);
  return {ragged->components(), ragged->ragged_dims(), ragged->sizes().data(), ragged->offsets().data(),
          ragged->order().empty() ? nullptr : ragged->order().data()};
}

}  // namespace deckle::dispatch
