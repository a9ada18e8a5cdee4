// One block writes a list: tile counts by cost, prefix sums over costs, then the items. Two passes over the offsets; 5 to 7 us
// (H200, 2026-11-21, at 824d29e2; not kept).
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/work_list.cuh"

namespace deckle::kernels::cuda::attention {
namespace {

constexpr int kThreads = 1024;
constexpr int kBuckets = 80;

// Costs in units of 64 rows of the other side: exact below 16, then four buckets per power of two.
__device__ int bucket_of(int rows) {
  const int cost = (rows + 63) / 64;
  if (cost < 16) return cost;
  const int exponent = 31 - __clz(cost);
  return min(kBuckets - 1, 16 + 4 * (exponent - 4) + ((cost >> (exponent - 2)) & 3));
}

__device__ bool left_out(const SequenceFilter& filter, int queries, int keys) {
  return (queries <= filter.skip_rows && keys <= filter.skip_rows) || queries < filter.least_queries ||
         queries > filter.most_queries || max(queries, keys) > filter.most_rows;
}

constexpr int kOwnTiles = 4;

// Calls visit(sequence, tile, cost bucket) for every tile, each by one lane. A lane does the first tiles of its sequence; those
// of longer sequences are shared by the warp, so that neither many short nor one long sequence takes long.
template <class Visit>
__device__ void for_each_tile(const DeviceProblem& problem, Side side, int height, const SequenceFilter& filter, Visit visit) {
  const int lane = threadIdx.x % 32;
  const auto cost = [&](int tile, int queries, int keys) {
    const int rows = side == Side::queries ? queries : keys;
    const int first = tile * height, last = min(rows, first + height) - 1;
    return side == Side::queries
               ? key_interval(problem.mask, last, queries, keys).end - key_interval(problem.mask, first, queries, keys).begin
               : query_interval(problem.mask, last, queries, keys).end - query_interval(problem.mask, first, queries, keys).begin;
  };
  for (int first = threadIdx.x - lane; first < problem.batch; first += kThreads) {
    const int mine = first + lane;
    const int queries = mine < problem.batch ? problem.queries[mine].length : 0;
    const int keys = mine < problem.batch ? problem.keys[mine].length : 0;
    const int tiles = left_out(filter, queries, keys) ? 0 : ((side == Side::queries ? queries : keys) + height - 1) / height;
    for (int tile = 0; tile < min(tiles, kOwnTiles); ++tile) visit(mine, tile, bucket_of(max(0, cost(tile, queries, keys))));
    for (unsigned longer = __ballot_sync(~0u, tiles > kOwnTiles); longer != 0; longer &= longer - 1) {
      const int j = __ffs(longer) - 1;
      const int queries_j = __shfl_sync(~0u, queries, j), keys_j = __shfl_sync(~0u, keys, j),
                tiles_j = __shfl_sync(~0u, tiles, j);
      for (int tile = kOwnTiles + lane; tile < tiles_j; tile += 32) {
        visit(first + j, tile, bucket_of(max(0, cost(tile, queries_j, keys_j))));
      }
    }
  }
}

// Calls visit(sequence, tiles, cost bucket of its longest tile) for every sequence, each by one lane.
template <class Visit>
__device__ void for_each_sequence(const DeviceProblem& problem, Side side, int height, bool whole, const SequenceFilter& filter,
                                  Visit visit) {
  for (int i = threadIdx.x; i < problem.batch; i += kThreads) {
    const int queries = problem.queries[i].length, keys = problem.keys[i].length;
    const int rows = side == Side::queries ? queries : keys, other = side == Side::queries ? keys : queries;
    if ((whole ? max(queries, keys) : rows) == 0 || left_out(filter, queries, keys)) continue;
    if (whole) {
      visit(i, 1, bucket_of(max(queries, keys)));
      continue;
    }
    const int64_t window = int64_t{problem.mask.left} + problem.mask.right + height;
    visit(i, (rows + height - 1) / height, bucket_of(static_cast<int>(max(int64_t{0}, min(int64_t{other}, window)))));
  }
}

// counter += 1 for each calling lane; returns the lane's own old value. One atomic per distinct counter and warp.
__device__ int take(int* counters, int bucket) {
  const unsigned peers = __match_any_sync(__activemask(), bucket);
  const int leader = __ffs(peers) - 1, rank = __popc(peers & ((1u << (threadIdx.x % 32)) - 1));
  int base = 0;
  if (rank == 0) base = atomicAdd(&counters[bucket], __popc(peers));
  return __shfl_sync(peers, base, leader) + rank;
}

// One block a list.
struct Lists {
  WorkListRequest request[kMostLists];
  int capacity[kMostLists];
};

__global__ void __launch_bounds__(kThreads, 1) list_tiles(DeviceProblem problem, const __grid_constant__ Lists lists) {
  const WorkListRequest& request = lists.request[blockIdx.x];
  const Side side = request.side;
  const int height = request.height;
  auto* header = static_cast<WorkListHeader*>(request.memory);
  auto* items = reinterpret_cast<WorkItem*>(header + 1);
  __shared__ int counts[kBuckets];
  __shared__ int begins[kBuckets];
  arch::launch_dependents();
  if (threadIdx.x < kBuckets) counts[threadIdx.x] = 0;
  __syncthreads();
  bool decreases = false;
  for (int i = threadIdx.x; i < problem.batch; i += kThreads) {
    decreases |= problem.queries.offsets[i + 1] < problem.queries.offsets[i];
    decreases |= problem.keys.offsets[i + 1] < problem.keys.offsets[i];
  }
  if (__syncthreads_or(decreases)) {  // sequences would share rows, and blocks of one wait for those of another
    if (threadIdx.x == 0) header->next = header->count = header->valid = header->longer = 0;
    return;
  }
  const bool together = request.together || request.whole;
  const int capacity = lists.capacity[blockIdx.x];  // enough, unless offsets decrease
  if (together) {
    for_each_sequence(problem, side, height, request.whole, request.filter,
                      [&](int, int tiles, int bucket) { atomicAdd(&counts[bucket], tiles); });
  } else {
    for_each_tile(problem, side, height, request.filter, [&](int, int, int bucket) { take(counts, bucket); });
  }
  __syncthreads();
  if (threadIdx.x < kBuckets) {  // tiles of costlier buckets come first
    int before = 0;
    for (int bucket = threadIdx.x + 1; bucket < kBuckets; ++bucket) before += counts[bucket];
    begins[threadIdx.x] = before;
    if (threadIdx.x == 0) {
      header->next = 0;
      header->valid = 1;
      header->count = min(before + counts[0], capacity);
      header->longer = min(before - counts[1], capacity);
    }
  }
  __syncthreads();
  if (together) {
    for_each_sequence(problem, side, height, request.whole, request.filter, [&](int sequence, int tiles, int bucket) {
      const int first = atomicAdd(&begins[bucket], tiles);
      for (int i = 0; i < min(tiles, capacity - first); ++i)
        items[first + i] = {sequence, request.last_first ? tiles - 1 - i : i};
    });
    return;
  }
  // The order within a bucket varies from run to run; no result depends on it.
  for_each_tile(problem, side, height, request.filter, [&](int sequence, int tile, int bucket) {
    const int place = take(begins, bucket);
    if (place < capacity) items[place] = {sequence, tile};
  });
}

}  // namespace

DeviceProblem device_problem(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  DeviceProblem device{};
  device.queries = {sizes.query_offsets, nullptr, static_cast<int>(sizes.query_rows)};
  device.keys = {sizes.key_offsets, sizes.key_lengths, static_cast<int>(sizes.key_rows)};
  device.mask = bound_window(problem.mask);
  device.batch = sizes.batch;
  device.heads = sizes.heads;
  device.kv_heads = sizes.kv_heads;
  device.scale = problem.scale;
  device.scale_log2 = std::max(std::fabs(problem.scale) * 1.4426950408889634f, std::numeric_limits<float>::denorm_min());
  device.scale_sign = problem.scale < 0 ? -1.0f : 1.0f;
  return device;
}

CUtensorMap operand_map(const CudaAttentionProblem& problem, const AttentionTensor& tensor, bool key_side, int columns,
                        int box_rows) {
  const AttentionSizes& sizes = problem.sizes;
  const void* any = problem.workspace != nullptr ? problem.workspace : problem.plan;
  return tile::make_tensor_map({.data = tensor.data != nullptr ? tensor.data : const_cast<void*>(any),
                                .batch_stride = tensor.batch_stride,
                                .row_stride = tensor.row_stride,
                                .head_stride = tensor.head_stride,
                                .batch = sizes.batch,
                                .rows = key_side ? sizes.key_rows : sizes.query_rows,
                                .heads = key_side ? sizes.kv_heads : sizes.heads,
                                .columns = columns,
                                .ragged = sizes.ragged()},
                               box_rows);
}

int64_t max_tiles(const AttentionSizes& sizes, Side side, int height) {
  const int64_t rows = side == Side::queries ? sizes.query_rows : sizes.key_rows;
  return sizes.ragged() ? rows / height + sizes.batch : (rows + height - 1) / height * sizes.batch;
}

int64_t work_list_bytes(const AttentionSizes& sizes, Side side, int height) {
  const int64_t items = sizes.ragged() ? max_tiles(sizes, side, height) * int64_t{sizeof(WorkItem)} : 0;
  return (int64_t{sizeof(WorkListHeader)} + items + 255) / 256 * 256;
}

bool equal_costs(const CudaAttentionProblem& problem) {
  const int64_t rows = problem.sizes.query_rows + problem.sizes.key_rows;
  return !problem.sizes.ragged() && problem.mask.left >= rows && problem.mask.right >= rows && problem.ranges.bounds == nullptr &&
         problem.forbidden.data == nullptr;
}

void make_work_lists(const CudaAttentionProblem& problem, std::span<const WorkListRequest> requests, cudaStream_t stream) {
  Lists lists{};
  for (size_t i = 0; i < requests.size(); ++i) {
    lists.request[i] = requests[i];
    lists.capacity[i] = static_cast<int>(max_tiles(problem.sizes, requests[i].side, requests[i].height));
  }
  launch_kernel("attention: work lists", list_tiles, static_cast<unsigned>(requests.size()), kThreads, 0, stream,
                device_problem(problem), lists);
}

WorkList ragged_work(const void* memory, int32_t* next) {
  auto* header = static_cast<WorkListHeader*>(const_cast<void*>(memory));
  return {header, reinterpret_cast<const WorkItem*>(header + 1), 0, next != nullptr ? next : &header->next};
}

WorkList dense_work(const CudaAttentionProblem& problem, Side side, int height, void* memory, cudaStream_t stream) {
  const int64_t rows = side == Side::queries ? problem.sizes.query_rows : problem.sizes.key_rows;
  const auto tiles = static_cast<int32_t>((rows + height - 1) / height);
  if (equal_costs(problem)) return {nullptr, nullptr, tiles, nullptr};
  check(cudaMemsetAsync(memory, 0, sizeof(WorkListHeader), stream), "attention: work counter");
  return {nullptr, nullptr, tiles, &static_cast<WorkListHeader*>(memory)->next};
}

WorkList own_work(const CudaAttentionProblem& problem, Side side, int height, void* memory, cudaStream_t stream) {
  if (!problem.sizes.ragged()) return dense_work(problem, side, height, memory, stream);
  const WorkListRequest request{side, height, memory, {}};
  make_work_lists(problem, {&request, 1}, stream);
  return ragged_work(memory, nullptr);
}

}  // namespace deckle::kernels::cuda::attention
