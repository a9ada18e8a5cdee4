// How many elements of an ascending row are less, or less or equal, than a value: a thread a value, by halves.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/args/context.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda {
namespace {

/// NaN is larger than everything.
template <typename T>
__device__ bool less(T a, T b) {
  return a < b || (b != b && a == a);
}

/// Of an integer and a number that is none, neither of which the other's type holds.
__device__ bool less(int64_t a, double b) { return !(b < 0x1p63) || (b >= -0x1p63 && a < static_cast<int64_t>(::ceil(b))); }
__device__ bool less(double a, int64_t b) { return a < -0x1p63 || (a < 0x1p63 && static_cast<int64_t>(::floor(a)) < b); }

template <typename T, typename V>
__global__ void __launch_bounds__(256) search(const void* rows, const void* wanted, DType dtype, DType of_wanted, int64_t n,
                                              int64_t per_row, int64_t count, bool right, int64_t* result) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i >= count) return;
  const int64_t first = i / per_row * n;
  const V value = pointwise::load<V>(wanted, of_wanted, i);
  int64_t low = 0, high = n;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    const T element = pointwise::load<T>(rows, dtype, first + middle);
    if (right ? !less(value, element) : less(element, value))
      low = middle + 1;
    else
      high = middle;
  }
  result[i] = low;
}

}  // namespace

void search_rows(const Context& context, const View& rows, const View& wanted, bool right, const View& result) {
  const int64_t count = wanted.numel();
  if (count == 0) return;
  const deckle::cuda::DeviceGuard guard(context.device);
  const int64_t n = rows.sizes[rows.ndim - 1], per_row = rows.ndim == 1 ? count : wanted.sizes[wanted.ndim - 1];
  const auto run = [&]<typename T, typename V>(T, V) {
    search<T, V><<<static_cast<unsigned>((count + 255) / 256), 256, 0, deckle::cuda::stream_handle(context.device)>>>(
        rows.data, wanted.data, rows.dtype, wanted.dtype, n, per_row, count, right, result.ptr<int64_t>());
  };
  if (is_floating(rows.dtype) != is_floating(wanted.dtype))
    is_floating(rows.dtype) ? run(double{}, int64_t{}) : run(int64_t{}, double{});
  else if (!is_floating(rows.dtype))
    run(int64_t{}, int64_t{});
  else if (rows.dtype == DType::float64)
    run(double{}, double{});
  else
    run(float{}, float{});
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda
