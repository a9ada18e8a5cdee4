// Stable radix sorts of positions by key.
#include "deckle/kernels/cuda/index/sorted.h"

#include <algorithm>
#include <cub/device/device_radix_sort.cuh>

#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"

namespace deckle::kernels::cuda::index {
namespace {

template <typename Key>
void sort(const Context& context, const Key* keys, Key* sorted_keys, const uint32_t* positions, uint32_t* sorted_positions,
          int64_t count, int bits) {
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const auto run = [&](void* scratch, size_t& bytes) {
    deckle::cuda::check_call(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, positions, sorted_positions,
                                                             static_cast<int>(count), 0, bits, stream),
                             "a sort");
  };
  size_t bytes = 0;
  run(nullptr, bytes);
  const deckle::cuda::Block scratch(static_cast<int64_t>(bytes), context.device);
  run(scratch.as<void>(), bytes);
}

}  // namespace

int bits_below(int64_t bound) {
  int bits = 1;
  while (bits < 63 && (bound >> bits) != 0) ++bits;
  return bits;
}

void sort_positions(const Context& context, const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* positions,
                    uint32_t* sorted_positions, int64_t count, int64_t bound) {
  sort(context, keys, sorted_keys, positions, sorted_positions, count, std::min(bits_below(bound), 32));
}
void sort_wide(const Context& context, const uint64_t* keys, uint64_t* sorted_keys, const uint32_t* positions,
               uint32_t* sorted_positions, int64_t count, int bits) {
  sort(context, keys, sorted_keys, positions, sorted_positions, count, bits);
}

}  // namespace deckle::kernels::cuda::index
