// Tensors one after another along a dim: a copy each.
#include <span>

#include "deckle/kernels/cuda/pointwise/copy.h"

namespace deckle::kernels::cuda {

void cat(const Context& context, std::span<const View> tensors, int64_t dim, std::span<const int64_t>, const View& result) {
  int64_t start = 0;
  for (const View& tensor : tensors) {
    View part = result;
    part.sizes[dim] = tensor.sizes[dim];
    part.data = result.ptr<char>() + start * result.strides[dim] * item_size(result.dtype);
    start += tensor.sizes[dim];
    if (part.numel() > 0) copy(context, tensor, part);
  }
}

}  // namespace deckle::kernels::cuda
