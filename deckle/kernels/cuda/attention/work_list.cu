// One block writes the list: tile counts by cost, prefix sums over costs, then the items. Two passes over the offsets; about 5 us.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

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

// Calls visit(sequence, tile, cost bucket) for every tile, each by one lane: a warp takes 32 sequences and walks each one's tiles together.
template <class Visit>
__device__ void for_each_tile(const DeviceProblem& problem, Side side, int height, Visit visit) {
  const int lane = threadIdx.x % 32;
  for (int first = threadIdx.x - lane; first < problem.batch; first += kThreads) {
    const int mine = first + lane;
    const int queries_mine = mine < problem.batch ? problem.queries[mine].length : 0;
    const int keys_mine = mine < problem.batch ? problem.keys[mine].length : 0;
    const int here = min(32, problem.batch - first);
    for (int j = 0; j < here; ++j) {
      const int queries = __shfl_sync(~0u, queries_mine, j), keys = __shfl_sync(~0u, keys_mine, j);
      const int rows = side == Side::queries ? queries : keys;
      for (int tile = lane; tile * height < rows; tile += 32) {
        const int last = min(rows, (tile + 1) * height) - 1;
        const Interval a = side == Side::queries ? key_interval(problem.mask, tile * height, queries, keys)
                                                 : query_interval(problem.mask, tile * height, queries, keys);
        const Interval b = side == Side::queries ? key_interval(problem.mask, last, queries, keys)
                                                 : query_interval(problem.mask, last, queries, keys);
        visit(first + j, tile, bucket_of(max(0, b.end - a.begin)));
      }
    }
  }
}

__global__ void __launch_bounds__(kThreads, 1) list_tiles(DeviceProblem problem, Side side, int height, WorkListHeader* header, WorkItem* items) {
  __shared__ int counts[kBuckets];
  __shared__ int begins[kBuckets];
  if (threadIdx.x < kBuckets) counts[threadIdx.x] = 0;
  __syncthreads();
  for_each_tile(problem, side, height, [&](int, int, int bucket) { atomicAdd(&counts[bucket], 1); });
  __syncthreads();
  if (threadIdx.x == 0) {
    int total = 0;
    for (int bucket = kBuckets - 1; bucket >= 0; --bucket) {
      begins[bucket] = total;
      total += counts[bucket];
    }
    header->next = 0;
    header->count = total;
  }
  __syncthreads();
  // The order within a bucket varies from run to run; no result depends on it.
  for_each_tile(problem, side, height,
                [&](int sequence, int tile, int bucket) { items[atomicAdd(&begins[bucket], 1)] = {sequence, tile}; });
}

}  // namespace

DeviceProblem device_problem(const AttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  DeviceProblem device{};
  device.queries = {sizes.query_offsets, static_cast<int>(sizes.query_rows)};
  device.keys = {sizes.key_offsets, static_cast<int>(sizes.key_rows)};
  device.mask = problem.mask;
  device.batch = sizes.batch;
  device.heads = sizes.heads;
  device.kv_heads = sizes.kv_heads;
  device.scale = problem.scale;
  device.scale_log2 = std::max(std::fabs(problem.scale) * 1.4426950408889634f, 1e-30f);
  device.scale_sign = problem.scale < 0 ? -1.0f : 1.0f;
  device.lse_rows = sizes.query_rows;
  return device;
}

CUtensorMap operand_map(const AttentionTensor& tensor, const AttentionSizes& sizes, bool key_side, int columns, int box_rows) {
  return tile::make_tensor_map({.data = tensor.data,
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

WorkList make_work_list(const AttentionProblem& problem, Side side, int height, void* memory, cudaStream_t stream) {
  auto* header = static_cast<WorkListHeader*>(memory);
  if (!problem.sizes.ragged()) {
    cudaMemsetAsync(header, 0, sizeof(WorkListHeader), stream);
    const int64_t rows = side == Side::queries ? problem.sizes.query_rows : problem.sizes.key_rows;
    return {header, nullptr, static_cast<int32_t>((rows + height - 1) / height)};
  }
  auto* items = reinterpret_cast<WorkItem*>(header + 1);
  list_tiles<<<1, kThreads, 0, stream>>>(device_problem(problem), side, height, header, items);
  return {header, items, 0};
}

}  // namespace deckle::kernels::cuda::attention
