// out = softmax(mask(scale q kᵀ)) v for few rows: bytes are 2 N (D + Dv) a key head, and nothing else counts.
//
// A block owns 16 rows, which are the query heads of one key head times the query rows of one sequence, and a part of their keys.
// Each of its four warps walks 16 keys at a time, every fourth such piece, through a ring of its own: no barrier until the end,
// and 64 to 96 KB of loads under way in a block. The warps' sums meet in shared memory, the parts' in a second kernel, always in
// one order. Instances: bf16 and f16 x D up to 64, 128, 256.
#include "deckle/kernels/cuda/attention/portable_decode.h"

#include <algorithm>

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_tile.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"

namespace deckle::kernels::cuda {
namespace attention::portable {
namespace {

constexpr int kRows = 16, kKeys = 16, kWarps = kThreads / 32, kMostRows = 32, kLeastKeys = 256;
// Two on each multiprocessor of an H200, whatever the device, so that results do not depend on it.
constexpr int64_t kBlocksAtOnce = 264;

template <int D_>
struct DecodeWidth {
  static constexpr int D = D_, blocks = 1, row_bytes = 2 * D, unrolled = D / 16;
  static constexpr int stages = D == 64 ? 6 : 3;
  static constexpr int stage_bytes = 2 * kKeys * row_bytes;  // keys, then values
};

struct DecodeArguments {
  DeviceProblem problem;
  AttentionTensor q, k, v, out;
  int head_dim, value_dim, group;
  int row_tiles, parts;
  float* sums;         // [sequence, kv head, row, part, D] unnormalised outputs
  float2* states;      // [sequence, kv head, row, part] maximum and sum
  float* lse;          // null: not wanted
  const float* sinks;  // null: none
};

// Row `row` of the rows of (sequence, kv head).
__device__ __forceinline__ int64_t row_index(const DecodeArguments& args, int sequence, int kv_head, int row) {
  return (int64_t{sequence} * args.problem.kv_heads + kv_head) * (args.row_tiles * kRows) + row;
}

// 16 rows of a tensor to a tile of this warp alone; zeros from `end` on.
template <class W>
__device__ __forceinline__ void load_rows(uint32_t shared, const char* base, int64_t row_bytes, int columns, int first, int end) {
  constexpr int kChunks = W::D / 8, kStep = 32 / (kChunks < 32 ? kChunks : 32);
  const int lane = threadIdx.x % 32, chunk = lane % kChunks, lane_row = lane / kChunks;
  const bool has_column = 8 * chunk < columns;
#pragma unroll
  for (int i = 0; i < kKeys / kStep; ++i) {
    const int local = lane_row + i * kStep;
    const bool valid = has_column && first + local < end;
    arch::copy_async(shared + local * W::row_bytes + ((chunk ^ (local & 7)) << 4),
                     valid ? base + (first + local) * row_bytes + 16 * chunk : base, valid);
  }
}

// Block (part, kv head and tile of rows, sequence).
template <Element element, class W>
__global__ void __launch_bounds__(kThreads) decode_part(const DecodeArguments args) {
  constexpr int D = W::D;
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ float2 warp_states[kWarps][kRows];
  const DeviceProblem& problem = args.problem;
  const bool ragged = problem.queries.offsets != nullptr;
  const int part = blockIdx.x, kv_head = blockIdx.y / args.row_tiles, row_tile = blockIdx.y % args.row_tiles,
            sequence = blockIdx.z;
  const Sequence queries = problem.queries[sequence], keys = problem.keys[sequence];
  const int first_row = row_tile * kRows, rows = min(queries.length * args.group - first_row, kRows);
  if (rows <= 0) return;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto interval = [&](int row) {
    return key_interval(problem.mask, (first_row + row) / args.group, queries.length, keys.length);
  };
  const int begin = interval(0).begin, end = max(interval(rows - 1).end, begin);
  const int pieces = (end - begin + kKeys - 1) / kKeys;  // of 16 keys
  const int piece_begin = static_cast<int>(int64_t{pieces} * part / args.parts),
            piece_end = static_cast<int>(int64_t{pieces} * (part + 1) / args.parts);

  const uint32_t q_tile = arch::shared_address(memory),
                 ring = q_tile + kRows * W::row_bytes + warp * (W::stages * W::stage_bytes);
  for (int i = threadIdx.x; i < kRows * (D / 8); i += kThreads) {
    const int row = i / (D / 8), chunk = i % (D / 8), at = first_row + row;
    const bool valid = row < rows && 8 * chunk < args.head_dim;
    const int query = valid ? at / args.group : 0, head = valid ? kv_head * args.group + at % args.group : 0;
    const char* from =
        static_cast<const char*>(args.q.data) +
        2 * ((ragged ? (queries.start + query) * args.q.row_stride : sequence * args.q.batch_stride + query * args.q.row_stride) +
             head * args.q.head_stride + 8 * (valid ? chunk : 0));
    arch::copy_async(q_tile + row * W::row_bytes + ((chunk ^ (row & 7)) << 4), from, valid);
  }
  arch::commit_copies();
  arch::wait_copies();
  __syncthreads();

  const auto base = [&](const AttentionTensor& t) {
    return static_cast<const char*>(t.data) +
           2 * ((ragged ? keys.start * t.row_stride : sequence * t.batch_stride) + kv_head * t.head_stride);
  };
  const char *k = base(args.k), *v = base(args.v);
  const auto load = [&](int piece, int stage) {
    if (piece < piece_end) {
      const int first = begin + piece * kKeys;
      load_rows<W>(ring + stage * W::stage_bytes, k, 2 * args.k.row_stride, args.head_dim, first, end);
      load_rows<W>(ring + stage * W::stage_bytes + kKeys * W::row_bytes, v, 2 * args.v.row_stride, args.value_dim, first, end);
    }
    arch::commit_copies();
  };
  float out[1][D / 2] = {};
  RowState state;
  state.reset();
  const int row = lane >> 2;
  const Interval of_rows[2] = {interval(min(row, rows - 1)), interval(min(row + 8, rows - 1))};
  int stage = 0;
#pragma unroll
  for (int i = 0; i < W::stages - 1; ++i) load(piece_begin + warp + i * kWarps, i);
  for (int piece = piece_begin + warp; piece < piece_end; piece += kWarps) {
    load(piece + (W::stages - 1) * kWarps, stage == 0 ? W::stages - 1 : stage - 1);
    arch::wait_copies<W::stages - 1>();
    __syncwarp();
    const uint32_t k_tile = ring + stage * W::stage_bytes;
    float scores[1][kKeys / 2] = {};
    float rescale[2];
    uint32_t p[1][kKeys / 4];
    multiply_transposed<element, W, kKeys>(scores, q_tile, k_tile, args.head_dim);
    if (problem.scale_sign < 0) {
#pragma unroll
      for (float& score : scores[0]) score = -score;
    }
    mask_scores<kKeys>(scores[0], of_rows, begin + piece * kKeys, threadIdx.x);
    if (update_maximum<kKeys>(scores[0], state, rescale, problem.scale_log2)) scale_rows(out[0], rescale);
    exponentiate<kKeys>(scores[0], state, problem.scale_log2);
    tile::pack_operand<element>(p[0], scores[0]);
    multiply<element, W, kKeys>(out, p, k_tile + kKeys * W::row_bytes, args.value_dim);
    __syncwarp();  // the tile may be overwritten
    stage = stage + 1 == W::stages ? 0 : stage + 1;
  }
  arch::wait_copies();
  __syncthreads();  // nobody reads tiles any more

  // [warp][row][D], over the tiles.
  auto* sums = reinterpret_cast<float*>(memory);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = quad_sum(state.sum[h]);
    if (lane % 4 == 0) warp_states[warp][row + 8 * h] = make_float2(state.maximum[h], sum);
#pragma unroll
    for (int block = 0; block < D / 8; ++block)
      *reinterpret_cast<float2*>(sums + (warp * kRows + row + 8 * h) * D + 8 * block + 2 * (lane % 4)) =
          make_float2(out[0][4 * block + 2 * h], out[0][4 * block + 2 * h + 1]);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < rows * (D / 4); i += kThreads) {
    const int at = i / (D / 4), column = 4 * (i % (D / 4));
    float maximum = kMinusInfinity, sum = 0.0f;
    for (int w = 0; w < kWarps; ++w) maximum = fmaxf(maximum, warp_states[w][at].x);
    float4 total = make_float4(0, 0, 0, 0);
    for (int w = 0; w < kWarps; ++w) {
      const float2 of_warp = warp_states[w][at];
      const float factor = of_warp.x == kMinusInfinity ? 0.0f : arch::exp2((of_warp.x - maximum) * problem.scale_log2);
      const float4 add = *reinterpret_cast<const float4*>(sums + (w * kRows + at) * D + column);
      sum = fmaf(factor, of_warp.y, sum);
      total = make_float4(fmaf(factor, add.x, total.x), fmaf(factor, add.y, total.y), fmaf(factor, add.z, total.z),
                          fmaf(factor, add.w, total.w));
    }
    const int64_t index = row_index(args, sequence, kv_head, first_row + at) * args.parts + part;
    *reinterpret_cast<float4*>(args.sums + index * D + column) = total;
    if (column == 0) args.states[index] = make_float2(maximum, sum);
  }
}

// Adds up the parts of one row and head: a warp for 64 of its columns, block (row of a kv head, kv head, sequence).
__global__ void __launch_bounds__(128) add_decoded(const DecodeArguments args, Element element) {
  const DeviceProblem& problem = args.problem;
  const bool ragged = problem.queries.offsets != nullptr;
  const int row = blockIdx.x, kv_head = blockIdx.y, sequence = blockIdx.z;
  const int lane = threadIdx.x, width = 64 * static_cast<int>(blockDim.y), column = 64 * static_cast<int>(threadIdx.y) + 2 * lane;
  const Sequence queries = problem.queries[sequence];
  const int query = row / args.group, head = kv_head * args.group + row % args.group;
  if (query >= queries.length) return;
  const int64_t first = row_index(args, sequence, kv_head, row) * args.parts;
  float maximum = kMinusInfinity, sum = 0.0f;
  for (int part = 0; part < args.parts; ++part) maximum = fmaxf(maximum, args.states[first + part].x);
  float2 total = {0, 0};  // of `column` and the next
  for (int part = 0; part < args.parts; ++part) {
    const float2 state = args.states[first + part];
    const float factor = state.x == kMinusInfinity ? 0.0f : arch::exp2((state.x - maximum) * problem.scale_log2);
    sum = fmaf(factor, state.y, sum);
    const float2 add = *reinterpret_cast<const float2*>(args.sums + (first + part) * width + column);
    total = {fmaf(factor, add.x, total.x), fmaf(factor, add.y, total.y)};
  }
  const RowEnd end = end_row(maximum, sum, problem.scale_log2, args.sinks != nullptr ? args.sinks + head : nullptr);
  if (args.lse != nullptr && column == 0)
    args.lse[lse_index(problem, sequence, queries.start, head) + int64_t{query} * problem.heads] = end.lse;
  auto* to = reinterpret_cast<uint32_t*>(
      static_cast<uint16_t*>(args.out.data) +
      (ragged ? (queries.start + query) * args.out.row_stride : sequence * args.out.batch_stride + query * args.out.row_stride) +
      head * args.out.head_stride);
  if (column < args.value_dim) to[column / 2] = arch::pack(element, total.x * end.factor, total.y * end.factor);
}

int64_t rows_of(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  return int64_t{sizes.ragged() ? sizes.most_queries : sizes.query_rows} * (sizes.heads / std::max(sizes.kv_heads, 1));
}

int64_t tiles_of(const CudaAttentionProblem& problem) { return (rows_of(problem) + kRows - 1) / kRows; }

// The fewest parts with which whole waves of blocks are nearly full; of unequal sequences, enough for several waves.
int parts_of(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const int64_t keys = sizes.ragged() ? sizes.key_rows / std::max(sizes.batch, 1) : sizes.key_rows;
  const int64_t blocks = std::max<int64_t>(tiles_of(problem) * sizes.kv_heads * sizes.batch, 1);
  const int64_t most = std::max<int64_t>(keys / kLeastKeys, 1);
  if (sizes.ragged()) return static_cast<int>(std::clamp<int64_t>(4 * kBlocksAtOnce / blocks, 1, most));
  int best = 1;
  double best_cost = 1e30;
  for (int parts = 1; parts <= most; ++parts) {
    const double cost = static_cast<double>((blocks * parts + kBlocksAtOnce - 1) / kBlocksAtOnce) / parts;
    if (cost > 0.97 * best_cost) continue;
    best = parts;
    best_cost = cost;
  }
  return best;
}

template <class Call>
auto with_decode_width(const AttentionSizes& sizes, Call call) {
  const int dim = std::max(sizes.head_dim, sizes.value_dim);
  if (dim <= 64) return call(DecodeWidth<64>{});
  if (dim <= 128) return call(DecodeWidth<128>{});
  return call(DecodeWidth<256>{});
}

template <class W>
constexpr int decode_bytes() {
  return std::max(kRows * W::row_bytes + kWarps * W::stages * W::stage_bytes, kWarps * kRows * W::D * int{sizeof(float)});
}

template <Element element>
void launch(const CudaAttentionProblem& problem, DecodeArguments args, cudaStream_t stream) {
  const AttentionSizes& sizes = problem.sizes;
  with_decode_width(sizes, [&](auto width) {
    using W = decltype(width);
    constexpr auto kernel = decode_part<element, W>;
    allow_shared_memory(reinterpret_cast<const void*>(kernel), decode_bytes<W>());
    launch_kernel("attention decode", kernel, dim3(args.parts, sizes.kv_heads * args.row_tiles, sizes.batch), kThreads,
                  decode_bytes<W>(), stream, args);
    launch_kernel("attention decode", add_decoded, dim3(static_cast<unsigned>(rows_of(problem)), sizes.kv_heads, sizes.batch),
                  dim3(32, W::D / 64), 0, stream, args, element);
  });
}

// Behind the sums.
int64_t state_offset(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  const int width = with_decode_width(sizes, [](auto w) { return decltype(w)::D; });
  return int64_t{sizes.batch} * sizes.kv_heads * tiles_of(problem) * kRows * parts_of(problem) * width * int64_t{sizeof(float)};
}

}  // namespace
}  // namespace attention::portable

std::string attention_decode_why_not(const CudaAttentionProblem& problem) {
  namespace portable = attention::portable;
  if (std::string reason = attention::problem_why_not(problem); !reason.empty()) return reason;
  if (std::string reason = attention::features_why_not(problem); !reason.empty()) return reason;
  const AttentionSizes& sizes = problem.sizes;
  for (const int dim : {sizes.head_dim, sizes.value_dim}) {
    if (dim <= 0 || dim % 8 != 0 || dim > 256)
      return "a head dim is " + std::to_string(dim) + " (serves multiples of 8 up to 256)";
  }
  if (sizes.ragged() && sizes.most_queries <= 0) return "the most query rows of a sequence are not told";
  if (const int64_t rows = portable::rows_of(problem); rows > portable::kMostRows)
    return std::to_string(rows) + " query rows and heads on a key head (serves up to " + std::to_string(portable::kMostRows) +
           ")";
  if (sizes.batch > 65535) return std::to_string(sizes.batch) + " sequences (serves up to 65535)";
  if (const int64_t tiles = int64_t{sizes.kv_heads} * portable::tiles_of(problem); tiles > 65535)
    return std::to_string(tiles) + " tiles of rows in a sequence (serves up to 65535)";
  if (std::string reason = attention::device_why_not(problem.device, 8, 99); !reason.empty()) return reason;
  return attention::shared_memory_of_device_why_not(attention_decode_shared_bytes(problem), problem.device);
}

int attention_decode_shared_bytes(const CudaAttentionProblem& problem) {
  namespace portable = attention::portable;
  return portable::with_decode_width(problem.sizes, [](auto w) { return portable::decode_bytes<decltype(w)>(); });
}

int64_t attention_decode_workspace_bytes(const CudaAttentionProblem& problem) {
  namespace portable = attention::portable;
  const AttentionSizes& sizes = problem.sizes;
  return portable::state_offset(problem) + int64_t{sizes.batch} * sizes.kv_heads * portable::tiles_of(problem) * portable::kRows *
                                               portable::parts_of(problem) * int64_t{sizeof(float2)};
}

void attention_decode(const CudaAttentionProblem& problem, cudaStream_t stream) {
  namespace portable = attention::portable;
  constexpr const char* kName = "attention_decode";
  attention::refuse_if(attention_decode_why_not(problem), kName);
  attention::refuse_if(attention::workspace_why_not(problem, attention_decode_workspace_bytes(problem)), kName);
  const attention::OnDevice device(problem.device);
  attention::refuse_if(attention::stream_why_not(stream), kName);
  const AttentionSizes& sizes = problem.sizes;
  if (sizes.batch == 0 || sizes.heads == 0 || portable::rows_of(problem) == 0) return;
  auto* memory = static_cast<char*>(problem.workspace);
  portable::DecodeArguments args{attention::device_problem(problem),
                                 problem.q,
                                 problem.k,
                                 problem.v,
                                 problem.out,
                                 sizes.head_dim,
                                 sizes.value_dim,
                                 sizes.heads / sizes.kv_heads,
                                 static_cast<int>(portable::tiles_of(problem)),
                                 portable::parts_of(problem),
                                 reinterpret_cast<float*>(memory),
                                 reinterpret_cast<float2*>(memory + portable::state_offset(problem)),
                                 problem.lse,
                                 problem.sinks};
  problem.element == AttentionElement::bf16 ? portable::launch<arch::Element::bf16>(problem, args, stream)
                                            : portable::launch<arch::Element::f16>(problem, args, stream);
}

}  // namespace deckle::kernels::cuda
