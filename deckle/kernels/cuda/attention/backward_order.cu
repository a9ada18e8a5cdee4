#include "deckle/kernels/cuda/attention/backward_order.cuh"

#include <algorithm>
#include <cstdint>

#include "deckle/kernels/cuda/attention/launch.h"

namespace deckle::kernels::cuda::attention {
namespace {

// What a walk of all heads of a chunk may touch and still stay in the 60 MB of L2 beside the tiles in flight.
constexpr int64_t kChunkBytes = 24 << 20;

// Heads of a chunk at least, where tiles differ in cost: a chunk of few heads ends with a few long tiles and nothing to run
// beside them. What the chunk touches may then exceed L2, but some eight blocks still walk the same head together.
constexpr int64_t kUnequalChunk = 16;

// Queries, dO and float32 dQ of the heads that all_gradients works on together. The fewer heads, the longer the blocks of one
// wait for each other at the start, or wherever their walks differ in length; beyond L2, S = 4k causal fell from 500 TFLOP/s with
// 4 to 6 heads to 480, 435 and 389 with 12, 16 and 24. Of a ragged batch, whose longest sequences are unknown here, so many
// heads: 501, 503, 508, 506 and 506 with 24, 16, 8, 6 and 4 on 64 sequences of mean 1,212 (H200, 2026-11-22,
// at 7f08c935; the runs were not kept).
constexpr int64_t kOrderedEqualBytes = 20 << 20, kOrderedChunkBytes = 24 << 20, kOrderedRaggedHeads = 8;

// Where heads rise, the long walks come last. So that not all multiprocessors but one wait for the last of them, the heads of the
// last rounds of blocks do not rise.
constexpr int64_t kLastRounds = 3, kBlocks = kPlannedMultiprocessors;

}  // namespace

void order_tiles(BackwardArguments& arguments, const CudaAttentionProblem& problem, const BackwardPlan& plan,
                 const BackwardKernel& kernel, Side side) {
  const AttentionSizes& sizes = problem.sizes;
  const bool keys = side == Side::keys;
  const int64_t rows = keys ? sizes.key_rows : sizes.query_rows, heads = keys ? sizes.heads / arguments.group : sizes.heads;
  arguments.tiles = static_cast<int>((rows + kernel.owned_rows - 1) / kernel.owned_rows);
  if (arguments.planes == 0) arguments.planes = static_cast<int>(sizes.ragged() ? heads : sizes.batch * heads);
  const int64_t all_heads = arguments.planes;
  const bool equal = equal_costs(problem);
  int64_t chunk;
  if (keys && plan.one_pass) {
    arguments.shrinking =
        !sizes.ragged() && !equal && problem.mask.left >= kUnboundedWindow && problem.mask.right < kUnboundedWindow;
    const int64_t head_bytes = std::max<int64_t>(sizes.query_rows * sizes.head_dim * 8, 1);
    chunk = sizes.ragged() ? kOrderedRaggedHeads
                           : std::max<int64_t>((equal ? kOrderedEqualBytes : kOrderedChunkBytes) / head_bytes, 2);
    chunk = std::min(chunk, all_heads);
    if (plan.rises) {
      const int64_t last = (kLastRounds * kBlocks + arguments.tiles - 1) / arguments.tiles;
      arguments.rising_heads =
          static_cast<int>(sizes.ragged() ? all_heads : std::max<int64_t>(all_heads - last, 0) / chunk * chunk);
    }
  } else {
    const int64_t walked_rows = (keys ? sizes.query_rows * arguments.group : sizes.key_rows) / (sizes.ragged() ? sizes.batch : 1);
    const int64_t walked_bytes = std::max<int64_t>(walked_rows * 2 * (sizes.head_dim + sizes.value_dim), 1);
    chunk = std::max(kChunkBytes / walked_bytes, equal ? int64_t{1} : kUnequalChunk);
  }
  arguments.chunk_heads = static_cast<int>(std::clamp<int64_t>(chunk, 1, all_heads));
}

}  // namespace deckle::kernels::cuda::attention
