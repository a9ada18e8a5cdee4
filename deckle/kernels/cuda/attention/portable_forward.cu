// out = softmax(mask(scale q kᵀ)) v by mma.sync.
//                                                   q [M, D], k [N, D], v [N, Dv], out [M, Dv] of each (sequence, head)
//
// A block owns 128 query rows (64 at D = 256), its four warps 32 (16) each, and walks tiles of 64 keys from the right. Two
// stages: k and v of the next tile arrive under this one's products. With one (D = 256), v(j) arrives under q k(j)ᵀ and the
// softmax, k(j-1) under p v(j). Instances: bf16 and f16 x D up to 64, 128, 256; smaller dims run in the next width, whose surplus
// columns are neither loaded nor multiplied. The softmax is that of the Hopper kernel: the accumulator layouts agree.
#include <cmath>

#include "deckle/kernels/cuda/attention/portable_launch.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"

namespace deckle::kernels::cuda::attention::portable {
namespace {

constexpr int kKeys = 64;

struct ForwardArguments {
  DeviceProblem problem;
  AttentionTensor q, k, v, out;
  int head_dim, value_dim;
  float* lse;
  const float* sinks;  // null: none
  ScoreFeatures features;
};

template <Element element, class W>
__global__ void __launch_bounds__(kThreads) forward_kernel(ForwardArguments args) {
  constexpr int D = W::D, kKeyBytes = kKeys * W::row_bytes;
  extern __shared__ __align__(1024) unsigned char memory[];
  const DeviceProblem& problem = args.problem;
  const bool ragged = problem.queries.offsets != nullptr;
  const Place place = place_of<W::rows>(problem.queries, problem.batch, gridDim.x - 1 - blockIdx.x);
  const Sequence queries = problem.queries[place.sequence], keys = problem.keys[place.sequence];
  const int first_row = place.tile * W::rows, head = blockIdx.y, kv_head = head / (problem.heads / problem.kv_heads);
  if (first_row < 0 || first_row >= queries.length) return;
  const auto interval = [&](int row) { return key_interval(problem.mask, row, queries.length, keys.length); };
  const int last_row = min(first_row + W::rows, queries.length) - 1;
  const int begin = interval(first_row).begin, end = interval(last_row).end;
  const int tile_begin = begin / kKeys, tile_end = end > begin ? (end + kKeys - 1) / kKeys : begin / kKeys;

  const Interval all_queries{0, queries.length}, all_keys{0, keys.length};
  const Source q = source(args.q, queries, all_queries, place.sequence, head, args.head_dim, ragged);
  const Source k = source(args.k, keys, all_keys, place.sequence, kv_head, args.head_dim, ragged);
  const Source v = source(args.v, keys, all_keys, place.sequence, kv_head, args.value_dim, ragged);
  const uint32_t q_tile = arch::shared_address(memory), k_tiles = q_tile + W::rows * W::row_bytes,
                 v_tiles = k_tiles + W::stages * kKeyBytes;
  const int warp_row = 16 * W::blocks * (threadIdx.x / 32);
  // Tiles within these keys hold no edge of the warp's rows.
  const Interval inner{interval(first_row + warp_row + 16 * W::blocks - 1).begin, interval(first_row + warp_row).end};
  const Scores<element, W::scoring> features(args.features, problem, place.sequence, head, queries, keys);
  const float log2e = 1.4426950408889634f, c = W::featured ? log2e : problem.scale_log2;
  float out[W::blocks][D / 2] = {};
  RowState state[W::blocks];
#pragma unroll
  for (RowState& s : state) s.reset();

  const auto next_tile = [&](int j) {  // the first from j on, to the left, that has work
    while (j >= tile_begin && !features.tile_has_work(first_row, first_row + W::rows, j * kKeys, (j + 1) * kKeys)) --j;
    return j;
  };
  load_tile<W, W::rows>(q_tile, q, first_row);
  int j = next_tile(tile_end - 1);
  if (j >= tile_begin) {
    load_tile<W, kKeys>(k_tiles, k, j * kKeys);
    if (W::stages == 2) load_tile<W, kKeys>(v_tiles, v, j * kKeys);
  }
  arch::commit_copies();
  for (uint32_t now = 0; j >= tile_begin; now = W::stages == 2 ? kKeyBytes - now : 0) {
    const int next = next_tile(j - 1);
    arch::wait_copies();
    __syncthreads();  // the tile's k is here (v too, of two stages); nobody reads what the next copies overwrite
    if constexpr (W::stages == 2) {
      if (next >= tile_begin) {
        load_tile<W, kKeys>(k_tiles + (kKeyBytes - now), k, next * kKeys);
        load_tile<W, kKeys>(v_tiles + (kKeyBytes - now), v, next * kKeys);
      }
    } else {
      load_tile<W, kKeys>(v_tiles, v, j * kKeys);
    }
    arch::commit_copies();
    float scores[W::blocks][kKeys / 2] = {};
    uint32_t p[W::blocks][kKeys / 4];
    multiply_transposed<element, W, kKeys>(scores, q_tile + warp_row * W::row_bytes, k_tiles + now, args.head_dim);
#pragma unroll
    for (int i = 0; i < W::blocks; ++i) {
      if constexpr (W::featured) {
        const int row = first_row + owned_row<W>(i), column = j * kKeys + tile::accumulator_column(threadIdx.x);
        const float position = features.position(row, column);
        uint32_t attended = ~0u;
        if constexpr (W::scoring == Scoring::planes) attended = features.template attended<true, kKeys>(row, column);
        float unused;
#pragma unroll
        for (int n = 0; n < kKeys / 2; ++n) {
          const int below = 8 * ((n >> 1) & 1), right = 8 * (n >> 2) + (n & 1);
          const float distance = fabsf(position + static_cast<float>(below - right));
          scores[i][n] =
              attended >> n & 1 ? features.score(scores[i][n], distance, row + below, column + right, unused) : kMinusInfinity;
        }
      } else if (problem.scale_sign < 0) {
#pragma unroll
        for (float& score : scores[i]) score = -score;
      }
      if (W::scoring != Scoring::planes && (j * kKeys < inner.begin || (j + 1) * kKeys > inner.end)) {
        const int row = first_row + owned_row<W>(i);
        const Interval rows[2] = {interval(row), interval(row + 8)};
        mask_scores<kKeys>(scores[i], rows, j * kKeys, threadIdx.x);
      }
      float rescale[2];
      if (update_maximum<kKeys>(scores[i], state[i], rescale, c)) scale_rows(out[i], rescale);
      exponentiate<kKeys, W::scoring == Scoring::planes>(scores[i], state[i], c);
      if (W::featured && features.drops()) {
#pragma unroll
        for (int half = 0; half < kKeys / 32; ++half) {
          const uint32_t kept = features.template keep<true>(first_row + warp_row + 16 * i, j * kKeys + 32 * half);
#pragma unroll
          for (int n = 0; n < 16; ++n) scores[i][16 * half + n] = kept >> n & 1 ? scores[i][16 * half + n] : 0.0f;
        }
      }
      tile::pack_operand<element>(p[i], scores[i]);
    }
    if constexpr (W::stages == 1) {
      arch::wait_copies();
      __syncthreads();  // v(j) is here; nobody reads k(j) any more
      if (next >= tile_begin) load_tile<W, kKeys>(k_tiles, k, next * kKeys);
      arch::commit_copies();
    }
    multiply<element, W, kKeys>(out, p, v_tiles + now, args.value_dim);
    j = next;
  }

  const int64_t lse = lse_index(problem, place.sequence, queries.start, head);
#pragma unroll
  for (int i = 0; i < W::blocks; ++i) {
    float factor[2];
    const int row = first_row + owned_row<W>(i);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowEnd end =
          end_row(state[i].maximum[h], quad_sum(state[i].sum[h]), c, args.sinks != nullptr ? args.sinks + head : nullptr);
      factor[h] = W::featured ? end.factor * args.features.keep_factor : end.factor;
      if (args.lse != nullptr && threadIdx.x % 4 == 0 && row + 8 * h < queries.length)
        args.lse[lse + int64_t{row + 8 * h} * problem.heads] = end.lse;
    }
    store_rows<element, D>(source(args.out, queries, all_queries, place.sequence, head, args.value_dim, ragged), row, out[i],
                           factor);
  }
}

template <class W>
constexpr int shared_bytes() {
  return (W::rows + 2 * W::stages * kKeys) * W::row_bytes;
}

template <Element element>
void launch(const CudaAttentionProblem& problem, cudaStream_t stream) {
  const AttentionSizes& sizes = problem.sizes;
  with_width(problem, [&](auto width) {
    using W = typename decltype(width)::template ForwardOf<element>;
    const int64_t tiles = slots<W::rows>(sizes, sizes.query_rows);
    if (tiles == 0) return;
    allow_shared_memory(reinterpret_cast<const void*>(forward_kernel<element, W>), shared_bytes<W>());
    launch_kernel("portable attention", forward_kernel<element, W>, dim3(static_cast<unsigned>(tiles), sizes.heads), kThreads,
                  shared_bytes<W>(), stream,
                  ForwardArguments{device_problem(problem), problem.q, problem.k, problem.v, problem.out, sizes.head_dim,
                                   sizes.value_dim, problem.lse, problem.sinks, score_features(problem)});
  });
}

}  // namespace

int forward_shared_bytes(const CudaAttentionProblem& problem) {
  return with_width(problem, [&](auto width) {
    using W = decltype(width);
    return problem.element == AttentionElement::bf16 ? shared_bytes<typename W::template ForwardOf<Element::bf16>>()
                                                     : shared_bytes<typename W::template ForwardOf<Element::f16>>();
  });
}

void forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  problem.element == AttentionElement::bf16 ? launch<Element::bf16>(problem, stream) : launch<Element::f16>(problem, stream);
}

}  // namespace deckle::kernels::cuda::attention::portable
