// Elements added up by place, in a sorted order.
#include "deckle/kernels/cuda/index/additions.h"

#include <algorithm>
#include <string>

#include "deckle/base/error.h"
#include "deckle/core/cuda/error.h"
#include "deckle/kernels/cuda/index/runs.cuh"
#include "deckle/kernels/cuda/index/sorted.h"
#include "deckle/kernels/cuda/pointwise/operand.cuh"

namespace deckle::kernels::cuda::index {
namespace {

/// A warp a piece of the order: the sums of its parts of long runs, [pieces, 2]; each lane every 32nd element, then by halves.
template <typename T>
__global__ void __launch_bounds__(256)
    add_parts(const uint32_t* keys, const uint32_t* positions, int64_t count, const void* source, DType dtype, T* parts) {
  const int64_t piece = static_cast<int64_t>(blockIdx.x) * 8 + threadIdx.x / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (piece * kPart >= count) return;
  for (const bool of_last : {false, true}) {
    const RunPart part(keys, count, piece, of_last);
    if (part.begin == part.end) continue;
    T total = 0;
    for (int64_t i = part.begin + lane; i < part.end; i += 32) total += pointwise::load<T>(source, dtype, positions[i]);
#pragma unroll
    for (int other = 16; other > 0; other /= 2) total += __shfl_xor_sync(~0u, total, other);
    if (lane == 0) parts[2 * piece + (of_last ? 1 : 0)] = total;
  }
}

/// The first of equal keys adds all of them to their place.
template <typename T>
__global__ void __launch_bounds__(256) add_equal(const uint32_t* keys, const uint32_t* positions, int64_t count,
                                                 const void* source, void* result, DType dtype, const T* parts) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * 256 + threadIdx.x;
  if (first >= count || (first > 0 && keys[first - 1] == keys[first])) return;
  const uint32_t key = keys[first];
  T total = pointwise::load<T>(result, dtype, key);
  if (first + kPart < count && keys[first + kPart] == key) {
    int64_t piece = first / kPart;
    do total += parts[part_of(keys, piece, key)];
    while (++piece * kPart < count && keys[piece * kPart] == key);
  } else {
    for (int64_t i = first; i < count && keys[i] == key; ++i) total += pointwise::load<T>(source, dtype, positions[i]);
  }
  pointwise::store(total, result, dtype, key);
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
  const int64_t pieces = count_ > kPart ? parts_of(count_) : 0;
  const deckle::cuda::Block parts(pieces * 2 * static_cast<int64_t>(sizeof(double)), context.device);
  const auto run = [&]<typename T>(TypeTag<T>) {
    if (pieces > 0)
      add_parts<T><<<static_cast<unsigned>((pieces + 7) / 8), 256, 0, stream>>>(sorted_keys, sorted, count_, source_.data,
                                                                                result_.dtype, parts.as<T>());
    add_equal<T>
        <<<blocks, 256, 0, stream>>>(sorted_keys, sorted, count_, source_.data, result_.data, result_.dtype, parts.as<T>());
  };
  if (is_floating(result_.dtype))
    run(TypeTag<double>());
  else
    run(TypeTag<int64_t>());
  deckle::cuda::check_launch(context.device);
}

}  // namespace deckle::kernels::cuda::index
