// A stable radix sort of positions by key.
#include "deckle/kernels/cuda/index/sorted.h"

#include <cub/device/device_radix_sort.cuh>

#include "deckle/core/cuda/error.h"
#include "deckle/core/cuda/memory.h"

namespace deckle::kernels::cuda::index {

void sort_positions(const Context& context, const uint32_t* keys, uint32_t* sorted_keys, const uint32_t* positions,
                    uint32_t* sorted_positions, int64_t count, int64_t bound) {
  int bits = 1;
  while (bits < 32 && (bound >> bits) != 0) ++bits;
  const cudaStream_t stream = deckle::cuda::stream_handle(context.device);
  const auto sort = [&](void* scratch, size_t& bytes) {
    deckle::cuda::check_call(cub::DeviceRadixSort::SortPairs(scratch, bytes, keys, sorted_keys, positions, sorted_positions,
                                                             static_cast<int>(count), 0, bits, stream),
                             "a sort");
  };
  size_t bytes = 0;
  sort(nullptr, bytes);
  const deckle::cuda::Block scratch(static_cast<int64_t>(bytes), context.device);
  sort(scratch.as<void>(), bytes);
}

}  // namespace deckle::kernels::cuda::index
