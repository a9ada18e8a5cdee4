#pragma once

// Lines of elements sorted, stably; a NaN counts as larger than everything. Elements are numbered line by line; a radix sort of
// the keys (line, element) puts them into order:
//   dtypes of up to 32 bits   one sort of 64-bit keys, 32 bits and those of the line's number
//   float64, int64            a sort by the element, then a stable one by the line
// L says where things are: line(e) and place(e), where element e lies.
#include <cstdint>
#include <limits>

#include "deckle/base/error.h"
#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"
#include "deckle/kernels/cuda/index/sorted.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::sorting {

/// A number whose order as an unsigned one is that of the elements; descending: the reverse.
__device__ __forceinline__ uint32_t sort_key(float x, bool descending) {
  uint32_t key = 0xffffffffu;  // NaN
  if (x == x) {
    const uint32_t bits = __float_as_uint(x == 0 ? 0.0f : x);
    key = bits >> 31 ? ~bits : bits | 0x80000000u;
  }
  return descending ? ~key : key;
}
__device__ __forceinline__ uint64_t sort_key(double x, bool descending) {
  uint64_t key = ~uint64_t{0};
  if (x == x) {
    const auto bits = static_cast<uint64_t>(__double_as_longlong(x == 0 ? 0.0 : x));
    key = bits >> 63 ? ~bits : bits | uint64_t{1} << 63;
  }
  return descending ? ~key : key;
}
__device__ __forceinline__ uint64_t sort_key(int64_t x, bool descending) {
  const uint64_t key = static_cast<uint64_t>(x) ^ uint64_t { 1 } << 63;
  return descending ? ~key : key;
}

template <class L>
__global__ void __launch_bounds__(256)
    keys_of(L lines, const void* self, DType dtype, bool descending, int64_t count, uint64_t* keys, uint32_t* positions) {
  const int64_t e = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (e >= count) return;
  const int64_t at = lines.place(e);
  uint64_t key;
  if (dtype == DType::float64)
    key = sort_key(pointwise::load<double>(self, dtype, at), descending);
  else if (dtype == DType::int64)
    key = sort_key(pointwise::load<int64_t>(self, dtype, at), descending);
  else if (is_floating(dtype))
    key = static_cast<uint64_t>(lines.line(e)) << 32 | sort_key(pointwise::load<float>(self, dtype, at), descending);
  else
    key = static_cast<uint64_t>(lines.line(e)) << 32 |
          ((static_cast<uint32_t>(pointwise::load<int64_t>(self, dtype, at)) ^ 0x80000000u) ^ (descending ? 0xffffffffu : 0));
  keys[e] = key;
  positions[e] = static_cast<uint32_t>(e);
}

template <class L>
__global__ void __launch_bounds__(256) lines_of(L lines, const uint32_t* positions, int64_t count, uint32_t* keys) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (i < count) keys[i] = static_cast<uint32_t>(lines.line(positions[i]));
}

/// order[i]: the element that comes i-th, lines one after another. `order` and everything else lies on the current device.
template <class L>
void order_lines(const Context& context, const L& lines, int64_t count, int64_t line_count, const View& self, bool descending,
                 uint32_t* order) {
  if (count >= int64_t{1} << 31)
    throw Error("the tensor has " + std::to_string(count) + " elements (expected fewer than 2^31 to sort on a GPU)");
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const auto blocks = static_cast<unsigned>((count + 255) / 256);
  const bool wide = self.dtype == DType::float64 || self.dtype == DType::int64;
  const deckle::cuda::Block keys(2 * count * static_cast<int64_t>(sizeof(uint64_t)), context.device);
  const deckle::cuda::Block places((wide ? 2 : 1) * count * static_cast<int64_t>(sizeof(uint32_t)), context.device);
  uint64_t *const from = keys.as<uint64_t>(), *const to = from + count;
  uint32_t *const positions = places.as<uint32_t>(), *const by_element = positions + count;
  keys_of<<<blocks, 256, 0, stream>>>(lines, self.data, self.dtype, descending, count, from, positions);
  if (!wide) return index::sort_wide(context, from, to, positions, order, count, 32 + index::bits_below(line_count));
  if (line_count == 1) return index::sort_wide(context, from, to, positions, order, count, 64);
  index::sort_wide(context, from, to, positions, by_element, count, 64);
  uint32_t *const line = keys.as<uint32_t>(), *const sorted_line = line + count;
  lines_of<<<blocks, 256, 0, stream>>>(lines, by_element, count, line);
  index::sort_positions(context, line, sorted_line, by_element, order, count, line_count);
}

}  // namespace deckle::kernels::cuda::sorting
