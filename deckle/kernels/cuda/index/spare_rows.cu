// Zeros in the rows of a ragged batch's room that no component has.                       values: [rows, ...], offsets: [B + 1]
// How many these are, the device alone knows: the grid covers all rows, and blocks without one of them end at once.
#include <algorithm>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/args/item.h"
#include "deckle/kernels/args/view.h"

namespace deckle::kernels::cuda {
namespace {

constexpr int kThreads = 256, kElements = 16;  // elements of a thread

struct Strides {
  int ndim;
  int64_t rows, inner;  // elements of a row
  int64_t sizes[kMaxDims], strides[kMaxDims];
};

template <typename T, bool kContiguous>
__global__ void __launch_bounds__(kThreads) clear(T* values, const int64_t* used_rows, const __grid_constant__ Strides at) {
  const int64_t begin = max(static_cast<int64_t>(0), min(*used_rows, at.rows)) * at.inner, end = at.rows * at.inner;
  const int64_t step = int64_t{kThreads} * gridDim.x;
  for (int64_t i = begin + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < end; i += step) {
    int64_t place = i;
    if constexpr (!kContiguous) {
      place = 0;
      int64_t rest = i;
      for (int dim = at.ndim - 1; dim >= 0; --dim) {
        place += rest % at.sizes[dim] * at.strides[dim];
        rest /= at.sizes[dim];
      }
    }
    values[place] = T{};
  }
}

template <typename T>
void clear_of(const Context& context, const View& values, const View& offsets) {
  Strides at{values.ndim, values.sizes[0], values.numel() / values.sizes[0], {}, {}};
  std::copy_n(values.sizes, values.ndim, at.sizes);
  std::copy_n(values.strides, values.ndim, at.strides);
  const auto blocks = static_cast<unsigned>(std::clamp<int64_t>(values.numel() / (kThreads * kElements), 1, 1024));
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const int64_t* const used = offsets.ptr<int64_t>() + offsets.sizes[0] - 1;
  if (values.contiguous())
    clear<T, true><<<blocks, kThreads, 0, stream>>>(values.ptr<T>(), used, at);
  else
    clear<T, false><<<blocks, kThreads, 0, stream>>>(values.ptr<T>(), used, at);
}

}  // namespace

void clear_spare_rows(const Context& context, const View& values, const View& offsets) {
  if (values.numel() == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  visit_item(values.dtype, [&]<typename T>(TypeTag<T>) { clear_of<T>(context, values, offsets); });
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
