// What the kernels of the attention backward share: their arguments, how a block finds its sequence, the mask seen from either side, and
// the row statistics.
//
// Row statistics. `lse2` is the row's log-sum-exp in log2 units, so P = 2^(scale log2(e) q k - lse2); `delta` is dO . O - dLSE, so
// dS = P (dO . v - delta). Both are [heads, padded rows]: sequence b starts at statistics_start(b), a multiple of the unit, and has room
// for its length rounded up to the unit. Only live rows are kept, the first live row first; the room behind them holds lse2 = +inf and
// delta = 0, so a row that does not exist has P = 0 without any mask.
//
// Live rows: those that attend a key. They are consecutive. The others may hold NaN in dO (a loss that reads LSE puts it there), and
// 0 * NaN would reach every dK and dV, so no kernel that sums over rows ever loads them.
#pragma once

#include <cuda.h>

#include <cmath>
#include <cstdint>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/tile/tensor_map.h"

namespace deckle::kernels::cuda::attention {

inline constexpr int kMaxSharedBytes = 232448;  // of one block on sm_90

/// Row i attends keys [max(0, i + low), min(N, i + high + 1)). Unbounded sides are +-2^30, beyond any length.
struct Band {
  int low, high;
};

struct BackwardArguments {
  CUtensorMap q, grad_out;        // boxes of one tile of queries; for key_gradients the dense maps end at the last live row
  CUtensorMap k, v;               // boxes of one tile of keys
  CUtensorMap grad_q, grad_k, grad_v;  // boxes of 16 rows, one warp's share
  const int64_t* query_offsets;   // null: dense
  const int64_t* key_offsets;
  const float* lse2;
  const float* delta;
  int64_t statistics_rows;  // padded rows of one head
  int statistics_unit;
  int batch, heads, group;  // heads of q; q heads of one kv head
  int query_rows, key_rows;  // dense: of each sequence
  int left, right;           // of AttentionMask
  int bottom_right;
  int blocks;       // dense: tiles of one sequence
  int chunk_heads;  // dense: heads that run together, so that what they share stays in L2
  int skip_short;   // short sequences are served by short_gradients
  float scale, scale_log2;
};

/// The query and key rows of one sequence.
struct SequencePair {
  int query_rows, key_rows;
  int live_first, live_rows;
  int index;
  int64_t query_start, key_start;  // ragged: packed row of row 0
  Band band;
};

__device__ __forceinline__ SequencePair find_live_rows(SequencePair s, const BackwardArguments& args) {
  const int offset = args.bottom_right ? s.key_rows - s.query_rows : 0;
  s.band = {args.left >= (1 << 30) ? -(1 << 30) : offset - args.left, args.right >= (1 << 30) ? 1 << 30 : offset + args.right};
  s.live_first = max(0, -s.band.high);
  const int end = min(s.query_rows, s.key_rows - s.band.low);
  s.live_rows = s.key_rows > 0 && s.band.low <= s.band.high ? max(0, end - s.live_first) : 0;
  return s;
}

__device__ __forceinline__ SequencePair sequence_at(int index, const BackwardArguments& args) {
  SequencePair s{};
  s.index = index;
  if (args.query_offsets == nullptr) {
    s.query_rows = args.query_rows;
    s.key_rows = args.key_rows;
  } else {
    s.query_start = args.query_offsets[index];
    s.key_start = args.key_offsets[index];
    s.query_rows = static_cast<int>(args.query_offsets[index + 1] - s.query_start);
    s.key_rows = static_cast<int>(args.key_offsets[index + 1] - s.key_start);
  }
  return find_live_rows(s, args);
}

/// Sequences of at most this many query rows and keys have one tile of scores.
inline constexpr int kShortRows = 64;

__device__ __forceinline__ bool is_short(const SequencePair& s) { return s.query_rows <= kShortRows && s.key_rows <= kShortRows; }

/// First block of sequence b when every sequence is cut into tiles of `unit` rows: offsets[b] / unit + b grows by at least
/// ceil(length / unit), so the blocks of all sequences are distinct without a prefix sum, at the price of at most two idle blocks each.
__device__ __forceinline__ int64_t first_block(const int64_t* offsets, int b, int unit) { return offsets[b] / unit + b; }

/// The sequence that owns `block`: the last b with first_block(b) <= block, by a 32-ary search of one warp.
__device__ __forceinline__ int sequence_of_block(const int64_t* offsets, int batch, int unit, int64_t block) {
  const int lane = threadIdx.x & 31;
  int first = 0, count = batch;
  while (count > 1) {
    const int step = (count + 31) / 32;
    const int candidate = lane * step;
    const bool reached = candidate < count && first_block(offsets, first + candidate, unit) <= block;
    const int passed = __popc(__ballot_sync(0xffffffffu, reached)) - 1;
    first += passed * step;
    count = min(step, count - passed * step);
  }
  return first;
}

__device__ __forceinline__ int64_t statistics_start(const SequencePair& s, const BackwardArguments& args) {
  const int unit = args.statistics_unit;
  if (args.query_offsets == nullptr) return int64_t{s.index} * ((args.query_rows + unit - 1) / unit) * unit;
  return (s.query_start / unit + s.index) * unit;
}

/// One thread block's work: tile `block` of a sequence and a head.
struct Work {
  SequencePair sequence;
  int block;
  int head;
  bool none;
};

/// Dense: chunks of heads one after the other; within a chunk the longest tiles of all heads first. Ragged: tiles fastest.
/// `heads` counts the heads that own tiles: kv heads for key tiles, q heads for query tiles.
template <bool of_keys>
__device__ __forceinline__ Work find_work(const BackwardArguments& args, int heads, int unit, bool backwards) {
  Work work{};
  if (args.query_offsets == nullptr) {
    const int64_t per_chunk = int64_t{args.blocks} * args.chunk_heads;
    const int64_t chunk = blockIdx.x / per_chunk;
    const int64_t within = blockIdx.x - chunk * per_chunk;
    const int all_heads = args.batch * heads;
    const int in_chunk = static_cast<int>(min(int64_t{args.chunk_heads}, all_heads - chunk * args.chunk_heads));
    work.block = static_cast<int>(within / in_chunk);
    const int head = static_cast<int>(chunk * args.chunk_heads + within % in_chunk);
    if (backwards) work.block = args.blocks - 1 - work.block;
    work.head = head % heads;
    work.sequence = sequence_at(head / heads, args);
  } else {
    const int64_t* offsets = of_keys ? args.key_offsets : args.query_offsets;
    const int index = sequence_of_block(offsets, args.batch, unit, blockIdx.x);
    work.block = static_cast<int>(blockIdx.x - first_block(offsets, index, unit));
    work.head = blockIdx.y;
    work.sequence = sequence_at(index, args);
    const int rows = of_keys ? work.sequence.key_rows : work.sequence.query_rows;
    work.none = int64_t{work.block} * unit >= rows || (args.skip_short && is_short(work.sequence));
  }
  return work;
}

/// Coordinates (row, batch) of the copy engine for row `row` of [first, first + rows) of a sequence; see make_tensor_map.
struct Coordinates {
  int row, batch;
};

__device__ __forceinline__ Coordinates coordinates(bool ragged, int index, int64_t start, int first, int rows, int row) {
  if (!ragged) return {first + row, index};
  return {static_cast<int>(tile::kRaggedRows) - rows + row, static_cast<int>(start) + first + rows};
}

/// A position in a ring of buffers.
template <int stages>
struct Ring {
  uint32_t slot = 0, parity = 0;
  __device__ __forceinline__ void advance() {
    if (++slot == stages) {
      slot = 0;
      parity ^= 1;
    }
  }
};

/// Keeps the compiler from hoisting what is computed from `value`: it would hold every descriptor in registers.
__device__ __forceinline__ void forget(uint32_t& value) { asm volatile("" : "+r"(value)); }

}  // namespace deckle::kernels::cuda::attention
