// One gradient by one walk, whose operands come in pairs (pair_work.cuh): the parts of float32 (split_backward), or values and
// their tangents (second_backward). A block owns 128 rows of one side, two warpgroups 64 each, and walks tiles of the other.
//
//   role     owns     walks    x = A1 B1ᵀ   y = A2 B2ᵀ   result
//   of q     q, dO    k, v     scores       dP           of rows of queries
//   of k     k, v     q, dO    scoresᵀ      dPᵀ          of rows of keys, over all heads that share them
//   of v     k        q, dO    scoresᵀ      –            likewise
#pragma once

#include <algorithm>

#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/pair_work.cuh"

namespace deckle::kernels::cuda::attention {

enum class Role { of_q, of_k, of_v };

template <Element element_, Role role_, int D_, int walked_, int stages_>
struct GradientShape {
  static constexpr Element element = element_;
  static constexpr Role role = role_;
  static constexpr bool of_queries = role == Role::of_q, twice = role != Role::of_v;  // twice: y is needed as well
  static constexpr int D = D_, rows = kPairRows, walked = walked_, stages = stages_;
  static constexpr int threads = 384;

  using Owned = tile::SharedTile<rows, D>;
  using Walked = tile::SharedTile<walked, D>;
};

/// Of a row of queries: log-sum-exp in powers of two and delta, +inf and 0 where it attends no key; of second order also the
/// tangents of the natural log-sum-exp and of delta.
struct alignas(16) RowStatistics {
  float lse2, delta, mean, delta_tangent;
};

/// What they are made of. Either all tensors are bf16, with rows of 8 bytes and more side by side, or all float32.
struct StatisticsOfRows {
  AttentionTensor out, out_tangent, grad_out, grad_out_tangent;  // without memory: zero
  const float *lse, *lse_tangent, *grad_lse, *grad_lse_tangent;  // but for the first, null: zero
  int64_t rows, rows_per_batch;
  int heads, columns;
  bool bf16;
  RowStatistics* to;  // [heads, rows]
};

/// Why the walks refuse so many tiles, of either side that owns.
inline std::string gradients_why_not(const AttentionSizes& sizes) {
  if (std::string reason = tiles_why_not(sizes, Side::queries, kPairRows, sizes.heads); !reason.empty()) return reason;
  return tiles_why_not(sizes, Side::keys, kPairRows, sizes.kv_heads);
}

void pair_statistics(const StatisticsOfRows& args, cudaStream_t stream);

struct GradientArguments {
  CUtensorMap owned[2][2], walked[2][2];  // of the first and the second operand, the pair
  bool has_owned[2], has_walked[2];       // the second of the pair; those that are not given are zeros
  DeviceProblem problem;
  WorkList work;
  int head_group;
  const RowStatistics* statistics;  // [heads, all rows of queries and room for one tile more]
  int64_t statistics_rows;
};

struct GradientItem {
  int head, first_row;          // head -1: no more work; of the heads of the side that owns
  int sequence, owned, walked;  // rows of the sequence on either side
  int row, batch, walked_row, walked_batch;
  int tile_begin, tile_end;
  int64_t start, statistics;  // packed row of row 0 of the owner; first row of the sequence's statistics
};

template <class Shape>
struct GradientStorage {
  typename Shape::Owned owned[Shape::twice ? 2 : 1][2];
  typename Shape::Walked walked[Shape::stages][2][2];
  RowStatistics statistics[Shape::of_queries ? 1 : Shape::stages][Shape::of_queries ? 1 : Shape::walked];
  GradientItem item;
  arch::Barrier owned_full, owned_empty;
  arch::Barrier full[Shape::stages], empty[Shape::stages];
};

/// The rows of the other side that a row attends, or that attend it.
template <class Shape>
__device__ __forceinline__ Interval partners(const DeviceProblem& problem, const GradientItem& item, int row) {
  return Shape::of_queries ? key_interval(problem.mask, row, item.owned, item.walked)
                           : query_interval(problem.mask, row, item.walked, item.owned);
}

template <class Shape>
__device__ __forceinline__ void decode_gradient(const GradientArguments& args, int index, GradientItem& item) {
  const DeviceProblem& problem = args.problem;
  const int heads = Shape::of_queries ? problem.heads : problem.kv_heads;
  int sequence, tile, head;
  if (args.work.items != nullptr) {
    const WorkItem work = args.work.items[index / heads];
    sequence = work.sequence;
    tile = work.tile;
    head = index % heads;
  } else {  // groups of heads one after the other, and of each the longest tiles first
    const int group_items = args.head_group * args.work.dense_tiles;
    const int group = index / group_items, rest = index - group * group_items;
    const int heads_here = min(args.head_group, problem.batch * heads - group * args.head_group);
    tile = rest / heads_here;
    if (Shape::of_queries) tile = args.work.dense_tiles - 1 - tile;
    const int plane = group * args.head_group + rest % heads_here;
    sequence = plane / heads;
    head = plane - sequence * heads;
  }
  const Sequence queries = problem.queries[sequence], keys = problem.keys[sequence];
  const Sequence &owner = Shape::of_queries ? queries : keys, &other = Shape::of_queries ? keys : queries;
  item.head = head;
  item.first_row = tile * Shape::rows;
  item.sequence = sequence;
  item.owned = owner.length;
  item.walked = other.length;
  item.row = owner.row_origin + item.first_row;
  item.batch = owner.batch;
  item.walked_row = other.row_origin;
  item.walked_batch = other.batch;
  item.start = owner.start;
  item.statistics = problem.queries.offsets == nullptr ? int64_t{sequence} * problem.queries.rows : queries.start;
  const int last_row = min(item.first_row + Shape::rows, item.owned) - 1;
  const int begin = partners<Shape>(problem, item, item.first_row).begin, end = partners<Shape>(problem, item, last_row).end;
  item.tile_begin = begin / Shape::walked;
  item.tile_end = end > begin ? (end + Shape::walked - 1) / Shape::walked : item.tile_begin;
}

/// Heads of q that walk by one owner: its own, or all that share a head of k.
template <class Shape>
__device__ __forceinline__ int walked_heads(const DeviceProblem& problem) {
  return Shape::of_queries ? 1 : problem.heads / problem.kv_heads;
}

template <class Shape>
__device__ __forceinline__ void produce_gradient(const GradientArguments& args, GradientStorage<Shape>& shared) {
  using arch::CacheHint;
  const DeviceProblem& problem = args.problem;
  const int heads = Shape::of_queries ? problem.heads : problem.kv_heads, group = problem.heads / problem.kv_heads;
  const int total = (args.work.items != nullptr ? args.work.header->count : args.work.dense_tiles * problem.batch) * heads;
  Ring<1> owned;
  Ring<Shape::stages> ring;
  for (int index = blockIdx.x;;) {
    GradientItem& item = shared.item;
    arch::wait(shared.owned_empty, owned.parity ^ 1);
    if (index >= total) {
      item.head = -1;
      arch::arrive(shared.owned_full);
      return;
    }
    decode_gradient<Shape>(args, index, item);
    index = static_cast<int>(gridDim.x) + (args.work.next == nullptr ? index : atomicAdd(args.work.next, 1));
    constexpr int kOwned = Shape::twice ? 2 : 1;
    arch::expect_bytes(shared.owned_full,
                       (kOwned + args.has_owned[0] + (Shape::twice && args.has_owned[1])) * Shape::Owned::bytes);
    for (int i = 0; i < kOwned; ++i) {
      for (int part = 0; part < 1 + args.has_owned[i]; ++part)
        tile::load_tile(shared.owned[i][part], args.owned[i][part], shared.owned_full, item.row, item.head, item.batch,
                        CacheHint::evict_first);
    }
    owned.advance();
    for (int g = 0; g < walked_heads<Shape>(problem); ++g) {
      const int head = Shape::of_queries ? item.head / group : item.head * group + g;
      for (int j = item.tile_begin; j < item.tile_end; ++j) {
        arch::wait(shared.empty[ring.slot], ring.parity ^ 1);
        constexpr int kStatistics = Shape::of_queries ? 0 : Shape::walked * int{sizeof(RowStatistics)};
        arch::expect_bytes(shared.full[ring.slot],
                           (2 + args.has_walked[0] + args.has_walked[1]) * Shape::Walked::bytes + kStatistics);
        if constexpr (kStatistics > 0) {
          const RowStatistics* from = args.statistics + head * args.statistics_rows + item.statistics + j * Shape::walked;
          arch::load_bulk(arch::shared_address(shared.statistics[ring.slot]), from, kStatistics, shared.full[ring.slot]);
        }
        for (int i = 0; i < 2; ++i) {
          for (int part = 0; part < 1 + args.has_walked[i]; ++part)
            tile::load_tile(shared.walked[ring.slot][i][part], args.walked[i][part], shared.full[ring.slot],
                            item.walked_row + j * Shape::walked, head, item.walked_batch, CacheHint::evict_last);
        }
        ring.advance();
      }
    }
  }
}

/// The whole kernel: `consume(shared, warpgroup)` is what a warpgroup does with the tiles.
template <class Shape, class Consume>
__device__ __forceinline__ void walk_gradient(const GradientArguments& args, Consume consume) {
  extern __shared__ __align__(1024) unsigned char memory[];
  auto& shared = *reinterpret_cast<GradientStorage<Shape>*>(memory);
  const int warpgroup = arch::warpgroup_index();
  if (threadIdx.x == 0) {
    arch::init_barrier(shared.owned_full, 1);
    arch::init_barrier(shared.owned_empty, 8);
    for (int i = 0; i < Shape::stages; ++i) {
      arch::init_barrier(shared.full[i], 1);
      arch::init_barrier(shared.empty[i], 8);
    }
    arch::fence_barrier_init();
  }
  for (int i = 0; i < 2; ++i) {
    if (!args.has_owned[i] && i < (Shape::twice ? 2 : 1)) clear_tile(shared.owned[i][1]);
    for (int stage = 0; stage < Shape::stages; ++stage) {
      if (!args.has_walked[i]) clear_tile(shared.walked[stage][i][1]);
    }
  }
  arch::fence_shared_for_async();
  __syncthreads();
  if (warpgroup == 2) {
    arch::shrink_registers<40>();
    if (threadIdx.x % 128 == 0) produce_gradient<Shape>(args, shared);
  } else {
    arch::grow_registers<232>();
    consume(shared, warpgroup);
  }
}

/// The statistics of the row of queries that accumulator i of a thread is of: of its own two rows, or of a walked tile.
template <class Shape>
__device__ __forceinline__ auto accumulator_statistics(const GradientArguments& args, const GradientStorage<Shape>& shared,
                                                       const Ring<Shape::stages>& ring, int head, int row) {
  if constexpr (Shape::of_queries) {
    const RowStatistics* statistics = args.statistics + head * args.statistics_rows + shared.item.statistics;
    const RowStatistics own[] = {statistics[min(row, shared.item.owned - 1)], statistics[min(row + 8, shared.item.owned - 1)]};
    return [own](int i) { return own[(i >> 1) & 1]; };
  } else {
    return [&shared, &ring](int i) {
      return shared.statistics[ring.slot][8 * (i / 4) + tile::accumulator_column(threadIdx.x % 128) + i % 2];
    };
  }
}

/// The interval of each of a thread's two rows, and the tiles between which none of the warpgroup's rows has an edge.
struct OwnedRows {
  Interval of[2];
  int row, inner_begin, inner_end;

  __device__ __forceinline__ bool edge(int j) const { return j < inner_begin || j >= inner_end; }
};

template <class Shape>
__device__ __forceinline__ OwnedRows owned_rows(const DeviceProblem& problem, const GradientItem& item, int warpgroup) {
  const int top = item.first_row + 64 * warpgroup, row = top + tile::accumulator_row(threadIdx.x % 128);
  const Interval first = partners<Shape>(problem, item, top);
  const Interval last = partners<Shape>(problem, item, min(top + 64, item.owned) - 1);
  return {{partners<Shape>(problem, item, row), partners<Shape>(problem, item, row + 8)},
          row,
          arch::uniform((last.begin + Shape::walked - 1) / Shape::walked),
          arch::uniform(max(first.end, 0) / Shape::walked)};
}

/// Launches the kernel of one gradient, of at least one row, whose `args` want only its work.
template <class Shape, class Arguments>
void launch_gradient(const char* name, void (*kernel)(Arguments), const CudaAttentionProblem& problem, void* work, Arguments args,
                     cudaStream_t stream) {
  constexpr Side side = Shape::of_queries ? Side::queries : Side::keys;
  constexpr int kSharedBytes = sizeof(GradientStorage<Shape>);
  static_assert(kSharedBytes <= kMaxSharedBytes);
  const AttentionSizes& sizes = problem.sizes;
  const int64_t heads = Shape::of_queries ? sizes.heads : sizes.kv_heads, items = max_tiles(sizes, side, Shape::rows) * heads;
  const int together = heads_together(sizes, equal_costs(problem), int64_t{8} * Shape::D);
  args.walk.head_group = static_cast<int>(std::min<int64_t>(together, std::max<int64_t>(sizes.batch * heads, 1)));
  args.walk.work = own_work(problem, side, Shape::rows, work, stream);
  allow_shared_memory(reinterpret_cast<const void*>(kernel), kSharedBytes);
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(multiprocessors(), items));
  launch_kernel(name, kernel, blocks, Shape::threads, kSharedBytes, stream, args);
}

}  // namespace deckle::kernels::cuda::attention
