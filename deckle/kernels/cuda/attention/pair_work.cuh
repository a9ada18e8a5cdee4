// Walks over keys whose operands come in pairs: the upper and lower part of float32 (split_forward), or values and their tangents
// (tangent_forward). A block is one producer thread and two warpgroups of 64 query rows, as in the forward (forward_work.cuh),
// whose items and masks these are.
#pragma once

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/forward_walk.cuh"
#include "deckle/kernels/cuda/tile/product.cuh"

namespace deckle::kernels::cuda::attention {

inline constexpr int kPairRows = 128;  // of a tile

/// Tile shape: two warpgroups, `keys` keys and `stages` pairs of tiles of k and v under way.
template <Element element_, int D_, int keys_, int stages_>
struct PairShape {
  static constexpr Element element = element_;
  static constexpr int D = D_;  // of q, k and v; the copy engine fills up smaller ones with zeros
  static constexpr int warpgroups = 2, rows = kPairRows, keys = keys_, stages = stages_;
  static constexpr int threads = 128 * warpgroups + 128, producer_registers = 40, consumer_registers = 232;
};

/// Why the walks refuse so many tiles.
inline std::string pairs_why_not(const AttentionSizes& sizes) {
  return tiles_why_not(sizes, Side::queries, kPairRows, sizes.heads);
}

struct PairArguments {
  ForwardArguments first;  // the first of each pair; its split is not used
  CUtensorMap q, k, v;     // the second; those that are not given are zeros
  bool has_q, has_k, has_v;
};

template <class Shape>
struct PairStorage {
  using QTile = tile::SharedTile<Shape::rows, Shape::D>;
  using KTile = tile::SharedTile<Shape::keys, Shape::D>;

  QTile q[2];
  KTile k[Shape::stages][2], v[Shape::stages][2];
  ForwardItem item;
  arch::Barrier q_full, q_empty;
  arch::Barrier k_full[Shape::stages], k_empty[Shape::stages];
  arch::Barrier v_full[Shape::stages], v_empty[Shape::stages];
};

template <class Shape>
__device__ __forceinline__ void produce_pairs(const PairArguments& args, PairStorage<Shape>& shared) {
  using arch::CacheHint;
  using Storage = PairStorage<Shape>;
  const WorkList& work = args.first.work;
  const DeviceProblem& problem = args.first.problem;
  const int total = (work.items != nullptr ? work.header->count : work.dense_tiles * problem.batch) * problem.heads;
  Ring<1> q;
  Ring<Shape::stages> kv;
  for (int index = blockIdx.x;;) {
    ForwardItem& item = shared.item;
    arch::wait(shared.q_empty, q.parity ^ 1);
    if (index >= total) {
      item.head = -1;
      arch::arrive(shared.q_full);
      return;
    }
    decode_item<Shape>(args.first, index, item);
    index = static_cast<int>(gridDim.x) + (work.next == nullptr ? index : atomicAdd(work.next, 1));
    arch::expect_bytes(shared.q_full, (1 + args.has_q) * Storage::QTile::bytes);
    tile::load_tile(shared.q[0], args.first.q, shared.q_full, item.row, item.head, item.batch, CacheHint::evict_first);
    if (args.has_q) tile::load_tile(shared.q[1], args.q, shared.q_full, item.row, item.head, item.batch, CacheHint::evict_first);
    q.advance();
    const int first = item.key_row + item.tile_begin * Shape::keys, head = item.kv_head, batch = item.key_batch;
    for (int row = item.key_row + (item.tile_end - 1) * Shape::keys; row >= first; row -= Shape::keys) {
      const auto load = [&](auto& pair, const CUtensorMap& upper, const CUtensorMap& lower, bool has_lower, arch::Barrier& full,
                            arch::Barrier& empty) {
        arch::wait(empty, kv.parity ^ 1);
        arch::expect_bytes(full, (1 + has_lower) * Storage::KTile::bytes);
        tile::load_tile(pair[0], upper, full, row, head, batch, CacheHint::evict_last);
        if (has_lower) tile::load_tile(pair[1], lower, full, row, head, batch, CacheHint::evict_last);
      };
      load(shared.k[kv.slot], args.first.k, args.k, args.has_k, shared.k_full[kv.slot], shared.k_empty[kv.slot]);
      load(shared.v[kv.slot], args.first.v, args.v, args.has_v, shared.v_full[kv.slot], shared.v_empty[kv.slot]);
      kv.advance();
    }
  }
}

/// A tile of zeros; a whole block, before its first barrier.
template <class Tile>
__device__ __forceinline__ void clear_tile(Tile& tile) {
  for (int i = threadIdx.x; i < Tile::bytes / 16; i += blockDim.x)
    reinterpret_cast<uint4*>(tile.data)[i] = make_uint4(0, 0, 0, 0);
}

/// The whole kernel: `consume(shared, warpgroup)` is what a warpgroup does with the tiles.
template <class Shape, class Consume>
__device__ __forceinline__ void walk_pairs(const PairArguments& args, Consume consume) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<PairStorage<Shape>*>(memory);
  const int warpgroup = arch::warpgroup_index();
  if (threadIdx.x == 0) {
    arch::init_barrier(shared.q_full, 1);
    arch::init_barrier(shared.q_empty, 4 * Shape::warpgroups);
    for (int i = 0; i < Shape::stages; ++i) {
      arch::init_barrier(shared.k_full[i], 1);
      arch::init_barrier(shared.v_full[i], 1);
      arch::init_barrier(shared.k_empty[i], 4 * Shape::warpgroups);
      arch::init_barrier(shared.v_empty[i], 4 * Shape::warpgroups);
    }
    arch::fence_barrier_init();
  }
  if (!args.has_q) clear_tile(shared.q[1]);
  for (int i = 0; i < Shape::stages; ++i) {
    if (!args.has_k) clear_tile(shared.k[i][1]);
    if (!args.has_v) clear_tile(shared.v[i][1]);
  }
  arch::fence_shared_for_async();
  __syncthreads();
  if (warpgroup == Shape::warpgroups) {
    arch::shrink_registers<Shape::producer_registers>();
    if (threadIdx.x % 128 == 0) produce_pairs<Shape>(args, shared);
  } else {
    arch::grow_registers<Shape::consumer_registers>();
    consume(shared, warpgroup);
  }
}

/// The walk of one item: `visit(j, slot, edge)` for each key tile that the warpgroup needs, last first, whose k and v it releases
/// itself; the tiles of other warpgroups are given back.
template <class Shape, class Visit>
__device__ __forceinline__ void walk_keys(const ForwardArguments& args, PairStorage<Shape>& shared, const ForwardItem& item,
                                          int warpgroup, Ring<Shape::stages>& kv, Visit visit) {
  const TileRange range = tile_range<Shape>(args.problem, item, warpgroup);
  const auto skip = [&] {
    arch::wait(shared.k_full[kv.slot], kv.parity);
    arch::release(shared.k_empty[kv.slot]);
    arch::wait(shared.v_full[kv.slot], kv.parity);
    arch::release(shared.v_empty[kv.slot]);
    kv.advance();
  };
  int j = arch::uniform(item.tile_end) - 1;
  const int last = arch::uniform(item.tile_begin);
#pragma unroll 1
  for (; j >= range.end && j >= last; --j) skip();
#pragma unroll 1
  for (; j >= range.begin; --j) {
    visit(j, j < range.inner_begin || j >= range.inner_end);
    kv.advance();
  }
#pragma unroll 1
  for (; j >= last; --j) skip();
}

}  // namespace deckle::kernels::cuda::attention
