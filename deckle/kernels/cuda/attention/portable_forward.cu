// out = softmax(mask(scale q kᵀ)) v by mma.sync.                 q [M, D], k [N, D], v [N, Dv], out [M, Dv] of each (sequence,
// head)
//
// A block owns 64 query rows, its four warps 16 each, and walks the key tiles from the right. k and v have one buffer each: v(j)
// arrives under q k(j)ᵀ and the softmax, k(j-1) under p v(j). Instances: bf16 and f16 x D up to 128, 256; smaller dims run in the
// next bucket, whose surplus columns are neither loaded nor multiplied. The softmax is that of the Hopper kernel: the accumulator
// layouts agree.
#include <cmath>

#include "deckle/kernels/cuda/attention/portable_launch.cuh"
#include "deckle/kernels/cuda/attention/portable_tile.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"

namespace deckle::kernels::cuda::attention::portable {
namespace {

struct ForwardArguments {
  DeviceProblem problem;
  AttentionTensor q, k, v, out;
  int head_dim, value_dim;
  float* lse;
};

template <Element element, int D>
__global__ void __launch_bounds__(kThreads) forward_kernel(ForwardArguments args) {
  extern __shared__ __align__(16) unsigned char memory[];
  const DeviceProblem& problem = args.problem;
  const bool ragged = problem.queries.offsets != nullptr;
  const Place place = place_of(problem.queries, problem.batch, gridDim.x - 1 - blockIdx.x);
  const Sequence queries = problem.queries[place.sequence], keys = problem.keys[place.sequence];
  const int first_row = place.tile * kRows, head = blockIdx.y, kv_head = head / (problem.heads / problem.kv_heads);
  if (first_row < 0 || first_row >= queries.length) return;
  const int last_row = min(first_row + kRows, queries.length) - 1;
  const int begin = key_interval(problem.mask, first_row, queries.length, keys.length).begin;
  const int end = key_interval(problem.mask, last_row, queries.length, keys.length).end;
  const int tile_begin = begin / kRows, tile_end = end > begin ? (end + kRows - 1) / kRows : begin / kRows;

  const Interval all_queries{0, queries.length}, all_keys{0, keys.length};
  const Source q = source(args.q, queries, all_queries, place.sequence, head, args.head_dim, ragged);
  const Source k = source(args.k, keys, all_keys, place.sequence, kv_head, args.head_dim, ragged);
  const Source v = source(args.v, keys, all_keys, place.sequence, kv_head, args.value_dim, ragged);
  const uint32_t q_tile = arch::shared_address(memory), k_tile = q_tile + Tile<D>::bytes, v_tile = k_tile + Tile<D>::bytes;
  const int warp = threadIdx.x / 32;
  const int row = first_row + tile::accumulator_row(threadIdx.x);
  const Interval rows[2] = {key_interval(problem.mask, row, queries.length, keys.length),
                            key_interval(problem.mask, row + 8, queries.length, keys.length)};
  float out[D / 2] = {};
  RowState state;
  state.reset();

  load_tile<D>(q_tile, q, first_row);
  if (tile_end > tile_begin) load_tile<D>(k_tile, k, (tile_end - 1) * kRows);
  arch::commit_copies();
  for (int j = tile_end - 1; j >= tile_begin; --j) {
    arch::wait_copies();
    __syncthreads();  // k(j) is here; nobody reads v(j + 1) any more
    load_tile<D>(v_tile, v, j * kRows);
    arch::commit_copies();
    float scores[32] = {}, rescale[2];
    uint32_t p[16];
    multiply_transposed<element, D>(scores, q_tile + 16 * warp * Tile<D>::stride, k_tile, args.head_dim);
#pragma unroll
    for (float& score : scores) score *= problem.scale_sign;
    mask_scores<64>(scores, rows, j * kRows, threadIdx.x);
    if (update_maximum<64>(scores, state, rescale, problem.scale_log2)) scale_rows(out, rescale);
    exponentiate<64>(scores, state, problem.scale_log2);
    tile::pack_operand<element>(p, scores);
    arch::wait_copies();
    __syncthreads();  // v(j) is here; nobody reads k(j) any more
    if (j > tile_begin) load_tile<D>(k_tile, k, (j - 1) * kRows);
    arch::commit_copies();
    multiply<element, D>(out, p, v_tile, args.value_dim);
  }

  float inverse[2];
  const int64_t lse = lse_index(problem, place.sequence, queries.start, head);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = quad_sum(state.sum[h]);
    inverse[h] = sum > 0.0f || sum != sum ? 1.0f / sum : 0.0f;
    if (args.lse != nullptr && threadIdx.x % 4 == 0 && row + 8 * h < queries.length) {
      const float shift = state.maximum[h] == kMinusInfinity ? 0.0f : state.maximum[h] * problem.scale_log2;
      args.lse[lse + int64_t{row + 8 * h} * problem.heads] = (shift + arch::log2(sum)) * 0.6931471805599453f;
    }
  }
  store_rows<element, D>(source(args.out, queries, all_queries, place.sequence, head, args.value_dim, ragged),
                         first_row + 16 * warp, out, inverse);
}

template <Element element, int D>
void launch(const CudaAttentionProblem& problem, cudaStream_t stream) {
  const AttentionSizes& sizes = problem.sizes;
  launch_tiles(reinterpret_cast<const void*>(forward_kernel<element, D>), slots(sizes, sizes.query_rows), sizes.heads,
               3 * Tile<D>::bytes,
               ForwardArguments{device_problem(problem), problem.q, problem.k, problem.v, problem.out, sizes.head_dim,
                                sizes.value_dim, problem.lse},
               stream);
}

template <Element element>
void launch_bucket(const CudaAttentionProblem& problem, cudaStream_t stream) {
  if (std::max(problem.sizes.head_dim, problem.sizes.value_dim) <= 128) {
    launch<element, 128>(problem, stream);
  } else {
    launch<element, 256>(problem, stream);
  }
}

}  // namespace

int forward_shared_bytes(const AttentionSizes& sizes) {
  return 3 * (std::max(sizes.head_dim, sizes.value_dim) <= 128 ? Tile<128>::bytes : Tile<256>::bytes);
}

void forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  problem.element == AttentionElement::bf16 ? launch_bucket<Element::bf16>(problem, stream)
                                            : launch_bucket<Element::f16>(problem, stream);
}

}  // namespace deckle::kernels::cuda::attention::portable
