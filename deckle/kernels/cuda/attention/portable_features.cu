// d sink_h = - sum over rows of exp(sink_h - lse) (dO . O - dLSE): a row's sink has the probability exp(sink_h - lse), and no
// value. Memory bound, 4 Dv bytes a row and head. Rows are summed in kParts parts, parts in their order.
#include "deckle/kernels/cuda/attention/portable_features.h"

#include <algorithm>

#include "deckle/kernels/cuda/arch/warp.cuh"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_scores.cuh"
#include "deckle/kernels/cuda/attention/problem.cuh"
#include "deckle/kernels/cuda/attention/softmax.cuh"

namespace deckle::kernels::cuda::attention::portable {
namespace {

constexpr int64_t kClearingBlocks = 4096;
constexpr int kClearingThreads = 256;

constexpr int kParts = 128, kWarps = 8, kAtOnce = 4;

__global__ void make_key(const uint64_t* standing, uint64_t offset, uint32_t* key) {
  const uint64_t at = standing[1] + offset;
  uint32_t c[4] = {static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), AttentionDropout::kKeyDomain, 0};
  philox::rounds<10>(c, static_cast<uint32_t>(standing[0]), static_cast<uint32_t>(standing[0] >> 32));
  key[0] = c[0];
  key[1] = c[1];
}

// Where out is 0, as in all of a row that attends no key, dO does not count, whatever it holds.
__device__ __forceinline__ float dot(Element element, uint32_t out, uint32_t grad) {
  const float2 o = arch::unpack(element, out), g = arch::unpack(element, grad);
  return (o.x != 0.0f ? o.x * g.x : 0.0f) + (o.y != 0.0f ? o.y * g.y : 0.0f);
}

// Part blockIdx.x of the rows of head blockIdx.y, each row by a warp, kAtOnce of them side by side.
__global__ void __launch_bounds__(32 * kWarps) sum_rows(const AttentionBackward a, float* sums) {
  const CudaAttentionProblem& p = a.problem;
  const AttentionSizes& sizes = p.sizes;
  const bool ragged = sizes.query_offsets != nullptr;
  const Element element = p.element == AttentionElement::bf16 ? Element::bf16 : Element::f16;
  const int head = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t all = ragged ? row_span(sizes.query_offsets, nullptr, sizes.batch - 1, static_cast<int>(sizes.query_rows)).end
                             : sizes.query_rows * sizes.batch;
  const int64_t end = all * (blockIdx.x + 1) / kParts;
  const float sink = p.sinks[head];
  float sum = 0.0f;
  for (int64_t first = all * blockIdx.x / kParts + warp * kAtOnce; first < end; first += kWarps * kAtOnce) {
    uint4 out[kAtOnce] = {}, grad[kAtOnce] = {};
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int64_t row = first + i, batch = ragged ? 0 : row / sizes.query_rows, within = row - batch * sizes.query_rows;
      if (row >= end || 8 * lane >= sizes.value_dim) continue;
      const auto at = [&](const AttentionTensor& t) {
        return *reinterpret_cast<const uint4*>(static_cast<const uint16_t*>(t.data) + batch * t.batch_stride +
                                               within * t.row_stride + head * t.head_stride + 8 * lane);
      };
      out[i] = at(p.out);
      grad[i] = at(a.grad_out);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      float delta = dot(element, out[i].x, grad[i].x) + dot(element, out[i].y, grad[i].y) + dot(element, out[i].z, grad[i].z) +
                    dot(element, out[i].w, grad[i].w);
#pragma unroll
      for (int step = 16; step > 0; step /= 2) delta += __shfl_xor_sync(~0u, delta, step);
      const int64_t at = (first + i) * sizes.heads + head;
      if (first + i >= end || sink == kMinusInfinity) continue;
      if (a.grad_lse != nullptr) delta -= a.grad_lse[at];
      sum -= arch::exp2((sink - p.lse[at]) * 1.4426950408889634f) * delta;
    }
  }
  __shared__ float of_warp[kWarps];
  if (lane == 0) of_warp[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kWarps; ++i) sum += of_warp[i];
  sums[head * kParts + blockIdx.x] = sum;
}

// Of [heads, parts, columns], head blockIdx.y: one column by a block, its parts side by side, or several by a thread each.
__global__ void __launch_bounds__(kParts) sum_parts(const float* sums, float* result, int64_t parts, int columns) {
  const bool alone = columns == 1;
  const int column = alone ? 0 : static_cast<int>(blockIdx.x * kParts + threadIdx.x), step = alone ? kParts : 1;
  double sum = 0;
  for (int64_t i = alone ? threadIdx.x : 0; i < parts && column < columns; i += step)
    sum += sums[(blockIdx.y * parts + i) * columns + column];
  float* const to = result + int64_t{blockIdx.y} * columns + column;
  if (!alone) {
    if (column < columns) *to = static_cast<float>(sum);
    return;
  }
  __shared__ double of_thread[kParts];
  of_thread[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  for (int i = 1; i < kParts; ++i) sum += of_thread[i];
  *to = static_cast<float>(sum);
}

// Rows to be cleared: of so many heads and, with offsets, the spare ones of each sequence, else all.
struct ClearedRows {
  AttentionTensor of[2];  // the second one may be none
  int columns[2];
  int heads;
  const int64_t *offsets, *lengths;
  int rows;
};

// Those of sequence blockIdx.x, 16 bytes a thread and step, by as many threads side by side as a row of a head has use for.
__global__ void __launch_bounds__(kClearingThreads) clear_rows(const ClearedRows cleared) {
  const bool spare = cleared.offsets != nullptr;
  const int sequence = static_cast<int>(blockIdx.x);
  int64_t first = 0, count = cleared.rows;
  if (spare) {
    first = row_span(cleared.offsets, cleared.lengths, sequence, cleared.rows).end;
    count = row_span(cleared.offsets, nullptr, sequence, cleared.rows).end - first;
  }
  for (int t = 0; t < 2; ++t) {
    const AttentionTensor& of = cleared.of[t];
    if (of.data == nullptr) continue;
    const int chunks = cleared.columns[t] / 8, thread = static_cast<int>(threadIdx.x);
    int wide = 1;
    while (wide < chunks && wide < kClearingThreads) wide *= 2;
    auto* const data = static_cast<uint16_t*>(of.data) + (spare ? 0 : sequence * of.batch_stride);
    for (int64_t i = int64_t{blockIdx.y} * (kClearingThreads / wide) + thread / wide; i < count * cleared.heads;
         i += int64_t{gridDim.y} * (kClearingThreads / wide)) {
      const int64_t row = i / cleared.heads, head = i - row * cleared.heads;
      auto* const to = reinterpret_cast<uint4*>(data + (first + row) * of.row_stride + head * of.head_stride);
      for (int chunk = thread % wide; chunk < chunks; chunk += wide) to[chunk] = make_uint4(0, 0, 0, 0);
    }
  }
}

}  // namespace

void make_dropout_key(const AttentionDropout& dropout, uint32_t* key, cudaStream_t stream) {
  launch_kernel("attention: key of dropout", make_key, 1, 1, 0, stream, dropout.standing, dropout.offset, key);
}

int64_t sink_gradient_bytes(const CudaAttentionProblem& problem) {
  return problem.sinks == nullptr ? 0 : int64_t{sizeof(float)} * problem.sizes.heads * kParts;
}

void sink_gradients(const AttentionBackward& arguments, void* memory, cudaStream_t stream) {
  if (arguments.grad_sinks == nullptr || arguments.problem.sinks == nullptr) return;
  const AttentionSizes& sizes = arguments.problem.sizes;
  auto* sums = static_cast<float*>(memory);
  if (sizes.batch == 0) {
    return check(cudaMemsetAsync(arguments.grad_sinks, 0, sizeof(float) * sizes.heads, stream), "attention: gradients of sinks");
  }
  launch_kernel("attention: gradients of sinks", sum_rows, dim3(kParts, sizes.heads), 32 * kWarps, 0, stream, arguments, sums);
  add_parts(sums, arguments.grad_sinks, sizes.heads, kParts, stream);
}

void add_parts(const float* sums, float* result, int heads, int64_t parts, cudaStream_t stream, int columns) {
  const int blocks = columns == 1 ? 1 : (columns + kParts - 1) / kParts;
  launch_kernel("attention: sums of heads", sum_parts, dim3(blocks, heads), kParts, 0, stream, sums, result, parts, columns);
}

ScoreFeatures score_features(const CudaAttentionProblem& problem) {
  const AttentionDropout& d = problem.dropout;
  ScoreFeatures features{};
  features.scale = problem.scale;
  features.cap = problem.soft_cap;
  features.inverse_cap = problem.soft_cap > 0 ? 1.0f / problem.soft_cap : 0.0f;
  features.slopes = problem.slopes;
  features.threshold = d.threshold;
  features.complement = static_cast<uint32_t>((256 - d.threshold) & 0xff) * 0x01010101u;
  features.keep_factor = d.threshold == 256 ? 0.0f : 256.0f / static_cast<float>(256 - d.threshold);
  const auto key = d.key();
  features.key[0] = key[0];
  features.key[1] = key[1];
  features.made_key = problem.dropout_key;
  features.first_sequence = static_cast<uint32_t>(d.first_sequence);
  features.first_head = static_cast<uint32_t>(d.first_head);
  features.first_row_block = static_cast<uint32_t>(d.first_row / 16);
  features.first_column_block = static_cast<uint32_t>(d.first_column / 16);
  features.bias = problem.bias;
  features.forbidden = problem.forbidden;
  features.bias_before_cap = problem.bias_before_cap;
  features.table = problem.table;
  features.reach = static_cast<int>(problem.table_reach);
  features.ranges = problem.ranges;
  return features;
}

void clear_plane(const CudaAttentionPlane& plane, int heads, int sequences, cudaStream_t stream) {
  const int64_t rows = int64_t{plane.rows} * heads;
  if (rows * sequences == 0 || plane.columns == 0) return;
  const ClearedRows cleared{.of = {{plane.data, plane.sequence_stride, plane.row_stride, plane.head_stride}},
                            .columns = {plane.columns},
                            .heads = heads,
                            .rows = plane.rows};
  const int64_t lanes = std::clamp<int64_t>(kClearingBlocks / sequences, 1, rows);
  launch_kernel("attention: zeros of a plane", clear_rows, dim3(sequences, static_cast<unsigned>(lanes)), kClearingThreads, 0,
                stream, cleared);
}

void clear_spare_keys(const AttentionBackward& arguments, cudaStream_t stream) {
  const AttentionSizes& sizes = arguments.problem.sizes;
  if (sizes.key_lengths == nullptr || sizes.key_rows == 0) return;
  constexpr int kLanes = 16;
  const ClearedRows cleared{.of = {arguments.grad_k, arguments.grad_v},
                            .columns = {sizes.head_dim, sizes.value_dim},
                            .heads = sizes.kv_heads,
                            .offsets = sizes.key_offsets,
                            .lengths = sizes.key_lengths,
                            .rows = static_cast<int>(sizes.key_rows)};
  launch_kernel("attention: spare keys", clear_rows, dim3(sizes.batch, kLanes), kClearingThreads, 0, stream, cleared);
}

}  // namespace deckle::kernels::cuda::attention::portable
