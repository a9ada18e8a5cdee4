// What all_gradients does besides where weights are dropped or there is a bias. Of S^T: rows are keys, columns queries.
//
// A tile of the bias arrives in the buffer of dS: each warp reads, transposed, just what it overwrites with dS later. With
// dS = P (dP - delta), the buffer then holds the gradient of the bias, too, and the copy engine stores it.
#pragma once

#include "deckle/kernels/cuda/attention/backward_common.cuh"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"

namespace deckle::kernels::cuda::attention {

/// Whether weights may be dropped, and whether there may be a bias, in kernels of a shape.
template <class Shape>
inline constexpr bool kDrops = requires {
  requires Shape::drops;
};
template <class Shape>
inline constexpr bool kBiased = requires {
  requires Shape::biased;
};

/// What is kept of 64 keys from `key` and M queries from `query` on.
template <int M>
__device__ __forceinline__ void draw_kept(portable::KeptFlags<M>& kept, const BackwardArguments& args, int sequence, int head,
                                          int key, int query) {
  const portable::Dropout dropout(args.features, sequence, head);
  const int thread = threadIdx.x & 127;
  if (query % 16 == 0) {
#pragma unroll
    for (int m = 0; m < M / 32; ++m) {
      uint32_t flags[2][2];
      dropout.flags<false>(flags, key + 16 * (thread >> 5), query + 32 * m);
#pragma unroll
      for (int n = 0; n < 4; ++n) kept.add(4 * m + n, flags[n / 2][n % 2]);
    }
    return;
  }
  // Live rows begin anywhere where a causal mask leaves the first ones without keys.
  const int row = key + tile::accumulator_row(thread), column = query + tile::accumulator_column(thread);
#pragma unroll
  for (int first = 0; first < M / 8; first += 8) {
#pragma unroll 1
    for (int i = 0; i < 32; ++i) {
      const int n = first + i / 4, byte = i % 4, at = column + 16 * (n / 2) + 8 * (byte & 1) + n % 2;
      const auto bit = static_cast<uint32_t>(dropout.keeps(at, row + 8 * (byte >> 1)));
      uint32_t& word = kept.word[first / 8];
      word = (byte == 0 ? word >> 1 & 0x7f7f7f7fu : word) | bit << (8 * byte + 7);
    }
  }
}

/// Where this lane's rows of a tile of queries x keys begin for matrices of 8 x 8, transposed, of warpgroup `warpgroup`.
template <class Tile>
__device__ __forceinline__ uint32_t transposed_address(const Tile& tile, int warpgroup, int thread) {
  const int key = 16 * (thread >> 5) + 8 * ((thread >> 3) & 1), query = 8 * ((thread >> 4) & 1) + (thread & 7);
  return tile.address() + warpgroup * Tile::panel_bytes + query * tile::kPanelRowBytes + (((key / 8) ^ (query & 7)) << 4);
}

/// One thread: the bias of the work's keys and the queries of a slot.
template <class Shape>
__device__ __forceinline__ void load_bias(typename Shape::Shared& shared, const BackwardArguments& args, const Work& work,
                                          uint32_t slot, uint32_t parity) {
  arch::wait(shared.ds_empty[slot], parity ^ 1);
  arch::expect_bytes(shared.bias_full[slot], sizeof(shared.ds[0]));
  const int query = shared.first_query[slot], head = args.bias_has_heads ? shared.query_head[slot] : 0;
  const int sequence = args.bias_has_sequences ? work.sequence.index : 0;
#pragma unroll
  for (int panel = 0; panel < Shape::N / tile::kPanelColumns; ++panel) {
    arch::load_box(shared.ds[slot].address() + panel * shared.ds[0].panel_bytes, args.bias, shared.bias_full[slot],
                   work.tile * Shape::N + panel * tile::kPanelColumns, query, head, sequence, arch::CacheHint::evict_first);
  }
}

}  // namespace deckle::kernels::cuda::attention
