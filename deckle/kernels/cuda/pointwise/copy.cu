// Copies of any strides and dtypes, and one value everywhere: by pieces of 16 bytes where nothing is converted and both sides
// have them, else pointwise expressions of one input.
#include "deckle/kernels/cuda/pointwise/copy.h"

#include "deckle/core/cuda/device.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cpu/pointwise/walk.h"
#include "deckle/kernels/cuda/pointwise/functions.cuh"
#include "deckle/kernels/cuda/pointwise/kernels.cuh"
#include "deckle/kernels/cuda/pointwise/transposed.h"

namespace deckle::kernels::cuda {
namespace {

struct SameFormula {
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D, V x) const {
    return x;
  }
};

/// The type that holds every element of a dtype exactly.
DType exact(DType dtype) {
  if (is_integral(dtype)) return DType::int64;
  return dtype == DType::float64 ? DType::float64 : DType::float32;
}

constexpr int kThreads = 256;

/// One piece a thread: more in flight took longer.
__global__ void __launch_bounds__(kThreads) pieces(const __grid_constant__ pointwise::Walk<2> walk) {
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (piece >= walk.count) return;
  int64_t offsets[2] = {};
  pointwise::places(walk, piece, 1, offsets);
  reinterpret_cast<uint4*>(walk.operands[1].data)[offsets[1]] = reinterpret_cast<const uint4*>(walk.operands[0].data)[offsets[0]];
}

/// False: an operand's elements along the innermost dim are no whole pieces, one after another.
bool copy_pieces(const Context& context, const View& source, const View& target) {
  if (source.dtype != target.dtype || target.numel() == 0) return false;
  const cpu::pointwise::Walk shape = cpu::pointwise::make_walk({&source, 1}, {&target, 1});
  const int64_t width = 16 / item_size(source.dtype);
  pointwise::Walk<2> walk;
  walk.dims = shape.dims;
  walk.count = shape.numel() / width;
  walk.small = walk.count < (int64_t{1} << 31);
  if (shape.sizes[0] % width != 0) return false;
  for (int dim = 0; dim < shape.dims; ++dim) {
    walk.sizes[dim] = dim == 0 ? shape.sizes[0] / width : shape.sizes[dim];
    if (walk.small) walk.divisors[dim] = pointwise::Divisor(walk.sizes[dim]);
  }
  for (int i = 0; i < 2; ++i) {
    const cpu::pointwise::Operand& from = shape.operands[static_cast<size_t>(i)];
    pointwise::Operand& to = walk.operands[i];
    if (from.table != nullptr || from.strides[0] != 1 || reinterpret_cast<uintptr_t>(from.data) % 16 != 0) return false;
    to.data = from.data;
    to.strides[0] = 1;
    for (int dim = 1; dim < shape.dims; ++dim) {
      if (from.strides[dim] % width != 0) return false;
      to.strides[dim] = from.strides[dim] / width;
    }
  }
  const deckle::cuda::DeviceGuard guard(context.device);
  pieces<<<static_cast<unsigned>((walk.count + kThreads - 1) / kThreads), kThreads, 0,
           deckle::cuda::stream_handle(context.device)>>>(walk);
  deckle::cuda::check_launch(context.device);
  return true;
}

/// Halves to float32, both from places aligned to 16 bytes: a thread writes 16 bytes beside those of its neighbour, so a warp
/// whole sectors. 64 M elements take 0.103 ms; `vectors`, which writes 32 bytes a thread by two stores, took 0.124
/// (benchmarks/results/gpu_ops.json, H200, of 63bf1b5e, 2026-11-24, and c5991f0d, 2026-11-23).
template <typename E>
__global__ void __launch_bounds__(kThreads) widen(const E* from, float* to, int64_t count) {
  constexpr int kTogether = 4;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (kThreads * kTogether) + threadIdx.x, whole = count / 4;
  uint2 raw[kTogether];
#pragma unroll
  for (int u = 0; u < kTogether; ++u) {
    if (first + u * kThreads < whole) raw[u] = reinterpret_cast<const uint2*>(from)[first + u * kThreads];
  }
#pragma unroll
  for (int u = 0; u < kTogether; ++u) {
    const float2 low = pointwise::decode<E>(raw[u].x), high = pointwise::decode<E>(raw[u].y);
    if (first + u * kThreads < whole)
      __stwb(reinterpret_cast<float4*>(to) + first + u * kThreads, make_float4(low.x, low.y, high.x, high.y));
  }
  const int64_t last = 4 * whole + threadIdx.x;
  if (blockIdx.x == 0 && last < count) to[last] = static_cast<float>(from[last]);
}

/// False: not halves to float32, or not contiguous in one order.
bool copy_widened(const Context& context, const View& source, const View& target) {
  if ((source.dtype != DType::bfloat16 && source.dtype != DType::float16) || target.dtype != DType::float32) return false;
  if (target.numel() == 0) return false;
  const cpu::pointwise::Walk shape = cpu::pointwise::make_walk({&source, 1}, {&target, 1});
  if (shape.dims != 1) return false;
  for (const cpu::pointwise::Operand& each : {shape.operands[0], shape.operands[1]}) {
    if (each.table != nullptr || each.strides[0] != 1 || reinterpret_cast<uintptr_t>(each.data) % 16 != 0) return false;
  }
  const deckle::cuda::DeviceGuard guard(context.device);
  const int64_t count = shape.numel();
  const auto blocks = static_cast<unsigned>((count + 16 * kThreads - 1) / (16 * kThreads));
  const auto launch = [&]<typename E>(TypeTag<E>) {
    widen<E><<<blocks, kThreads, 0, deckle::cuda::stream_handle(context.device)>>>(
        reinterpret_cast<const E*>(shape.operands[0].data), reinterpret_cast<float*>(shape.operands[1].data), count);
  };
  if (source.dtype == DType::bfloat16)
    launch(TypeTag<__nv_bfloat16>());
  else
    launch(TypeTag<__half>());
  deckle::cuda::check_launch(context.device);
  return true;
}

}  // namespace

void copy(const Context& context, const View& source, const View& target) {
  if (copy_pieces(context, source, target)) return;
  if (pointwise::copy_transposed(context, source, target)) return;
  if (copy_widened(context, source, target)) return;
  pointwise::run(pointwise::kernels_with_integers<SameFormula, 1>(), context, exact(source.dtype), {&source, 1}, {}, target);
}

void fill(const Context& context, const Number& value, const View& target) {
  const bool half = target.dtype == DType::bfloat16 || target.dtype == DType::float16;
  const bool wide = half && static_cast<double>(static_cast<float>(value.real)) != value.real;  // else it would be rounded twice
  pointwise::run(pointwise::kernels_with_integers<SameFormula, 1>(), context, wide ? DType::float64 : exact(target.dtype), {},
                 {&value, 1}, target);
}

}  // namespace deckle::kernels::cuda
