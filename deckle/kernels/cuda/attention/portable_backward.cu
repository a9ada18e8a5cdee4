// dq, dk, dv by mma.sync, deterministic: no sum crosses a block.
//
// With p = 2^(c s - lse2), dp = do vᵀ and ds = p (dp - delta), delta = Σ do · out - dlse:
//   query rows:  dq = scale ds k        key rows:  dk = scale dsᵀ q        key rows:  dv = pᵀ do
// Each is one walk of the same kernel in one of three roles: a block owns 64 rows of one side, keeps their two operands in shared
// memory, walks the tiles of the other side, recomputes p and ds with the owned rows as rows, and multiplies them with one of the
// walked operands. That is 8 products of M N D where one fused kernel needs 5. Instances: bf16 and f16 x D up to 128, 256; the
// role is a run-time branch.
#include <cmath>

#include "deckle/kernels/cuda/attention/portable_launch.cuh"
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
  float* lse2;            // +inf where a row attends nothing: p = 0 there, and delta = 0
  float* delta;
  int64_t query_rows;  // of all sequences, dense: of one
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
    sum += a.x * b.x + a.y * b.y;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane != 0) return;
  const int64_t given = index * problem.heads + head, at = statistics_index(args, static_cast<int>(sequence), row, head);
  const float lse = args.lse[given];
  const bool dead = lse == kMinusInfinity;  // out and dO of such a row do not count, whatever they hold
  args.lse2[at] = dead ? -kMinusInfinity : lse * 1.4426950408889634f;
  args.delta[at] = dead ? 0.0f : sum - (args.grad_lse != nullptr ? args.grad_lse[given] : 0.0f);
}

template <Element element, int D>
__global__ void __launch_bounds__(kThreads) gradient_kernel(BackwardArguments args, Role role) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ float statistics[2][kRows];  // lse2, delta of the walked query rows
  const DeviceProblem& problem = args.problem;
  const bool ragged = problem.queries.offsets != nullptr, owns_queries = role == Role::query;
  const Place place = place_of(owns_queries ? problem.queries : problem.keys, problem.batch, gridDim.x - 1 - blockIdx.x);
  const Sequence queries = problem.queries[place.sequence], keys = problem.keys[place.sequence];
  const Sequence owned = owns_queries ? queries : keys;
  const int first_row = place.tile * kRows;
  if (first_row < 0 || first_row >= owned.length) return;
  const auto interval = [&](int row) {
    return owns_queries ? key_interval(problem.mask, row, queries.length, keys.length)
                        : query_interval(problem.mask, row, queries.length, keys.length);
  };
  const int begin = interval(first_row).begin, end = interval(min(first_row + kRows, owned.length) - 1).end;
  const int tile_begin = begin / kRows, tile_end = end > begin ? (end + kRows - 1) / kRows : begin / kRows;

  const int group = problem.heads / problem.kv_heads;
  const int kv_head = owns_queries ? blockIdx.y / group : blockIdx.y;
  const int head_begin = owns_queries ? blockIdx.y : kv_head * group,
            head_end = owns_queries ? head_begin + 1 : head_begin + group;
  const uint32_t owned_scores = arch::shared_address(memory), owned_values = owned_scores + Tile<D>::bytes;
  const uint32_t walked_scores = owned_values + Tile<D>::bytes, walked_values = walked_scores + Tile<D>::bytes;
  const Interval all_keys{0, keys.length}, live = live_rows(problem.mask, queries.length, keys.length);
  const auto k_rows = [&] { return source(args.k, keys, all_keys, place.sequence, kv_head, args.head_dim, ragged); };
  const auto v_rows = [&] { return source(args.v, keys, all_keys, place.sequence, kv_head, args.value_dim, ragged); };
  const auto q_of = [&](int head) { return source(args.q, queries, live, place.sequence, head, args.head_dim, ragged); };
  const auto grad_of = [&](int head) {
    return source(args.grad_out, queries, live, place.sequence, head, args.value_dim, ragged);
  };

  const int warp = threadIdx.x / 32, warp_rows = 16 * warp * Tile<D>::stride;
  const int row = first_row + tile::accumulator_row(threadIdx.x);
  const Interval rows[2] = {interval(row), interval(row + 8)};
  float own_lse2[2], own_delta[2];  // as query rows
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool exists = owns_queries && row + 8 * h < queries.length;
    const int64_t at = exists ? statistics_index(args, place.sequence, queries.start, head_begin) + row + 8 * h : 0;
    own_lse2[h] = exists ? args.lse2[at] : -kMinusInfinity;
    own_delta[h] = exists ? args.delta[at] : 0.0f;
  }

  load_tile<D>(owned_scores, owns_queries ? q_of(head_begin) : k_rows(), first_row);
  load_tile<D>(owned_values, owns_queries ? grad_of(head_begin) : v_rows(), first_row);
  float sum[D / 2] = {};
  const int sum_columns = role == Role::value ? args.value_dim : args.head_dim;
  for (int head = head_begin; head < head_end; ++head) {
    const int64_t first = statistics_index(args, place.sequence, queries.start, head);
    for (int j = tile_begin; j < tile_end; ++j) {
      __syncthreads();  // nobody reads the walked tiles any more
      load_tile<D>(walked_scores, owns_queries ? k_rows() : q_of(head), j * kRows);
      load_tile<D>(walked_values, owns_queries ? v_rows() : grad_of(head), j * kRows);
      arch::commit_copies();
      if (!owns_queries) {
        const int walked = j * kRows + threadIdx.x % kRows;
        const bool is_delta = threadIdx.x >= kRows, exists = walked < queries.length;
        statistics[is_delta][threadIdx.x % kRows] = exists     ? (is_delta ? args.delta : args.lse2)[first + walked]
                                                    : is_delta ? 0.0f
                                                               : -kMinusInfinity;
      }
      arch::wait_copies();
      __syncthreads();

      float p[32] = {}, ds[32] = {};
      uint32_t a[16];
      multiply_transposed<element, D>(p, owned_scores + warp_rows, walked_scores, args.head_dim);
      mask_scores<64>(p, rows, j * kRows, threadIdx.x);
      if (role != Role::value) multiply_transposed<element, D>(ds, owned_values + warp_rows, walked_values, args.value_dim);
      const float c = problem.scale_log2 * problem.scale_sign;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int h = (i >> 1) & 1, column = 8 * (i >> 2) + (i & 1) + tile::accumulator_column(threadIdx.x);
        const float lse2 = owns_queries ? own_lse2[h] : statistics[0][column];
        const float delta = owns_queries ? own_delta[h] : statistics[1][column];
        const float weight = p[i] == kMinusInfinity ? 0.0f : arch::exp2(fmaf(p[i], c, -lse2));
        p[i] = role == Role::value ? weight : weight * (ds[i] - delta);
      }
      tile::pack_operand<element>(a, p);
      multiply<element, D>(sum, a, role == Role::value ? walked_values : walked_scores, sum_columns);
    }
  }
  const float scale = role == Role::value ? 1.0f : problem.scale;
  const AttentionTensor& to = role == Role::query ? args.grad_q : role == Role::key ? args.grad_k : args.grad_v;
  store_rows<element, D>(source(to, owned, {0, owned.length}, place.sequence, blockIdx.y, sum_columns, ragged),
                         first_row + 16 * warp, sum, {scale, scale});
}

int64_t statistics_count(const AttentionSizes& sizes) {
  return sizes.heads * sizes.query_rows * (sizes.ragged() ? 1 : int64_t{sizes.batch});
}

template <Element element, int D>
void launch(const BackwardArguments& args, const AttentionSizes& sizes, cudaStream_t stream) {
  const auto kernel = reinterpret_cast<const void*>(gradient_kernel<element, D>);
  constexpr int kBytes = 4 * Tile<D>::bytes;
  allow_shared_memory(kernel, kBytes);
  for (const Role role : {Role::query, Role::key, Role::value}) {
    const bool owns_queries = role == Role::query;
    const int64_t tiles = slots(sizes, owns_queries ? sizes.query_rows : sizes.key_rows);
    if (tiles == 0) continue;
    const dim3 grid(static_cast<unsigned>(tiles), owns_queries ? sizes.heads : sizes.kv_heads);
    launch_kernel("portable attention backward", gradient_kernel<element, D>, grid, kThreads, kBytes, stream, args, role);
  }
}

template <Element element>
void launch_bucket(const BackwardArguments& args, const AttentionSizes& sizes, cudaStream_t stream) {
  const int64_t rows = sizes.query_rows * (sizes.ragged() ? 1 : int64_t{sizes.batch});
  if (rows > 0) {
    const dim3 grid(static_cast<unsigned>((rows + kThreads / 32 - 1) / (kThreads / 32)), sizes.heads);
    launch_kernel("portable attention backward", statistics_kernel, grid, kThreads, 0, stream, args, element);
  }
  if (std::max(sizes.head_dim, sizes.value_dim) <= 128) {
    launch<element, 128>(args, sizes, stream);
  } else {
    launch<element, 256>(args, sizes, stream);
  }
}

}  // namespace

int backward_shared_bytes(const AttentionSizes& sizes) {
  constexpr int kStatistics = 2 * kRows * int{sizeof(float)};
  return kStatistics + 4 * (std::max(sizes.head_dim, sizes.value_dim) <= 128 ? Tile<128>::bytes : Tile<256>::bytes);
}

int64_t backward_bytes(const AttentionSizes& sizes) { return 2 * 4 * statistics_count(sizes); }

void backward(const AttentionBackward& arguments, cudaStream_t stream) {
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
  args.lse2 = static_cast<float*>(problem.workspace);
  args.delta = args.lse2 + statistics_count(sizes);
  args.query_rows = sizes.query_rows;
  problem.element == AttentionElement::bf16 ? launch_bucket<Element::bf16>(args, sizes, stream)
                                            : launch_bucket<Element::f16>(args, sizes, stream);
}

}  // namespace deckle::kernels::cuda::attention::portable
