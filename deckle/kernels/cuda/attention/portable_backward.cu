// dq, dk, dv by mma.sync, deterministic: no sum crosses a block.
//
// With p = 2^(c s - lse2), with features e^(z - lse), dp = do vᵀ and ds = p (dp - delta), delta = Σ do · out - dlse:
//   query rows:  dq = scale ds k        key rows:  dk = scale dsᵀ q        key rows:  dv = pᵀ do
// Each is one walk of the same kernel in one of three roles: a block owns 128 rows (64 at D = 256) of one side, keeps their two
// operands in shared memory, walks tiles of 32 rows (64 for dv) of the other side in two stages (one), recomputes p and ds with
// the owned rows as rows, and multiplies them with one of the walked operands. That is 8 products of M N D where one fused kernel
// needs 5, but 32 rows a warp halve what is read from shared memory for each of them. Instances: bf16 and f16 x D up to 64, 128,
// 256 x role.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "deckle/kernels/cuda/attention/portable_features.h"
#include "deckle/kernels/cuda/attention/portable_launch.cuh"
#include "deckle/kernels/cuda/attention/portable_planes.h"
#include "deckle/kernels/cuda/attention/portable_tile.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"

namespace deckle::kernels::cuda::attention::portable {
namespace {

enum class Role : int32_t { query, key, value };

struct BackwardArguments {
  DeviceProblem problem;
  AttentionTensor q, k, v, out, grad_out;
  AttentionTensor grad_q, grad_k, grad_v;
  int head_dim, value_dim;
  const float* lse;
  const float* grad_lse;  // null: zero
  float* lse2;            // lse_unit lse; +inf where a row attends nothing: p = 0 there, and delta = 0
  float lse_unit;         // log2 e; with features 1
  float* delta;
  int64_t query_rows;  // of all sequences, dense: of one
  ScoreFeatures features;
  float* slope_sums;  // [heads, blocks of query rows, warps], of dz * -distance; null: not wanted
};

// Row `start` of (sequence, head) in lse2 and delta, whose rows of one head lie side by side.
__device__ __forceinline__ int64_t statistics_index(const BackwardArguments& args, int sequence, int64_t start, int head) {
  const int64_t plane = args.problem.queries.offsets == nullptr ? int64_t{sequence} * args.problem.heads + head : head;
  return plane * args.query_rows + start;
}

// One warp a row: lse2 and delta.
__global__ void __launch_bounds__(kThreads) statistics_kernel(BackwardArguments args, Element element) {
  const DeviceProblem& problem = args.problem;
  const bool ragged = problem.queries.offsets != nullptr;
  const int lane = threadIdx.x % 32, head = blockIdx.y;
  const int64_t index = int64_t{blockIdx.x} * (kThreads / 32) + threadIdx.x / 32;
  const int64_t all = ragged ? min(problem.queries.offsets[problem.batch], args.query_rows) : args.query_rows * problem.batch;
  if (index >= all) return;
  const int64_t sequence = ragged ? 0 : index / args.query_rows, row = ragged ? index : index % args.query_rows;
  const auto address = [&](const AttentionTensor& t) {
    return static_cast<const uint32_t*>(t.data) +
           (sequence * (ragged ? 0 : t.batch_stride) + row * t.row_stride + head * t.head_stride) / 2;
  };
  const uint32_t *out = address(args.out), *grad = address(args.grad_out);
  float sum = 0.0f;
  for (int i = lane; i < args.value_dim / 2; i += 32) {
    const float2 a = arch::unpack(element, out[i]), b = arch::unpack(element, grad[i]);
    sum += (a.x != 0.0f ? a.x * b.x : 0.0f) + (a.y != 0.0f ? a.y * b.y : 0.0f);  // a row of sinks alone may hold NaN in dO
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane != 0) return;
  const int64_t given = index * problem.heads + head, at = statistics_index(args, static_cast<int>(sequence), row, head);
  const float lse = args.lse[given];
  const bool dead = lse == kMinusInfinity;  // out and dO of such a row do not count, whatever they hold
  args.lse2[at] = dead ? -kMinusInfinity : lse * args.lse_unit;
  args.delta[at] = dead ? 0.0f : sum - (args.grad_lse != nullptr ? args.grad_lse[given] : 0.0f);
}

// Rows of a walked tile. dv needs one product with the owned rows, the others two.
template <class W>
__host__ __device__ constexpr int walked_rows(Role role) {
  return role == Role::value && W::D <= 128 ? 64 : 32;
}

template <class W>
constexpr int shared_bytes(Role role) {
  const int owned = role == Role::value ? W::rows : 2 * W::rows, walked = W::stages * 2 * walked_rows<W>(role);
  return (owned + walked) * W::row_bytes + walked * int{sizeof(float)};
}

template <Element element, class W, Role role>
__global__ void __launch_bounds__(kThreads, W::scoring == Scoring::planes ? blocks_that_fit(shared_bytes<W>(role)) : 0)
    gradient_kernel(BackwardArguments args) {
  constexpr int D = W::D, kWalked = walked_rows<W>(role), kTileBytes = kWalked * W::row_bytes, kStageBytes = 2 * kTileBytes;
  constexpr bool owns_queries = role == Role::query;
  extern __shared__ __align__(1024) unsigned char memory[];
  const DeviceProblem& problem = args.problem;
  const bool ragged = problem.queries.offsets != nullptr;
  const Place place = place_of<W::rows>(owns_queries ? problem.queries : problem.keys, problem.batch, gridDim.x - 1 - blockIdx.x);
  const Sequence queries = problem.queries[place.sequence], keys = problem.keys[place.sequence];
  const Sequence owned = owns_queries ? queries : keys;
  const int first_row = place.tile * W::rows;
  float* slope_sums = owns_queries && args.slope_sums != nullptr
                          ? args.slope_sums + (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * (kThreads / 32)
                          : nullptr;
  if (first_row < 0 || first_row >= owned.length) {
    if (slope_sums != nullptr && threadIdx.x < kThreads / 32) slope_sums[threadIdx.x] = 0.0f;
    return;
  }
  const auto interval = [&](int row) {
    return owns_queries ? key_interval(problem.mask, row, queries.length, keys.length)
                        : query_interval(problem.mask, row, queries.length, keys.length);
  };
  const int begin = interval(first_row).begin, end = interval(min(first_row + W::rows, owned.length) - 1).end;
  const int tile_begin = begin / kWalked, tiles = end > begin ? (end + kWalked - 1) / kWalked - tile_begin : 0;

  const int group = problem.heads / problem.kv_heads;
  const int kv_head = owns_queries ? blockIdx.y / group : blockIdx.y;
  const int head_begin = owns_queries ? blockIdx.y : kv_head * group, heads = owns_queries ? 1 : group;
  const LiveRows live_queries = live_rows(band_of(problem.mask, queries.length, keys.length), queries.length, keys.length);
  const Interval all_keys{0, keys.length}, live{live_queries.first, live_queries.end()};
  const auto k_rows = [&] { return source(args.k, keys, all_keys, place.sequence, kv_head, args.head_dim, ragged); };
  const auto v_rows = [&] { return source(args.v, keys, all_keys, place.sequence, kv_head, args.value_dim, ragged); };
  const auto q_of = [&](int head) { return source(args.q, queries, live, place.sequence, head, args.head_dim, ragged); };
  const auto grad_of = [&](int head) {
    return source(args.grad_out, queries, live, place.sequence, head, args.value_dim, ragged);
  };

  // Shared memory: the owned tiles, the stages of both walked tiles, and of lse2 and delta of walked query rows.
  const uint32_t owned_scores = arch::shared_address(memory), owned_values = owned_scores + W::rows * W::row_bytes;
  const uint32_t walked = role == Role::value ? owned_values : owned_values + W::rows * W::row_bytes,
                 statistics = walked + W::stages * kStageBytes;
  const int warp_row = 16 * W::blocks * (threadIdx.x / 32);
  // Tiles within these walked rows hold no edge of the warp's rows.
  const Interval inner{interval(first_row + warp_row + 16 * W::blocks - 1).begin, interval(first_row + warp_row).end};
  float own_lse2[W::blocks][2], own_delta[W::blocks][2];  // as query rows
#pragma unroll
  for (int i = 0; i < W::blocks; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + owned_row<W>(i) + 8 * h;
      const bool exists = owns_queries && row < queries.length;
      const int64_t at = exists ? statistics_index(args, place.sequence, queries.start, head_begin) + row : 0;
      own_lse2[i][h] = exists ? args.lse2[at] : -kMinusInfinity;
      own_delta[i][h] = exists ? args.delta[at] : 0.0f;
    }
  }

  load_tile<W, W::rows>(owned_scores, owns_queries ? q_of(head_begin) : k_rows(), first_row);
  if constexpr (role == Role::query && W::scoring == Scoring::planes) {  // a bias of -inf leaves any row without keys
    const float* lse2 = args.lse2 + statistics_index(args, place.sequence, queries.start, head_begin);
    load_tile<W, W::rows>(owned_values, grad_of(head_begin), first_row, [&](int row) { return lse2[row] != -kMinusInfinity; });
  } else if constexpr (role != Role::value) {
    load_tile<W, W::rows>(owned_values, owns_queries ? grad_of(head_begin) : v_rows(), first_row);
  }
  const auto load_walked = [&](int step, int stage) {
    const int head = head_begin + step / tiles, first = (tile_begin + step % tiles) * kWalked;
    if constexpr (W::scoring == Scoring::planes && !owns_queries) {  // masks of ranges and bytes leave any row without keys
      const float* lse2 = args.lse2 + statistics_index(args, place.sequence, queries.start, head);
      const auto lives = [&](int row) { return lse2[row] != -kMinusInfinity; };
      load_tile<W, kWalked>(walked + stage * kStageBytes, q_of(head), first, lives);
      load_tile<W, kWalked>(walked + stage * kStageBytes + kTileBytes, grad_of(head), first, lives);
    } else {
      load_tile<W, kWalked>(walked + stage * kStageBytes, owns_queries ? k_rows() : q_of(head), first);
      load_tile<W, kWalked>(walked + stage * kStageBytes + kTileBytes, owns_queries ? v_rows() : grad_of(head), first);
    }
    if (!owns_queries && threadIdx.x < 2 * kWalked) {
      const int row = first + threadIdx.x % kWalked;
      const bool exists = row < queries.length;  // of the others P is masked
      const float* from = threadIdx.x < kWalked ? args.lse2 : args.delta;
      arch::copy_word_async(statistics + 4 * (stage * 2 * kWalked + threadIdx.x),
                            from + (exists ? statistics_index(args, place.sequence, queries.start, head) + row : 0), exists);
    }
  };
  const auto statistic = [&](int stage, int which, int column) {
    return reinterpret_cast<const float*>(memory + (statistics - owned_scores))[(stage * 2 + which) * kWalked + column];
  };

  using ScoresOfHead = Scores<element, W::scoring>;
  const ScoresOfHead first_head(args.features, problem, place.sequence, head_begin, queries, keys);
  const auto next_step = [&](int step, int steps) {  // the first from step on whose tile has work
    const auto has_work = [&](int walked_row) {
      return owns_queries ? first_head.tile_has_work(first_row, first_row + W::rows, walked_row, walked_row + kWalked)
                          : first_head.tile_has_work(walked_row, walked_row + kWalked, first_row, first_row + W::rows);
    };
    while (step < steps && !has_work((tile_begin + step % tiles) * kWalked)) ++step;
    return step;
  };
  float slope_sum = 0.0f;
  float sum[W::blocks][D / 2] = {};
  const int sum_columns = role == Role::value ? args.value_dim : args.head_dim, steps = tiles * heads;
  int step = next_step(0, steps);
  if (step < steps) load_walked(step, 0);
  arch::commit_copies();
  for (int stage = 0; step < steps; stage = W::stages == 2 ? 1 - stage : 0) {
    const int j = tile_begin + step % tiles, next = next_step(step + 1, steps);
    const uint32_t scores_tile = walked + stage * kStageBytes, values_tile = scores_tile + kTileBytes;
    arch::wait_copies();
    __syncthreads();  // the tiles are here; nobody reads what the next copies overwrite
    if (W::stages == 2 && next < steps) load_walked(next, 1 - stage);
    arch::commit_copies();

    float p[W::blocks][kWalked / 2] = {}, ds[W::blocks][kWalked / 2] = {};
    uint32_t a[W::blocks][kWalked / 4];
    multiply_transposed<element, W, kWalked>(p, owned_scores + warp_row * W::row_bytes, scores_tile, args.head_dim);
    if constexpr (role != Role::value) {
      multiply_transposed<element, W, kWalked>(ds, owned_values + warp_row * W::row_bytes, values_tile, args.value_dim);
    }
    if constexpr (W::featured) {
      const ScoresOfHead features(args.features, problem, place.sequence, head_begin + step / tiles, queries, keys);
      const int first_column = tile::accumulator_column(threadIdx.x);
#pragma unroll
      for (int block = 0; block < W::blocks; ++block) {
        const int row = first_row + owned_row<W>(block), column = j * kWalked + first_column;
        uint32_t attended = ~0u;
        if constexpr (W::scoring == Scoring::planes) {
          attended = features.template attended<owns_queries, kWalked>(row, column);
        } else if (j * kWalked < inner.begin || (j + 1) * kWalked > inner.end) {
          attended = 0;
          const Interval rows[2] = {interval(row), interval(row + 8)};
#pragma unroll
          for (int i = 0; i < kWalked / 2; ++i) {
            const int h = (i >> 1) & 1, other = column + 8 * (i >> 2) + (i & 1);
            if (other >= rows[h].begin && other < rows[h].end) attended |= 1u << i;
          }
        }
        const float position = owns_queries ? features.position(row, column) : features.position(column, row);
        const auto take = [&](auto capped) {
#pragma unroll
          for (int part = 0; part < kWalked / 32; ++part) {
            uint32_t kept = ~0u;
            if (features.drops())
              kept = features.template keep<owns_queries>(first_row + warp_row + 16 * block, j * kWalked + 32 * part);
#pragma unroll
            for (int n = 0; n < 16; ++n) {
              const int i = 16 * part + n, h = (n >> 1) & 1, local = 32 * part + 8 * (n >> 2) + (n & 1);
              [[maybe_unused]] const int query = owns_queries ? row + 8 * h : column + local,
                                         key = owns_queries ? column + local : row + 8 * h;
              const float distance = fabsf(position + static_cast<float>(owns_queries ? 8 * h - local : local - 8 * h));
              const float lse = owns_queries ? own_lse2[block][h] : statistic(stage, 0, first_column + local);
              const bool attends = attended >> i & 1;
              // With all of its operands, a score is not computed for nothing; without, a branch costs more.
              float cap_slope = 0.0f, weight = 0.0f;
              if (W::scoring == Scoring::scores || attends) {
                float z;
                if constexpr (W::scoring == Scoring::scores) {
                  z = features.template score<decltype(capped)::value>(p[block][i], distance, cap_slope);
                } else {
                  z = features.score(p[block][i], distance, query, key, cap_slope);
                }
                weight = attends ? weight_of(z, lse) : 0.0f;
              }
              const float keep = kept >> n & 1 ? args.features.keep_factor : 0.0f;
              if constexpr (role == Role::value) {
                p[block][i] = weight * keep;
              } else {
                const float delta = owns_queries ? own_delta[block][h] : statistic(stage, 1, first_column + local);
                // Of a row without keys dO may be NaN.
                const float gradient = attends ? weight * (keep * ds[block][i] - delta) : 0.0f;
                if constexpr (owns_queries) slope_sum -= gradient * distance;
                p[block][i] = gradient * cap_slope;
              }
            }
          }
        };
        if (W::scoring == Scoring::scores && features.capped()) {
          take(std::true_type{});
        } else {
          take(std::false_type{});
        }
        tile::pack_operand<element>(a[block], p[block]);
      }
    } else {
      const float c = problem.scale_log2 * problem.scale_sign;
      const bool edge = j * kWalked < inner.begin || (j + 1) * kWalked > inner.end;
#pragma unroll
      for (int block = 0; block < W::blocks; ++block) {
        if (edge) {
          const int row = first_row + owned_row<W>(block);
          const Interval rows[2] = {interval(row), interval(row + 8)};
          mask_scores<kWalked>(p[block], rows, j * kWalked, threadIdx.x);
        }
#pragma unroll
        for (int i = 0; i < kWalked / 2; ++i) {
          const int h = (i >> 1) & 1, column = 8 * (i >> 2) + (i & 1) + tile::accumulator_column(threadIdx.x);
          const float lse2 = owns_queries ? own_lse2[block][h] : statistic(stage, 0, column);
          const float delta = owns_queries ? own_delta[block][h] : statistic(stage, 1, column);
          const float weight = p[block][i] == kMinusInfinity ? 0.0f : arch::exp2(fmaf(p[block][i], c, -lse2));
          p[block][i] = role == Role::value ? weight : weight * (ds[block][i] - delta);
        }
        tile::pack_operand<element>(a[block], p[block]);
      }
    }
    multiply<element, W, kWalked>(sum, a, role == Role::value ? values_tile : scores_tile, sum_columns);
    if (W::stages == 1) {
      __syncthreads();
      if (next < steps) load_walked(next, 0);
      arch::commit_copies();
    }
    step = next;
  }
  if (W::featured && slope_sums != nullptr) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) slope_sum += __shfl_xor_sync(~0u, slope_sum, lanes);
    if (threadIdx.x % 32 == 0) slope_sums[threadIdx.x / 32] = slope_sum;
  }
  const float scale = role == Role::value ? 1.0f : problem.scale;
  const AttentionTensor& to = role == Role::query ? args.grad_q : role == Role::key ? args.grad_k : args.grad_v;
  const Source target = source(to, owned, {0, owned.length}, place.sequence, blockIdx.y, sum_columns, ragged);
#pragma unroll
  for (int i = 0; i < W::blocks; ++i) store_rows<element, D>(target, first_row + owned_row<W>(i), sum[i], {scale, scale});
}

int64_t statistics_count(const AttentionSizes& sizes) {
  return sizes.heads * sizes.query_rows * (sizes.ragged() ? 1 : int64_t{sizes.batch});
}

// Of one head: what its blocks of query rows leave, one a warp.
int64_t slope_parts(const CudaAttentionProblem& problem) {
  return problem.slopes == nullptr ? 0 : with_width(problem, [&](auto width) {
    return slots<decltype(width)::Backward::rows>(problem.sizes, problem.sizes.query_rows) * (kThreads / 32);
  });
}

template <Element element, class W, Role role>
void launch_role(const BackwardArguments& args, int64_t tiles, int heads, cudaStream_t stream) {
  if (tiles == 0) return;
  constexpr auto kernel = gradient_kernel<element, W, role>;
  allow_shared_memory(reinterpret_cast<const void*>(kernel), shared_bytes<W>(role));
  launch_kernel("portable attention backward", kernel, dim3(static_cast<unsigned>(tiles), heads), kThreads, shared_bytes<W>(role),
                stream, args);
}

void launch_statistics(const BackwardArguments& args, const CudaAttentionProblem& problem, cudaStream_t stream) {
  const AttentionSizes& sizes = problem.sizes;
  const int64_t rows = sizes.query_rows * (sizes.ragged() ? 1 : int64_t{sizes.batch});
  if (rows > 0) {
    const dim3 grid(static_cast<unsigned>((rows + kThreads / 32 - 1) / (kThreads / 32)), sizes.heads);
    const Element element = problem.element == AttentionElement::bf16 ? Element::bf16 : Element::f16;
    launch_kernel("portable attention backward", statistics_kernel, grid, kThreads, 0, stream, args, element);
  }
  mark_rows_without_keys(problem, {args.lse2, args.delta, args.query_rows}, stream);
}

template <Element element>
void launch(const BackwardArguments& args, const CudaAttentionProblem& problem, cudaStream_t stream) {
  const AttentionSizes& sizes = problem.sizes;
  with_width(problem, [&](auto width) {
    using W = typename decltype(width)::template BackwardOf<element>;
    launch_role<element, W, Role::query>(args, slots<W::rows>(sizes, sizes.query_rows), sizes.heads, stream);
    launch_role<element, W, Role::key>(args, slots<W::rows>(sizes, sizes.key_rows), sizes.kv_heads, stream);
    launch_role<element, W, Role::value>(args, slots<W::rows>(sizes, sizes.key_rows), sizes.kv_heads, stream);
  });
}

// What the kernels are told; statistics at the start of `memory`.
BackwardArguments device_arguments(const AttentionBackward& arguments, void* memory) {
  const CudaAttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  BackwardArguments args{};
  args.problem = device_problem(problem);
  args.q = problem.q;
  args.k = problem.k;
  args.v = problem.v;
  args.out = problem.out;
  args.grad_out = arguments.grad_out;
  args.grad_q = arguments.grad_q;
  args.grad_k = arguments.grad_k;
  args.grad_v = arguments.grad_v;
  args.head_dim = sizes.head_dim;
  args.value_dim = sizes.value_dim;
  args.lse = problem.lse;
  args.grad_lse = arguments.grad_lse;
  args.lse2 = static_cast<float*>(memory);
  args.lse_unit = with_width(problem, [&](auto width) {
    using W = decltype(width);
    const bool featured = problem.element == AttentionElement::bf16 ? W::template BackwardOf<Element::bf16>::featured
                                                                    : W::template BackwardOf<Element::f16>::featured;
    return featured ? 1.0f : 1.4426950408889634f;
  });
  args.delta = args.lse2 + statistics_count(sizes);
  args.query_rows = sizes.query_rows;
  args.features = score_features(problem);
  return args;
}

}  // namespace

int backward_shared_bytes(const CudaAttentionProblem& problem) {
  return with_width(problem, [](auto width) {
    using W = typename decltype(width)::Backward;
    return std::max(shared_bytes<W>(Role::query), shared_bytes<W>(Role::value));
  });
}

int64_t backward_bytes(const CudaAttentionProblem& problem) {
  return sizeof(float) * (2 * statistics_count(problem.sizes) + slope_parts(problem) * problem.sizes.heads) +
         table_gradient_bytes(problem) + sink_gradient_bytes(problem);
}

void backward(const AttentionBackward& arguments, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  BackwardArguments args = device_arguments(arguments, problem.workspace);
  float* slope_sums = args.delta + statistics_count(sizes);
  float* table_sums = slope_sums + slope_parts(problem) * sizes.heads;
  float* sink_sums = table_sums + table_gradient_bytes(problem) / int64_t{sizeof(float)};
  if (arguments.grad_slopes != nullptr && problem.slopes != nullptr) args.slope_sums = slope_sums;
  launch_statistics(args, problem, stream);
  problem.element == AttentionElement::bf16 ? launch<Element::bf16>(args, problem, stream)
                                            : launch<Element::f16>(args, problem, stream);
  if (args.slope_sums != nullptr) add_parts(args.slope_sums, arguments.grad_slopes, sizes.heads, slope_parts(problem), stream);
  plane_gradients(arguments, {args.lse2, args.delta, args.query_rows}, table_sums, stream);
  sink_gradients(arguments, sink_sums, stream);
  clear_spare_keys(arguments, stream);
}

int64_t bias_gradient_bytes(const CudaAttentionProblem& problem) {
  return problem.bias.data == nullptr ? 0 : 2 * int64_t{sizeof(float)} * statistics_count(problem.sizes);
}

void bias_gradient(const AttentionBackward& arguments, void* memory, cudaStream_t stream) {
  const BackwardArguments args = device_arguments(arguments, memory);
  AttentionBackward of_bias = arguments;
  of_bias.grad_table = nullptr;
  launch_statistics(args, arguments.problem, stream);
  plane_gradients(of_bias, {args.lse2, args.delta, args.query_rows}, nullptr, stream);
}

}  // namespace deckle::kernels::cuda::attention::portable
