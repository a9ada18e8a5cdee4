// How the kernels that copy a ragged batch's bias and sum its gradient divide rows: a warp takes 256 keys of a row at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"
#include "deckle/kernels/cuda/attention/launch.h"

namespace deckle::kernels::cuda::attention {

inline constexpr int kPieceWarps = 8, kPieceThreads = 32 * kPieceWarps, kKeysAtOnce = 256;

// Rows of a block of the copy with rows, and of the gradient.
inline constexpr int kBlockRows = 64;

// So many blocks are wanted, where there is work for them: eight a multiprocessor.
inline constexpr int64_t kBlocksWanted = 8 * kPlannedMultiprocessors;
inline constexpr int64_t kMostLanes = 64;

inline unsigned lanes_for(int64_t blocks) {
  return static_cast<unsigned>(std::clamp<int64_t>(kBlocksWanted / std::max<int64_t>(blocks, 1), 1, kMostLanes));
}

// Whatever the device says of offsets, no more rows are there of a ragged plane's head that begins at `data`.
__device__ __forceinline__ int64_t rows_within(const CudaAttentionPlane& plane, const uint16_t* data, int columns) {
  const int64_t before = data - static_cast<const uint16_t*>(plane.data);
  return before < 0 || before > plane.elements || columns == 0 ? 0 : (plane.elements - before) / columns;
}

}  // namespace deckle::kernels::cuda::attention
