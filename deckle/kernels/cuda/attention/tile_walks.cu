// Two kernels of a few microseconds: a warp looks at each tile, and a block a sequence orders what was found. Of ranges a lane
// reads those of a row, M / 32 x count of 8 bytes a lane and tile; of bytes all lanes read a row's together, until some are 0 and
// some not.
#include "deckle/kernels/cuda/attention/tile_walks.cuh"

#include <algorithm>

#include "deckle/kernels/args/attention_limits.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/planes.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

constexpr int kLooking = 256, kOrdering = 1024;

struct WalkArguments {
  DeviceProblem problem;
  TileWalks walks;
  AttentionRanges ranges;
  CudaAttentionPlane bytes;
  bool owned_by_keys;
  int query_tiles;  // no sequence has more
};

// The query rows that tiles of queries count from, and end at.
__device__ __forceinline__ LiveRows rows_with_tiles(const WalkArguments& a, int queries, int keys) {
  return a.owned_by_keys ? live_rows(band_of(a.problem.mask, queries, keys), queries, keys) : LiveRows{0, queries};
}

// 0: nothing is allowed; 1: everything; 2: a part of it, or the interval mask hides all keys from some row. One warp.
__device__ __forceinline__ int look(const WalkArguments& a, int sequence, const Sequence& queries, int first_row, int end_row,
                                    int keys, int first_key, int end_key) {
  const AttentionWindow& mask = a.problem.mask;
  const int lane = threadIdx.x % 32;
  if (key_interval(mask, first_row, queries.length, keys).begin >= end_key ||
      key_interval(mask, end_row - 1, queries.length, keys).end <= first_key)
    return 0;
  const auto within = [&](int row) {
    const Interval of_row = key_interval(mask, row, queries.length, keys);
    return Interval{max(of_row.begin, first_key), min(of_row.end, end_key)};
  };
  bool some = false, all = true;
  const SequenceRanges ranges = sequence_ranges(a.ranges, packed_row(a.problem, sequence, queries));
  for (int row = first_row + lane; row < end_row; row += 32) {
    const Interval wanted = within(row);
    if (wanted.begin >= wanted.end) {
      all = false;  // it may see nothing anywhere, and kernels look for such rows in partial tiles
      continue;
    }
    bool covered = ranges.bounds == nullptr;
    some |= covered;
    for (int r = 0; r < ranges.count; ++r) {
      const int2 range = ranges.bounds[int64_t{row} * ranges.count + r];
      some |= range.x < wanted.end && range.y > wanted.begin && range.x < range.y;
      covered |= range.x <= wanted.begin && range.y >= wanted.end;
    }
    all &= covered;
  }
  some = __any_sync(~0u, some);
  all = __all_sync(~0u, all);
  const HeadPlane<const uint8_t> bytes = head_plane<const uint8_t>(a.bytes, sequence, 0, queries.length, keys);
  if (!some || bytes.data == nullptr) return !some ? 0 : all ? 1 : 2;
  bool allowed = false, forbidden = false;
  for (int row = first_row; row < end_row && !(allowed && forbidden); ++row) {
    const Interval wanted = within(row);
    for (int key = wanted.begin + lane; key - lane < wanted.end; key += 32) {
      const bool exists = key < wanted.end, one = exists && bytes.at(row, key) != 0;
      allowed |= __any_sync(~0u, one) != 0;
      forbidden |= __any_sync(~0u, exists && !one) != 0;
    }
  }
  return !allowed ? 0 : all && !forbidden ? 1 : 2;
}

// Tile blockIdx.x of the queries of each sequence from blockIdx.y on: what look() says of each of its tiles of keys, in visits.
__global__ void __launch_bounds__(kLooking) look_at_tiles(const __grid_constant__ WalkArguments a) {
  const TileWalks& walks = a.walks;
  const bool ragged = a.problem.queries.offsets != nullptr, by_keys = a.owned_by_keys;
  const int query_rows = by_keys ? walks.walked_rows : walks.owned_rows,
            key_rows = by_keys ? walks.owned_rows : walks.walked_rows;
  const int tile = blockIdx.x;
  for (int sequence = blockIdx.y; sequence < a.problem.batch; sequence += gridDim.y) {
    const Sequence queries = a.problem.queries[sequence], keys = a.problem.keys[sequence];
    const LiveRows live = rows_with_tiles(a, queries.length, keys.length);
    const int first_row = live.first + tile * query_rows, end_row = min(first_row + query_rows, live.end());
    if (first_row >= end_row) continue;
    for (int n = threadIdx.x / 32; n * key_rows < keys.length; n += kLooking / 32) {
      const int first_key = n * key_rows, end_key = min(first_key + key_rows, keys.length);
      const int found = look(a, sequence, queries, first_row, end_row, keys.length, first_key, end_key);
      if (threadIdx.x % 32 != 0) continue;
      const int64_t owner = walks.owner(ragged, sequence, by_keys ? keys.start : queries.start, by_keys ? n : tile);
      const int walked = by_keys ? tile : n;
      if (walked < walks.longest) walks.visits[owner * walks.longest + walked] = {found, 0};
    }
  }
}

// Of each sequence, one a block: how many owners visit each walked tile before each owner, and the lists without the other tiles,
// in place.
__global__ void __launch_bounds__(kOrdering) order_walks(const __grid_constant__ WalkArguments a) {
  const TileWalks& walks = a.walks;
  const bool ragged = a.problem.queries.offsets != nullptr, by_keys = a.owned_by_keys;
  const int lane = threadIdx.x % 32, longest = walks.longest;
  for (int sequence = blockIdx.x; sequence < a.problem.batch; sequence += gridDim.x) {
    const Sequence queries = a.problem.queries[sequence], keys = a.problem.keys[sequence];
    const LiveRows live = rows_with_tiles(a, queries.length, keys.length);
    const auto tiles = [](int rows, int height) { return (rows + height - 1) / height; };
    const int owners = tiles(by_keys ? keys.length : queries.length, walks.owned_rows);
    const int walked = min(tiles(by_keys ? live.count : keys.length, walks.walked_rows), longest);
    const int64_t first = walks.owner(ragged, sequence, by_keys ? keys.start : queries.start, 0);
    Visit* const visits = walks.visits + first * longest;
    if (by_keys) {
      const int64_t first_walked = walks.walked(ragged, sequence, queries.start, 0);
      for (int m = threadIdx.x; m < walked; m += kOrdering) {
        int turn = 0;
#pragma unroll 8
        for (int n = 0; n < owners; ++n) {
          Visit& visit = visits[int64_t{n} * longest + m];
          visit.turn_and_partial = turn;
          turn += visit.tile != 0;
        }
        walks.visitors[first_walked + m] = turn;
      }
      __syncthreads();
    }
    for (int n = threadIdx.x / 32; n < owners; n += kOrdering / 32) {
      Visit* const of_owner = visits + int64_t{n} * longest;
      int count = 0;
      for (int m = 0; m < walked; m += 32) {
        const Visit visit = m + lane < walked ? of_owner[m + lane] : Visit{0, 0};
        const unsigned visited = __ballot_sync(~0u, visit.tile != 0);  // all lanes have read
        if (visit.tile != 0)
          of_owner[count + __popc(visited & ((1u << lane) - 1))] = {m + lane, 2 * visit.turn_and_partial + (visit.tile == 2)};
        count += __popc(visited);
        __syncwarp();
      }
      if (lane == 0) walks.counts[first + n] = count;
    }
    __syncthreads();
  }
}

int64_t aligned(int64_t bytes) { return (bytes + 255) / 256 * 256; }

// Tiles of `height` rows that a sequence may have.
int64_t most_tiles(const AttentionSizes& sizes, Side side, int height) {
  const int64_t all = side == Side::queries ? sizes.query_rows : sizes.key_rows;
  const int64_t told = side == Side::queries ? sizes.most_queries : sizes.most_keys;
  return ((sizes.ragged() && told > 0 ? std::min(told, all) : all) + height - 1) / height;
}

Side other(Side side) { return side == Side::queries ? Side::keys : Side::queries; }

}  // namespace

bool has_walks(const CudaAttentionProblem& problem) {
  return problem.ranges.bounds != nullptr || problem.forbidden.data != nullptr;
}

std::string walks_why_not(const CudaAttentionProblem& problem, Side owner, int owned_rows, int walked_rows) {
  if (problem.forbidden.data != nullptr && problem.forbidden.head_stride != 0 && problem.sizes.heads != 1)
    return "the mask of bytes differs from head to head (serves one for all heads)";
  if (const int64_t bytes = tile_walks_bytes(problem, owner, owned_rows, walked_rows); bytes > kMostWalkBytes) {
    return "lists of the tiles that the mask leaves would take " + std::to_string(bytes >> 20) + " MiB (serves up to " +
           std::to_string(kMostWalkBytes >> 20) + ")";
  }
  return {};
}

int64_t tile_walks_bytes(const CudaAttentionProblem& problem, Side owner, int owned_rows, int walked_rows) {
  if (!has_walks(problem)) return 0;
  const AttentionSizes& sizes = problem.sizes;
  const int64_t owners = max_tiles(sizes, owner, owned_rows);
  static_assert(sizeof(Visit) == 8);
  return walk_bytes(owners, most_tiles(sizes, other(owner), walked_rows),
                    owner == Side::keys ? max_tiles(sizes, Side::queries, walked_rows) : 0);
}

TileWalks tile_walks(const CudaAttentionProblem& problem, Side owner, int owned_rows, int walked_rows, void* memory) {
  TileWalks walks{};
  if (!has_walks(problem)) return walks;
  const AttentionSizes& sizes = problem.sizes;
  const int64_t owners = max_tiles(sizes, owner, owned_rows), longest = most_tiles(sizes, other(owner), walked_rows);
  auto* at = static_cast<char*>(memory);
  walks.visits = reinterpret_cast<Visit*>(at);
  at += aligned(owners * longest * int64_t{sizeof(Visit)});
  walks.counts = reinterpret_cast<int*>(at);
  walks.visitors = reinterpret_cast<int*>(at + aligned(4 * owners));
  walks.longest = static_cast<int>(longest);
  walks.owned_rows = owned_rows;
  walks.walked_rows = walked_rows;
  const int64_t owned = owner == Side::keys ? sizes.key_rows : sizes.query_rows;
  const int64_t walked = owner == Side::keys ? sizes.query_rows : sizes.key_rows;
  walks.owned_tiles = static_cast<int>((owned + owned_rows - 1) / owned_rows);
  walks.walked_tiles = static_cast<int>((walked + walked_rows - 1) / walked_rows);
  return walks;
}

void make_tile_walks(const CudaAttentionProblem& problem, Side owner, const TileWalks& walks, cudaStream_t stream) {
  const AttentionSizes& sizes = problem.sizes;
  if (walks.visits == nullptr || sizes.batch == 0) return;
  constexpr int kMostRows = 65535;
  WalkArguments arguments{device_problem(problem), walks, problem.ranges, problem.forbidden, owner == Side::keys, 0};
  arguments.query_tiles =
      static_cast<int>(most_tiles(sizes, Side::queries, owner == Side::keys ? walks.walked_rows : walks.owned_rows));
  constexpr const char* kWhat = "attention: walks of a mask";
  const auto sequences = static_cast<unsigned>(std::min(sizes.batch, kMostRows));
  if (arguments.query_tiles > 0)
    launch_kernel(kWhat, look_at_tiles, dim3(arguments.query_tiles, sequences), kLooking, 0, stream, arguments);
  launch_kernel(kWhat, order_walks, sequences, kOrdering, 0, stream, arguments);
}

}  // namespace deckle::kernels::cuda::attention
