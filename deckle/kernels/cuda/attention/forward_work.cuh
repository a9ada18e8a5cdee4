// Who does what in the forward: the arguments of a launch, the shape of an instance, a block's work items, and the producer that
// draws them and streams their tiles.
#pragma once

#include "deckle/kernels/cuda/attention/feature_set.cuh"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"
#include "deckle/kernels/cuda/attention/tile_walks.cuh"
#include "deckle/kernels/cuda/attention/work_list.cuh"
#include "deckle/kernels/cuda/tile/matmul.cuh"
#include "deckle/kernels/cuda/tile/shared_tile.cuh"

namespace deckle::kernels::cuda::attention {

using arch::Element;
using arch::Ring;

/// The items of a last, partly filled wave are cut into parts by keys, so that every SM has a share. Each part leaves its
/// unnormalised output, maxima and sums in memory; the warp that arrives last at its rows adds the parts up, always in the same
/// order.
struct ForwardSplit {
  int whole;  // items before the first that is cut
  int parts;  // 1: none is cut
  float4* partial;
  int* arrivals;  // zeros; one per (cut item, warp)
};

/// Of scored instances.
struct ForwardScoring {
  portable::ScoreFeatures features;
  int change;     // scores are more than scale q k: scale_log2 is then log2 e, and scale_sign 1
  int wide_bias;  // there is one, whose rows can be read 16 bytes at a time
  FeatureSet set;
  TileWalks walks;  // of the query tiles of a block, where a mask has ranges or bytes
};

struct ForwardArguments {
  CUtensorMap q, k, v, out;  // boxes of all query rows of a block, of one key tile, of one warp's 16 rows
  DeviceProblem problem;
  WorkList work;
  int head_group;  // heads that are worked on together, so that their k and v stay in L2
  ForwardSplit split;
  int beside_other_list;  // ListStart
  float* lse;             // null: not wanted
  const float* sinks;     // null: none
  ForwardScoring scores;
};

/// Tile shapes and schedule of one instance.
///
/// One warpgroup means short sequences: a lone producer warp, and several blocks per SM instead of several warpgroups per block.
template <Element element_, int D_, int Dv_, int warpgroups_, int keys_, int stages_, int query_buffers_, bool together_,
          int blocks_ = 1, bool register_q_ = false, bool scored_ = false>
struct ForwardConfig {
  static constexpr Element element = element_;
  static constexpr int D = D_, Dv = Dv_;
  static constexpr int warpgroups = warpgroups_;        // consumers, 64 query rows each
  static constexpr int rows = 64 * warpgroups;          // query rows of a block
  static constexpr int keys = keys_;                    // key rows of a tile
  static constexpr int stages = stages_;                // k and v tiles in flight
  static constexpr int query_buffers = query_buffers_;  // 2: the next item's q arrives during this one
  static constexpr bool together = together_;
  static constexpr bool register_q = register_q_;  // q as the register operand of q kᵀ: it is not read again for every key tile
  static constexpr int blocks = blocks_;           // per SM
  static constexpr bool scored = scored_;          // soft cap, slopes, bias, table, dropout
  static constexpr bool moves_registers = warpgroups > 1;
  // Maxima are looked for until each row has one, and in tiles with an edge; see KeptReference.
  static constexpr bool keeps_reference = element == Element::bf16 && !scored && warpgroups > 1;
  static constexpr int threads = 128 * warpgroups + (moves_registers ? 128 : 32);
  static constexpr int producer_registers = warpgroups > 2 ? 32 : 40;
  static constexpr int consumer_registers = warpgroups == 4 ? 112 : warpgroups == 3 ? 160 : 232;
};

/// One block's share: the query rows [first_row, first_row + rows) of one (sequence, head). Written by the producer, read by
/// consumers.
struct ForwardItem {
  int head;  // -1: no more work
  int first_row;
  int queries, keys;  // lengths of the sequence
  int row, batch;     // tensor map coordinates of the first query row
  int kv_head, key_row, key_batch;
  int tile_begin, tile_end;  // where there are walks, of places in this item's
  int cut, part;             // which cut item, -1: whole; which part of it
  int walk;                  // this item's, where there are walks; then none is cut
  int64_t lse;               // index of the sequence's first row
  int sequence;
  int failed, repeated;  // of kept references, a bit a warpgroup: did not hold; is done again without, 0: the first time
};

/// Each warp's 16 rows of a tile of the bias, where a config knows of one. Rows are 16 bytes apart beyond their length: eight of
/// them lie in different banks.
template <class Config>
struct BiasTile {};
template <class Config>
requires Config::scored struct BiasTile<Config> {
  static constexpr int row_bytes = 2 * Config::keys + 48;
  alignas(1024) unsigned char bias[4 * Config::warpgroups][16 * row_bytes];
};

template <class Config>
struct ForwardStorage : BiasTile<Config> {
  using QTile = tile::SharedTile<Config::rows, Config::D>;
  using KTile = tile::SharedTile<Config::keys, Config::D>;
  using VTile = tile::SharedTile<Config::keys, Config::Dv>;

  QTile q[Config::query_buffers];  // out leaves through it as well
  KTile k[Config::stages];
  VTile v[Config::stages];
  ForwardItem items[Config::query_buffers];
  arch::Barrier q_full[Config::query_buffers], q_empty[Config::query_buffers];
  arch::Barrier k_full[Config::stages], k_empty[Config::stages];
  arch::Barrier v_full[Config::stages], v_empty[Config::stages];
};

// Straight into shared memory: the producer has 32 registers.
template <class Config>
__device__ __forceinline__ void decode_item(const ForwardArguments& args, int index, ForwardItem& item) {
  const DeviceProblem& problem = args.problem;
  item.cut = -1;
  if (args.split.parts > 1 && index >= args.split.whole) {
    const int rest = index - args.split.whole;
    item.cut = rest / args.split.parts;
    item.part = rest - item.cut * args.split.parts;
    index = args.split.whole + item.cut;
  }
  int sequence, tile, head;
  if (args.work.items != nullptr) {
    const WorkItem item = args.work.items[index / problem.heads];
    sequence = item.sequence;
    tile = item.tile;
    head = index % problem.heads;
  } else {
    // Groups of (sequence, head) one after the other; within a group the last, under a causal mask longest, tiles first.
    const int group_items = args.head_group * args.work.dense_tiles;
    const int group = index / group_items, rest = index - group * group_items;
    const int heads_here = min(args.head_group, problem.batch * problem.heads - group * args.head_group);
    tile = args.work.dense_tiles - 1 - rest / heads_here;
    const int plane = group * args.head_group + rest % heads_here;
    sequence = plane / problem.heads;
    head = plane - sequence * problem.heads;
  }
  const int first_row = tile * Config::rows;
  item.head = head;
  item.kv_head = head / (problem.heads / problem.kv_heads);
  item.first_row = first_row;
  int key_length;
  {
    const Sequence keys = problem.keys[sequence];
    key_length = keys.length;
    item.keys = keys.length;
    item.key_row = keys.row_origin;
    item.key_batch = keys.batch;
  }
  const Sequence queries = problem.queries[sequence];
  item.queries = queries.length;
  item.row = queries.row_origin + first_row;
  item.batch = queries.batch;
  item.lse = lse_index(problem, sequence, queries.start, head);
  item.sequence = sequence;
  const int last_row = min(first_row + Config::rows, queries.length) - 1;
  const int begin = key_interval(problem.mask, first_row, queries.length, key_length).begin;
  const int end = key_interval(problem.mask, last_row, queries.length, key_length).end;
  item.tile_begin = begin / Config::keys;
  item.tile_end = end > begin ? (end + Config::keys - 1) / Config::keys : begin / Config::keys;
  if constexpr (requires { requires Config::scored; }) {
    if (const TileWalks& walks = args.scores.walks; walks.visits != nullptr) {
      const int64_t start = problem.queries.offsets == nullptr ? 0 : queries.start;
      item.walk = static_cast<int>(walks.owner(problem.queries.offsets != nullptr, sequence, start, tile));
      item.tile_begin = 0;
      item.tile_end = walks.counts[item.walk];
    }
  }
  if (item.cut >= 0) {  // the mask is full: the tiles are 0 .. tile_end
    const int tiles = item.tile_end, part = item.part;
    item.tile_begin = tiles * part / args.split.parts;
    item.tile_end = tiles * (part + 1) / args.split.parts;
  }
}

/// Whether an item is issued to the free `slot`, and not a new one, because a kept reference did not hold for it: the one before
/// in this slot or, at the end of all work, the one under way.
template <class Config>
__device__ __forceinline__ bool repeats_item(ForwardStorage<Config>& shared, Ring<Config::query_buffers> q, bool at_end) {
  ForwardItem& slot = shared.items[q.slot];
  if constexpr (Config::query_buffers > 1) {
    if (slot.failed == 0 && at_end) {
      q.advance();
      arch::wait(shared.q_empty[q.slot], q.parity ^ 1);
      ForwardItem& under_way = shared.items[q.slot];
      if (under_way.failed != 0) {
        slot = under_way;
        under_way.failed = 0;
      }
    }
  }
  slot.repeated = slot.failed;
  slot.failed = 0;
  return slot.repeated != 0;
}

template <class Config>
__device__ __forceinline__ void produce(const ForwardArguments& args, ForwardStorage<Config>& shared) {
  using arch::CacheHint;
  using Storage = ForwardStorage<Config>;
  // Items of short sequences take hardly longer than finding the next one, a chain of an atomic and two loads: that is done
  // ahead.
  constexpr bool kDecodesAhead = Config::warpgroups == 1;
  const DeviceProblem& problem = args.problem;
  if (!args.beside_other_list) arch::wait_for_dependencies();  // the work list
  arch::launch_dependents();
  const WorkList& work = args.work;
  int total = (work.items != nullptr ? work.header->count : work.dense_tiles * problem.batch) * problem.heads;
  total = args.split.whole + (total - args.split.whole) * args.split.parts;
  const auto draw = [&](int index) {
    return static_cast<int>(gridDim.x) + (work.next == nullptr ? index : atomicAdd(work.next, 1));
  };
  Ring<Config::query_buffers> q;
  Ring<Config::stages> kv;
  int index = blockIdx.x, next = 0;
  ForwardItem ahead;
  if constexpr (kDecodesAhead) {
    if (index < total) {
      next = draw(index);
      decode_item<Config>(args, index, ahead);
    }
  }
  for (;;) {
    arch::wait(shared.q_empty[q.slot], q.parity ^ 1);
    ForwardItem& slot = shared.items[q.slot];
    bool repeats = false;
    if constexpr (Config::keeps_reference) repeats = repeats_item<Config>(shared, q, index >= total);
    if (repeats) {
      next = index;
    } else {
      if (index >= total) {
        slot.head = -1;
        arch::arrive(shared.q_full[q.slot]);
        break;
      }
      if constexpr (kDecodesAhead) {
        slot = ahead;
      } else {
        decode_item<Config>(args, index, slot);
        next = draw(index);
      }
    }
    arch::expect_bytes(shared.q_full[q.slot], Storage::QTile::bytes);
    tile::load_tile(shared.q[q.slot], args.q, shared.q_full[q.slot], slot.row, slot.head, slot.batch, CacheHint::evict_first);
    q.advance();
    const int first = slot.key_row + slot.tile_begin * Config::keys, kv_head = slot.kv_head, batch = slot.key_batch;
    for (int at = slot.key_row + (slot.tile_end - 1) * Config::keys; at >= first; at -= Config::keys) {
      int row = at;
      if constexpr (Config::scored) {
        if (const TileWalks& walks = args.scores.walks; walks.visits != nullptr)
          row = slot.key_row +
                walks.visits[int64_t{slot.walk} * walks.longest + (at - slot.key_row) / Config::keys].tile * Config::keys;
      }
      arch::wait(shared.k_empty[kv.slot], kv.parity ^ 1);
      arch::expect_bytes(shared.k_full[kv.slot], Storage::KTile::bytes);
      tile::load_tile(shared.k[kv.slot], args.k, shared.k_full[kv.slot], row, kv_head, batch, CacheHint::evict_last);
      arch::wait(shared.v_empty[kv.slot], kv.parity ^ 1);
      arch::expect_bytes(shared.v_full[kv.slot], Storage::VTile::bytes);
      tile::load_tile(shared.v[kv.slot], args.v, shared.v_full[kv.slot], row, kv_head, batch, CacheHint::evict_last);
      kv.advance();
    }
    index = next;
    if constexpr (kDecodesAhead) {
      if (index < total) {
        next = draw(index);
        decode_item<Config>(args, index, ahead);
      }
    }
  }
  if (args.beside_other_list && blockIdx.x == 0) arch::wait_for_dependencies();
}

}  // namespace deckle::kernels::cuda::attention
