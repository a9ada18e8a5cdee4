// dz = p (dp - delta), summed to the shape of a bias, or over equal distances. Blocks own a 64 x 32 tile of the bias and walk
// whatever shares it (sequences, heads, tiles of rows or keys) in one order; of the table, a part of a head's query tiles. dz is
// recomputed: two products, and no more memory than the gradients themselves. Instances: bf16 and f16 x D up to 64, 128, 256.
#include "deckle/kernels/cuda/attention/portable_planes.h"

#include <algorithm>

#include "deckle/kernels/cuda/attention/portable_features.h"
#include "deckle/kernels/cuda/attention/portable_launch.cuh"
#include "deckle/kernels/cuda/attention/portable_tile.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"

namespace deckle::kernels::cuda::attention::portable {
namespace {

constexpr int kRows = 64, kKeys = 32, kBlocksWanted = 1024;

struct PlaneArguments {
  DeviceProblem problem;
  AttentionTensor q, k, v, grad_out;
  int head_dim, value_dim;
  RowStatistics statistics;
  ScoreFeatures features;
  CudaAttentionPlane grad_bias;
  float* table_sums;  // [heads, parts, 2 reach + 1]
};

// dz of tiles, a thread's accumulators of 16 x 32 of each.
template <Element element, class W>
class Tiles {
 public:
  __device__ __forceinline__ Tiles(const PlaneArguments& args, unsigned char* memory) : args_(args) {
    q_ = arch::shared_address(memory);
  }

  __device__ __forceinline__ Sequence queries(int sequence) const { return args_.problem.queries[sequence]; }
  __device__ __forceinline__ Sequence keys(int sequence) const { return args_.problem.keys[sequence]; }

  /// sum += dz, or dy where the bias comes before the cap, of a tile of one head. The whole block calls.
  __device__ __forceinline__ void add(float (&sum)[kKeys / 2], int sequence, int head, int row_tile, int key_tile) const {
    const DeviceProblem& problem = args_.problem;
    const Sequence queries = this->queries(sequence), keys = this->keys(sequence);
    const int first_row = row_tile * kRows, first_key = key_tile * kKeys;
    if (first_row >= queries.length || first_key >= keys.length) return;
    const int last_row = min(first_row + kRows, queries.length) - 1;
    if (key_interval(problem.mask, first_row, queries.length, keys.length).begin >= first_key + kKeys ||
        key_interval(problem.mask, last_row, queries.length, keys.length).end <= first_key)
      return;
    const Scores<element, Scoring::planes> features(args_.features, problem, sequence, head, queries, keys);
    if (!features.tile_has_work(first_row, first_row + kRows, first_key, first_key + kKeys)) return;
    const bool ragged = problem.queries.offsets != nullptr;
    const int kv_head = head / (problem.heads / problem.kv_heads);
    const Interval all_queries{0, queries.length}, all_keys{0, keys.length};
    __syncthreads();  // nobody reads the tiles before
    uint32_t q_tile = q_;
    const auto grad_tile = [&] { return q_tile + kRows * W::row_bytes; };
    const auto k_tile = [&] { return q_tile + 2 * kRows * W::row_bytes; };
    const auto v_tile = [&] { return q_tile + (2 * kRows + kKeys) * W::row_bytes; };
    arch::forget(q_tile);  // no addresses kept over the walk, nor of all tiles at once
    load_tile<W, kRows>(q_tile, source(args_.q, queries, all_queries, sequence, head, args_.head_dim, ragged), first_row);
    arch::forget(q_tile);
    load_tile<W, kRows>(grad_tile(), source(args_.grad_out, queries, all_queries, sequence, head, args_.value_dim, ragged),
                        first_row);
    arch::forget(q_tile);
    load_tile<W, kKeys>(k_tile(), source(args_.k, keys, all_keys, sequence, kv_head, args_.head_dim, ragged), first_key);
    arch::forget(q_tile);
    load_tile<W, kKeys>(v_tile(), source(args_.v, keys, all_keys, sequence, kv_head, args_.value_dim, ragged), first_key);
    arch::forget(q_tile);
    arch::commit_copies();
    const int row = first_row + owned_row<W>(0), column = first_key + tile::accumulator_column(threadIdx.x);
    const uint32_t attended = features.template attended<true, kKeys>(row, column);
    const uint32_t kept = features.drops() ? features.template keep<true>(row & ~15, first_key) : ~0u;
    float lse[2], delta[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const bool exists = row + 8 * h < queries.length;
      const int64_t plane = ragged ? head : int64_t{sequence} * problem.heads + head;
      const int64_t at = plane * args_.statistics.query_rows + queries.start + row + 8 * h;
      lse[h] = exists ? args_.statistics.lse2[at] : -kMinusInfinity;
      delta[h] = exists ? args_.statistics.delta[at] : 0.0f;
    }
    arch::wait_copies();
    __syncthreads();
    arch::forget(q_tile);
    // A bias of -inf may leave any row without keys, whose dO may be NaN; the warp alone reads its rows of it.
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (lse[h] != -kMinusInfinity) continue;
      const uint32_t cleared = grad_tile() + (row - first_row + 8 * h) * W::row_bytes;
#pragma unroll 1
      for (int byte = 16 * (threadIdx.x % 4); byte < W::row_bytes; byte += 64)
        arch::store_shared_quad(cleared + byte, 0.0f, 0.0f, 0.0f, 0.0f);
    }
    __syncwarp();
    float p[1][kKeys / 2] = {}, dp[1][kKeys / 2] = {};
    const int warp_row = 16 * (threadIdx.x / 32);
    multiply_transposed<element, W, kKeys>(p, q_tile + warp_row * W::row_bytes, k_tile(), args_.head_dim);
    arch::forget(q_tile);
    multiply_transposed<element, W, kKeys>(dp, grad_tile() + warp_row * W::row_bytes, v_tile(), args_.value_dim);
    const float position = features.position(row, column);
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      if ((attended >> i & 1) == 0) continue;
      const int h = (i >> 1) & 1, right = 8 * (i >> 2) + (i & 1);
      const float distance = fabsf(position + static_cast<float>(8 * h - right));
      float cap_slope;
      const float z = features.score(p[0][i], distance, row + 8 * h, column + right, cap_slope);
      const float keep = kept >> i & 1 ? args_.features.keep_factor : 0.0f;
      const float gradient = weight_of(z, lse[h]) * (keep * dp[0][i] - delta[h]);
      sum[i] += args_.features.bias_before_cap && args_.table_sums == nullptr ? gradient * cap_slope : gradient;
    }
  }

 private:
  const PlaneArguments& args_;
  uint32_t q_;  // behind it those of dO, k and v
};

// A 64 x 32 tile of floats in shared memory, without conflicts of rows, columns and diagonals.
struct SharedTile {
  float* data;

  __device__ __forceinline__ float& at(int row, int column) const { return data[row * kKeys + (column ^ (row & (kKeys - 1)))]; }
  __device__ __forceinline__ void store(const float (&tile)[kKeys / 2]) const {
    const int row = 16 * (threadIdx.x / 32) + (threadIdx.x % 32 >> 2), column = tile::accumulator_column(threadIdx.x);
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) at(row + 8 * ((i >> 1) & 1), column + 8 * (i >> 2) + (i & 1)) = tile[i];
  }
};

template <class W>
constexpr int shared_bytes() {
  static_assert((kRows + kKeys) * W::row_bytes * 2 >= kRows * kKeys * int{sizeof(float)});
  return 2 * (kRows + kKeys) * W::row_bytes;
}

// Block (strip of rows of a sequence, head, lane of key tiles) of the gradient's own dims.
template <Element element, class W>
__global__ void __launch_bounds__(kThreads, blocks_that_fit(shared_bytes<W>())) bias_gradient(PlaneArguments args) {
  extern __shared__ __align__(1024) unsigned char memory[];
  const Tiles<element, W> tiles(args, memory);
  const SharedTile staged{reinterpret_cast<float*>(memory)};  // over the operands
  const DeviceProblem& problem = args.problem;
  const CudaAttentionPlane& plane = args.grad_bias;
  const bool one_row = plane.row_stride == 0, one_column = plane.column_stride == 0, one_head = plane.head_stride == 0;
  int sequence_begin = 0, sequence_end = problem.batch, strip = 0;
  if (plane.offsets != nullptr) {
    const Place place = one_row ? Place{static_cast<int>(blockIdx.x), 0}
                                : place_of<kRows>(problem.queries, problem.batch, static_cast<int>(blockIdx.x));
    sequence_begin = place.sequence;
    strip = place.tile;
  } else {
    const int strips = (plane.rows + kRows - 1) / kRows;
    sequence_begin = static_cast<int>(blockIdx.x) / strips;
    strip = static_cast<int>(blockIdx.x) % strips;
  }
  const bool one_sequence = plane.offsets == nullptr && plane.sequence_stride == 0;
  if (one_sequence) {
    sequence_begin = 0;
  } else {
    sequence_end = sequence_begin + 1;
  }
  const int head_begin = blockIdx.y, head_end = one_head ? problem.heads : head_begin + 1;
  // Extents of this head's part of the gradient.
  const bool ragged = plane.offsets != nullptr;
  const int all_rows = ragged ? tiles.queries(sequence_begin).length : plane.rows;
  const int all_keys = ragged ? tiles.keys(sequence_begin).length : plane.columns;
  const int rows = one_row ? 1 : all_rows, columns = one_column ? 1 : all_keys;
  if (strip * kRows >= rows || strip < 0) return;
  const HeadPlane<uint16_t> to = head_plane<uint16_t>(plane, sequence_begin, head_begin, all_rows, all_keys);

  for (int target = blockIdx.z; target * kKeys < columns; target += gridDim.z) {
    float sum[kKeys / 2] = {};
    for (int sequence = sequence_begin; sequence < sequence_end; ++sequence) {
      const int row_tiles = one_row ? (tiles.queries(sequence).length + kRows - 1) / kRows : 1;
      const int key_tiles = one_column ? (tiles.keys(sequence).length + kKeys - 1) / kKeys : 1;
      for (int i = 0; i < row_tiles; ++i) {
        for (int j = 0; j < key_tiles; ++j) {
          for (int head = head_begin; head < head_end; ++head)
            tiles.add(sum, sequence, head, one_row ? i : strip, one_column ? j : target);
        }
      }
    }
    __syncthreads();  // nobody reads the operands
    staged.store(sum);
    __syncthreads();
    const int last_row = one_row ? 1 : min(kRows, rows - strip * kRows),
              last_column = one_column ? 1 : min(kKeys, columns - target * kKeys);
    for (int i = threadIdx.x; i < last_row * last_column; i += kThreads) {
      const int row = i / last_column, column = i % last_column;
      float total = 0.0f;
      for (int r = 0; r < (one_row ? kRows : 1); ++r) {
        for (int c = 0; c < (one_column ? kKeys : 1); ++c) total += staged.at(row + r, column + c);
      }
      to.at(strip * kRows + row, target * kKeys + column) = static_cast<uint16_t>(arch::pack<element>(total, 0.0f));
    }
    __syncthreads();
  }
}

// Part blockIdx.x of the query tiles of head blockIdx.y, added to sums of its own, which begin as zeros.
template <Element element, class W>
__global__ void __launch_bounds__(kThreads, blocks_that_fit(shared_bytes<W>())) table_gradient(PlaneArguments args, int slots) {
  extern __shared__ __align__(1024) unsigned char memory[];
  constexpr int kDiagonals = kRows + kKeys - 1;
  __shared__ float of_diagonal[kDiagonals];
  const Tiles<element, W> tiles(args, memory);
  const SharedTile staged{reinterpret_cast<float*>(memory)};  // over the operands
  const DeviceProblem& problem = args.problem;
  const int head = blockIdx.y, reach = args.features.reach, thread = threadIdx.x;
  float* sums = args.table_sums + (int64_t{head} * gridDim.x + blockIdx.x) * (2 * reach + 1);
  for (int i = thread; i < 2 * reach + 1; i += kThreads) sums[i] = 0.0f;
  for (int slot = blockIdx.x; slot < slots; slot += gridDim.x) {
    const Place place = place_of<kRows>(problem.queries, problem.batch, slot);
    const Sequence queries = tiles.queries(place.sequence), keys = tiles.keys(place.sequence);
    if (place.tile < 0 || place.tile * kRows >= queries.length) continue;
    const int offset = problem.mask.bottom_right ? keys.length - queries.length : 0;
    for (int j = 0; j * kKeys < keys.length; ++j) {
      float tile[kKeys / 2] = {};
      tiles.add(tile, place.sequence, head, place.tile, j);
      __syncthreads();  // nobody reads the operands
      staged.store(tile);
      __syncthreads();
      if (thread < kDiagonals) {  // cells of column - row = thread - (kRows - 1)
        float sum = 0.0f;
        const int first = max(kRows - 1 - thread, 0), last = min(kRows - 1, kRows + kKeys - 2 - thread);
        for (int row = first; row <= last; ++row) sum += staged.at(row, row + thread - (kRows - 1));
        of_diagonal[thread] = sum;
      }
      __syncthreads();
      if (thread < kDiagonals) {
        const auto bin = [&](int diagonal) {
          const int distance = diagonal - (kRows - 1) + j * kKeys - place.tile * kRows - offset;
          return min(max(distance, -reach), reach) + reach;
        };
        const int mine = bin(thread);
        if (thread == 0 || bin(thread - 1) != mine) {  // the first diagonal of its distance
          float sum = sums[mine];
          for (int d = thread; d < kDiagonals && bin(d) == mine; ++d) sum += of_diagonal[d];
          sums[mine] = sum;
        }
      }
      __syncthreads();
    }
  }
}

// A warp a row and head.
__global__ void __launch_bounds__(kThreads, 4)
    mark_row_without_keys(DeviceProblem problem, ScoreFeatures features, RowStatistics statistics, int unit,
                          uint16_t minus_infinity) {
  const int warp_row = static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32, head = blockIdx.y;
  const Place place = place_of<1>(problem.queries, problem.batch, warp_row);
  if (place.sequence >= problem.batch) return;
  const Sequence queries = problem.queries[place.sequence], keys = problem.keys[place.sequence];
  if (place.tile < 0 || place.tile >= queries.length) return;
  const SequenceRanges ranges = sequence_ranges(features.ranges, packed_row(problem, place.sequence, queries));
  const HeadPlane<const uint8_t> bytes =
      head_plane<const uint8_t>(features.forbidden, place.sequence, head, queries.length, keys.length);
  const bool forbids = features.bias.data != nullptr && !(features.bias_before_cap && features.cap > 0.0f);
  const auto bias = head_plane<const uint16_t>(features.bias, place.sequence, head, queries.length, keys.length);
  const Interval interval = key_interval(problem.mask, place.tile, queries.length, keys.length);
  for (int first = interval.begin; first < interval.end; first += 32) {
    const int key = first + static_cast<int>(threadIdx.x % 32);
    const bool attends = key < interval.end && (ranges.bounds == nullptr || ranges.hold(place.tile, key)) &&
                         (bytes.data == nullptr || bytes.at(place.tile, key) != 0) &&
                         (!forbids || bias.at(place.tile, key) != minus_infinity);
    if (__any_sync(~0u, attends)) return;
  }
  const bool ragged = problem.queries.offsets != nullptr;
  const int64_t plane = ragged ? head : int64_t{place.sequence} * problem.heads + head;
  int64_t at = plane * statistics.query_rows + queries.start + place.tile;
  if (unit > 0) {
    const int first = live_rows(band_of(problem.mask, queries.length, keys.length), queries.length, keys.length).first;
    if (place.tile < first) return;
    const int64_t start =
        ragged ? queries.start / unit + place.sequence : int64_t{place.sequence} * ((problem.queries.rows + unit - 1) / unit);
    at = head * statistics.query_rows + start * unit + place.tile - first;
  }
  if (threadIdx.x % 32 != 0) return;
  statistics.lse2[at] = -kMinusInfinity;
  statistics.delta[at] = 0.0f;
}

int table_parts(const CudaAttentionProblem& problem) {
  const int64_t tiles = slots<kRows>(problem.sizes, problem.sizes.query_rows);
  return static_cast<int>(std::clamp<int64_t>(kBlocksWanted / std::max(problem.sizes.heads, 1), 1, std::max<int64_t>(tiles, 1)));
}

/// Tiles of 64 rows, whatever those of the other kernels are.
template <int D_>
struct PlaneWidth {
  static constexpr int D = D_, blocks = 1, row_bytes = 2 * D, unrolled = 4, copies_at_once = 4;
};

template <Element element>
void launch(const AttentionBackward& arguments, PlaneArguments args, float* sums, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  with_width<Scoring::planes>(sizes, [&](auto width) {
    using W = PlaneWidth<decltype(width)::D>;
    if (const CudaAttentionPlane& plane = arguments.grad_bias; plane.data != nullptr) {
      int64_t strips = 0, lanes = 0;
      if (plane.offsets != nullptr) {
        strips = plane.row_stride == 0 ? sizes.batch : slots<kRows>(sizes, sizes.query_rows);
        lanes = plane.column_stride == 0 ? 1 : std::min<int64_t>((sizes.key_rows + kKeys - 1) / kKeys, 32);
      } else {
        strips = int64_t{(plane.rows + kRows - 1) / kRows} * (plane.sequence_stride == 0 ? 1 : sizes.batch);
        lanes = std::min<int64_t>((plane.columns + kKeys - 1) / kKeys, 4096);
      }
      const int heads = plane.head_stride == 0 ? 1 : sizes.heads;
      if (strips > 0 && lanes > 0) {
        constexpr auto kernel = bias_gradient<element, W>;
        allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes<W>());
        launch_kernel("gradient of the bias", kernel, dim3(static_cast<unsigned>(strips), heads, static_cast<unsigned>(lanes)),
                      kThreads, shared_bytes<W>(), stream, args);
      }
    }
    if (arguments.grad_table == nullptr || problem.table == nullptr || sizes.batch == 0) return;
    constexpr auto kernel = table_gradient<element, W>;
    const int parts = table_parts(problem), columns = static_cast<int>(2 * problem.table_reach + 1);
    args.table_sums = sums;
    allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes<W>());
    launch_kernel("gradient of the table", kernel, dim3(parts, sizes.heads), kThreads, shared_bytes<W>(), stream, args,
                  static_cast<int>(slots<kRows>(sizes, sizes.query_rows)));
    add_parts(sums, arguments.grad_table, sizes.heads, parts, stream, columns);
  });
}

void mark_rows_without_keys(const CudaAttentionProblem& problem, const RowStatistics& statistics, int unit, cudaStream_t stream) {
  if (problem.sinks == nullptr ||
      (problem.ranges.bounds == nullptr && problem.forbidden.data == nullptr && problem.bias.data == nullptr))
    return;
  const int64_t rows = slots<1>(problem.sizes, problem.sizes.query_rows), warps = kThreads / 32;
  if (rows == 0) return;
  launch_kernel("rows without keys", mark_row_without_keys,
                dim3(static_cast<unsigned>((rows + warps - 1) / warps), problem.sizes.heads), kThreads, 0, stream,
                device_problem(problem), score_features(problem), statistics, unit,
                static_cast<uint16_t>(problem.element == AttentionElement::bf16 ? 0xff80 : 0xfc00));
}

}  // namespace

void mark_rows_without_keys(const CudaAttentionProblem& problem, const RowStatistics& statistics, cudaStream_t stream) {
  mark_rows_without_keys(problem, statistics, 0, stream);
}

void mark_live_rows_without_keys(const CudaAttentionProblem& problem, float* lse2, float* delta, int64_t head_rows, int unit,
                                 cudaStream_t stream) {
  mark_rows_without_keys(problem, {lse2, delta, head_rows}, unit, stream);
}

int64_t table_gradient_bytes(const CudaAttentionProblem& problem) {
  return problem.table == nullptr
             ? 0
             : int64_t{sizeof(float)} * problem.sizes.heads * table_parts(problem) * (2 * problem.table_reach + 1);
}

void plane_gradients(const AttentionBackward& arguments, const RowStatistics& statistics, void* memory, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  PlaneArguments args{};
  args.problem = device_problem(problem);
  args.q = problem.q;
  args.k = problem.k;
  args.v = problem.v;
  args.grad_out = arguments.grad_out;
  args.head_dim = problem.sizes.head_dim;
  args.value_dim = problem.sizes.value_dim;
  args.statistics = statistics;
  args.features = score_features(problem);
  args.grad_bias = arguments.grad_bias;
  auto* sums = static_cast<float*>(memory);
  problem.element == AttentionElement::bf16 ? launch<Element::bf16>(arguments, args, sums, stream)
                                            : launch<Element::f16>(arguments, args, sums, stream);
}

int plane_shared_bytes(const CudaAttentionProblem& problem) {
  return with_width<Scoring::planes>(problem.sizes, [](auto width) { return shared_bytes<PlaneWidth<decltype(width)::D>>(); });
}

}  // namespace deckle::kernels::cuda::attention::portable
