// Elements added up by place, in a sorted order.
#include "deckle/kernels/cuda/index/additions.h"

#include <algorithm>
#include <string>

#include "deckle/base/error.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cuda/index/sorted.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::index {
namespace {

/// The first of equal keys adds all of them to their place.
template <typename T>
__global__ void __launch_bounds__(256)
    add_equal(const uint32_t* keys, const uint32_t* positions, int64_t count, const void* source, void* result, DType dtype) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (first >= count || (first > 0 && keys[first - 1] == keys[first])) return;
  T total = pointwise::load<T>(result, dtype, keys[first]);
  for (int64_t i = first; i < count && keys[i] == keys[first]; ++i) total += pointwise::load<T>(source, dtype, positions[i]);
  pointwise::store(total, result, dtype, keys[first]);
}

}  // namespace

Additions::Additions(const Context& context, int64_t count, const View& result, const View& source)
    : count_(count),
      result_(result),
      source_(source),
      memory_(4 * count * static_cast<int64_t>(sizeof(uint32_t)), context.device) {
  const int64_t most = std::max({count, result.numel(), source.numel()});
  if (most >= int64_t{1} << 31)
    throw Error("an operand has " + std::to_string(most) + " elements (expected fewer than 2^31 on a GPU)");
}

void Additions::add(const Context& context) const {
  uint32_t *const sorted_keys = keys() + 2 * count_, *const sorted = keys() + 3 * count_;
  sort_positions(context, keys(), sorted_keys, positions(), sorted, count_, result_.numel());
  const auto blocks = static_cast<unsigned>((count_ + 255) / 256);
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  if (is_floating(result_.dtype))
    add_equal<double><<<blocks, 256, 0, stream>>>(sorted_keys, sorted, count_, source_.data, result_.data, result_.dtype);
  else
    add_equal<int64_t><<<blocks, 256, 0, stream>>>(sorted_keys, sorted, count_, source_.data, result_.data, result_.dtype);
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda::index
