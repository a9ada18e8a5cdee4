// What the kernels of the attention backward share: their arguments, how a block finds its sequence, the mask seen from either
// side, and the row statistics.
//
// Row statistics. `lse2` is the row's log-sum-exp in log2 units, so P = 2^(scale log2(e) q k - lse2), or, for kernels with a
// bias, as it is, so P = e^(scale q k + bias - lse2); `delta` is dO . O - dLSE, so dS = P (dO . v - delta). Both are [heads,
// padded rows]: sequence b starts at statistics_start(b), a multiple of the unit, and has room for its length rounded up to the
// unit. Only live rows are kept, the first live row first; the room behind them holds lse2 = +inf and delta = 0, so a row that
// does not exist has P = 0 without any mask.
//
// Live rows: see live_rows in problem.cuh.
#pragma once

#include <cuda.h>

#include <cmath>
#include <cstdint>

#include "deckle/kernels/cuda/arch/barrier.cuh"
#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/backward_kernels.h"
#include "deckle/kernels/cuda/attention/feature_set.cuh"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"
#include "deckle/kernels/cuda/attention/ragged_bias.h"
#include "deckle/kernels/cuda/attention/tile_walks.cuh"
#include "deckle/kernels/cuda/attention/work_list.cuh"
#include "deckle/kernels/cuda/tile/tensor_map.h"

namespace deckle::kernels::cuda::attention {

using arch::Element;
using arch::Ring;

struct Nothing {};

/// The block's dynamic shared memory as `Shared`, which must be all of it. It starts at a multiple of 1024 where a kernel has no
/// static shared memory; there is no room to align it by hand.
template <class Shared>
__device__ __forceinline__ Shared& block_shared() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared[];
  if (arch::shared_address(dynamic_shared) % 1024 != 0) __trap();
  return *reinterpret_cast<Shared*>(dynamic_shared);
}

/// The main kernels are launched with programmatic dependence, so that the blocks of one start where those of the one before run
/// out of work: row_statistics, key_gradients, query_gradients, short_gradients, or row_statistics, all_gradients,
/// round_query_gradients. The second of each waits for all that the first writes, and only then lets its successor start: what
/// the first wrote may be read by all. round_query_gradients waits for each tile of the second by its counters. All but the
/// second call this at their end, in one block: a kernel has then ended only when its predecessor has.
__device__ __forceinline__ void finish_after_predecessor() {
  if (blockIdx.x == 0 && blockIdx.y == 0) arch::wait_for_dependencies();
}

struct BackwardArguments {
  CUtensorMap q, grad_out;             // boxes of one tile of queries; for key_gradients the dense maps end at the last live row
  CUtensorMap k, v;                    // boxes of one tile of keys
  CUtensorMap grad_q, grad_k, grad_v;  // boxes of 16 rows, one warp's share
  CUtensorMap bias, grad_bias;         // all_gradients with a bias, dense: boxes of one tile of queries x 64 keys
  BiasPanels panels;                   // the same of a ragged batch
  CUtensorMap score_gradients;         // dS^T of the planes of one launch, as key_gradients leaves it: boxes of 64 queries
  int bias_has_heads, bias_has_sequences, wants_grad_bias;
  portable::ScoreFeatures features;  // of dropout, soft cap and slopes
  int changes_scores;                // there are a soft cap, slopes or walks; scale_log2 is then 1
  FeatureSet set;                    // some have a loop of their own
  float* slope_sums;                 // [heads, slope_parts]: one a tile of keys and warp; null: not wanted
  int slope_parts;
  TileWalks walks;  // of tiles of keys, where a mask has ranges or bytes; only kernels of scores with features know them
  const int64_t* query_offsets;  // null: dense
  const int64_t* key_offsets;
  const int64_t* key_lengths;  // null: all rows are keys
  const float* lse2;
  int64_t delta_from_lse2;  // elements
  float* query_sums;        // all_gradients: float32 dQ, in the order of its accumulators
  int* turns;               // all_gradients: of each tile of query_sums and warpgroup, how many key tiles have been added
  float* key_sums;  // all_gradients, if there are parts: float32 dK [kv heads, parts, key rows of all sequences, D], then dV
  int64_t key_sums_rows;
  int64_t statistics_rows;  // padded rows of one head
  int statistics_unit;
  AttentionTensor grad_k_rows, grad_v_rows;  // all_gradients
  int batch, heads, group;                   // heads of q; q heads of one kv head, or of one part of them
  int parts;                                 // all_gradients: into which the q heads of a kv head are divided among blocks
  int head_dim, value_dim;                   // of the tensors; those of the kernel may be larger
  int query_rows, key_rows;                  // dense: of each sequence
  int left, right;                           // of AttentionWindow
  int bottom_right;
  const WorkListHeader* list;  // ragged: the tiles, longest first; null: dense
  const WorkItem* items;
  int tiles;                // dense: of one sequence
  int first_plane, planes;  // the (sequence, head) pairs, or, ragged, the heads that this launch owns tiles of
  int chunk_heads;          // heads that run together, so that what they share stays in L2
  int shrinking;            // see write_work
  int rising_heads;         // all_gradients: the first so many heads rise, see write_work
  int* next;                // the next item that a block draws beyond its first
  int drawn_ahead;          // work of at most so many walked tiles is drawn before the loader has issued it, see schedule
  int short_rows;           // sequences of at most so many query rows and keys are served by short_gradients; -1: none
  int leaves_scores;        // key_gradients: dS^T goes to memory, and waits at its end, not at its start, if it is 2
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

/// Field by field: `s` may lie in shared memory.
__device__ __forceinline__ void write_sequence(SequencePair& s, int index, const BackwardArguments& args) {
  int queries = args.query_rows, keys = args.key_rows;
  int64_t query_start = 0, key_start = 0;
  if (args.query_offsets != nullptr) {
    const RowSpan query_span = row_span(args.query_offsets, nullptr, index, args.query_rows);
    const RowSpan key_span = row_span(args.key_offsets, args.key_lengths, index, args.key_rows);
    query_start = query_span.start;
    key_start = key_span.start;
    queries = static_cast<int>(query_span.end - query_start);
    keys = static_cast<int>(key_span.end - key_start);
  }
  s.index = index;
  s.query_start = query_start;
  s.key_start = key_start;
  s.query_rows = queries;
  s.key_rows = keys;
  const Band band = band_of({args.left, args.right, args.bottom_right != 0}, queries, keys);
  s.band = band;
  const LiveRows live = live_rows(band, queries, keys);
  s.live_first = live.first;
  s.live_rows = live.count;
}

__device__ __forceinline__ SequencePair sequence_at(int index, const BackwardArguments& args) {
  SequencePair s;
  write_sequence(s, index, args);
  return s;
}

/// Whether short_gradients does the sequence: it has at most `rows` query rows and keys.
__device__ __forceinline__ bool is_short(const SequencePair& s, int rows) { return s.query_rows <= rows && s.key_rows <= rows; }

/// First block of sequence b when every sequence is cut into tiles of `unit` rows: offsets[b] / unit + b grows by at least
/// ceil(length / unit), so the blocks of all sequences are distinct without a prefix sum, at the price of at most two idle blocks
/// each.
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

/// Coordinates (row, batch) of the copy engine for row `row` of [first, first + rows) of a sequence; see make_tensor_map.
struct Coordinates {
  int row, batch;
};

/// Ragged: of a tensor of `all` rows.
__device__ __forceinline__ Coordinates coordinates(bool ragged, int index, int64_t start, int first, int rows, int row, int all) {
  if (!ragged) return {first + row, index};
  return {max(all, 1) - rows + row, static_cast<int>(start) + first + rows};
}

/// Tiles of the other side, in units of its tile height: queries count from the first live row, keys from key 0.
struct Walk {
  int first, count;
};

/// The tiles of M queries that N keys from `first_key` on walk: those with a live row that attends one of the keys.
__device__ __forceinline__ Walk walk_of_keys(const SequencePair& s, int first_key, int N, int M) {
  const int low = max(0, first_key - s.band.high - s.live_first);
  const int high = min(s.live_rows, first_key + N - s.band.low - s.live_first);
  return {low / M, high > low ? (high - 1) / M + 1 - low / M : 0};
}

/// The tiles of N keys that M rows from `first_row` on walk: those with a key that some live row attends.
__device__ __forceinline__ Walk walk_of_queries(const SequencePair& s, int first_row, int M, int N) {
  const int first_live = max(first_row, s.live_first), last_live = min(first_row + M, s.live_first + s.live_rows) - 1;
  const int low = max(0, first_live + s.band.low);
  const int high = min(s.key_rows, last_live + s.band.high + 1);
  return {low / N, first_live <= last_live ? (high - 1) / N + 1 - low / N : 0};
}

/// One tile of one sequence and one head that owns tiles (kv heads for key tiles, q heads for query tiles), and what it walks.
struct Work {
  SequencePair sequence;
  int tile;  // -1: no more work
  int head;
  int rises;  // all_gradients: from the first query tile to the last
  Walk walk;
  Coordinates queries, keys;  // of the first row owned or walked
  int64_t statistics;         // index of the first walked row's statistics, first head of the group
};

__device__ __forceinline__ int work_count(const BackwardArguments& args) {
  return args.planes * (args.list == nullptr ? args.tiles : args.list->count);
}

/// Writes item `index` to `work`. Chunks of heads one after the other; within a chunk the longest tiles of all its heads first.
/// Where walks get shorter tile by tile (`shrinking`), that is done with the first half of the tiles, then, with chunks of twice
/// as many heads, with half of what is left, and so on: short tiles of one head would wait for each other. Heads that rise come
/// before all others, the last key tile first. `work` is in shared memory and not kept in registers: the scheduler has 24.
template <bool of_keys, int owned_rows, int walked_rows>
__device__ __forceinline__ void write_work(Work& work, const BackwardArguments& args, int heads, int index) {
  const bool dense = args.list == nullptr;
  int all_heads = args.planes, first_head = 0;
  int tiles = dense ? args.tiles : args.list->count, first_tile = 0, chunk_heads = args.chunk_heads;
  bool rises = false;
  if constexpr (of_keys) {
    rises = index < args.rising_heads * tiles;
    if (!rises) {
      index -= args.rising_heads * tiles;
      first_head = args.rising_heads;
    }
    all_heads = rises ? args.rising_heads : all_heads - args.rising_heads;
    work.rises = rises;
  }
  if (of_keys && args.shrinking && !rises) {
    for (int left = tiles;;) {
      tiles = (left + 1) / 2;
      if (index < tiles * all_heads) break;
      index -= tiles * all_heads;
      left -= tiles;
      first_tile += tiles;
      chunk_heads = min(2 * chunk_heads, all_heads);
    }
  }
  const int chunk = index / (tiles * chunk_heads);
  const int within = index - chunk * (tiles * chunk_heads);
  const int in_chunk = min(chunk_heads, all_heads - chunk * chunk_heads);
  int tile = first_tile + within / in_chunk;
  int head = args.first_plane + first_head + chunk * chunk_heads + within % in_chunk;
  int sequence;
  if (dense) {
    if (!of_keys || rises) tile = tiles - 1 - tile;  // causal: the last rows have most keys, the first keys most rows
    sequence = head / heads;
    head %= heads;
  } else {
    const WorkItem item = args.items[tile];
    tile = item.tile;
    sequence = item.sequence;
  }
  work.tile = tile;
  work.head = head;
  SequencePair& s = work.sequence;
  write_sequence(s, sequence, args);
  arch::forget_memory();
  if constexpr (of_keys) {
    work.walk = walk_of_keys(s, work.tile * owned_rows, owned_rows, walked_rows);
    arch::forget_memory();
    work.keys = coordinates(!dense, s.index, s.key_start, 0, s.key_rows, work.tile * owned_rows, args.key_rows);
    arch::forget_memory();
    work.queries =
        coordinates(!dense, s.index, s.query_start, s.live_first, s.live_rows, work.walk.first * walked_rows, args.query_rows);
    arch::forget_memory();
    work.statistics =
        int64_t{work.head} * args.group * args.statistics_rows + statistics_start(s, args) + work.walk.first * walked_rows;
  } else {
    work.walk = walk_of_queries(s, work.tile * owned_rows, owned_rows, walked_rows);
    arch::forget_memory();
    work.queries = coordinates(!dense, s.index, s.query_start, 0, s.query_rows, work.tile * owned_rows, args.query_rows);
    arch::forget_memory();
    work.keys = coordinates(!dense, s.index, s.key_start, 0, s.key_rows, work.walk.first * walked_rows, args.key_rows);
    arch::forget_memory();
    work.statistics = int64_t{work.head} * args.statistics_rows + statistics_start(s, args);
  }
}

/// The tile of keys of a work among all that own walks.
__device__ __forceinline__ int64_t walk_of(const BackwardArguments& args, const Work& work) {
  return args.walks.owner(args.key_offsets != nullptr, work.sequence.index, work.sequence.key_start, work.tile);
}

/// Makes a work of write_work walk as its list says: its coordinates are then of the first live row.
__device__ __forceinline__ void take_walk(Work& work, const BackwardArguments& args) {
  if (work.rises) __trap();  // lists are walked from their ends, and turns count key tiles in ascending order
  const int before = work.walk.first * args.walks.walked_rows;
  work.queries.row -= before;
  work.statistics -= before;
  work.walk.first = 0;
  work.walk.count = args.walks.counts[walk_of(args, work)];
}

inline constexpr int kWorkSlots = 4;

/// Work on its way from the scheduler to everyone else in the block: they wait for `ready`; then the loader arrives on `issued`
/// and all other readers on `done`.
struct WorkQueue {
  Work work[kWorkSlots];
  arch::Barrier ready[kWorkSlots], issued[kWorkSlots], done[kWorkSlots];
};

/// By one thread, before the block's first barrier. `readers`: arrivals on `done`, one a warp that reads, without the loader's.
__device__ __forceinline__ void init_queue(WorkQueue& queue, int readers) {
  for (int i = 0; i < kWorkSlots; ++i) {
    arch::init_barrier(queue.ready[i], 1);
    arch::init_barrier(queue.issued[i], 1);
    arch::init_barrier(queue.done[i], readers);
  }
}

/// The scheduler, one thread: draws tiles of `heads` heads until none is left. Its own warp, because the loader has 24 registers.
///
/// `in_turn`: also the first tile comes from the counter, so that whatever has been drawn is held by a block that runs. A block
/// that waits for blocks with smaller tiles then never waits in vain.
/// `listed`: there may be lists of walks.
template <bool of_keys, int owned_rows, int walked_rows, bool in_turn = false, bool listed = false>
__device__ __forceinline__ void schedule(WorkQueue& queue, const BackwardArguments& args, int heads) {
  const auto draw = [&]() -> int { return (in_turn ? 0 : gridDim.x) + atomicAdd(args.next, 1); };
  int index = in_turn ? draw() : blockIdx.x;
  for (Ring<kWorkSlots> ring;; ring.advance()) {
    Work& work = queue.work[ring.slot];
    arch::wait(queue.issued[ring.slot], ring.parity ^ 1);
    arch::wait(queue.done[ring.slot], ring.parity ^ 1);
    if (index >= work_count(args)) {
      work.tile = -1;
      arch::arrive(queue.ready[ring.slot]);
      return;
    }
    write_work<of_keys, owned_rows, walked_rows>(work, args, heads, index);
    if constexpr (listed) {
      if (args.walks.visits != nullptr) take_walk(work, args);
    }
    arch::arrive(queue.ready[ring.slot]);
    // Drawing before long work is issued would leave the work drawn waiting behind it, and whoever waits for that, too.
    if (work.walk.count * args.group > args.drawn_ahead) arch::wait(queue.issued[ring.slot], ring.parity);
    index = draw();
  }
}

/// Registers a thread of the producer's and of the consumers' warpgroups: 504 (512 with three consumers) in all.
struct Registers {
  int producer, consumer;
};

constexpr Registers registers_of(int consumers, bool many) {
  return consumers == 3 ? Registers{32, 160} : many ? Registers{24, 240} : Registers{40, 232};
}

}  // namespace deckle::kernels::cuda::attention
