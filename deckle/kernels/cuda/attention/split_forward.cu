// float32 by pairs of float16. With q = qh + ql and so on, each 2^-12 of the one before:
//
//   scores = ql khᵀ + qh klᵀ + qh khᵀ       p = 2^(c scores - c maximum)       out += pl vh + ph vl + ph vh
//
// What is left out is 2^-24 of a product. The tensor cores add in float32 but cut off what does not fit: small products come
// first, and the products with v of each tile are summed by themselves and added to out in registers, so that cuts do not add up
// over the keys.
//
// Three times the products of the 16-bit forward; kernels before it find the largest numbers and write parts (split_parts.cuh).
#include "deckle/kernels/cuda/attention/split_forward.h"

#include <algorithm>

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/pair_work.cuh"
#include "deckle/kernels/cuda/attention/split_parts.cuh"

namespace deckle::kernels::cuda {
namespace attention {
namespace {

constexpr const char* kName = "split_attention_forward";

/// Weights up to 2^8 (kRescaleThreshold) are multiplied with 2^7, for their lower parts.
constexpr float kWeightBits = 7.0f;

struct SplitArguments {
  PairArguments pairs;
  const int *q_peaks, *k_peaks, *v_peaks;
  AttentionTensor out;  // float32
  int value_dim;
};

/// A row's weights are 2^(c scores + shift). Sums and outputs are brought from one shift to the next by the difference of the two
/// as they are, so that roundings of c maximum do not tell tiles apart.
struct SplitRow {
  RowState state;
  float shift[2] = {0, 0}, sum[2] = {0, 0};

  template <int N, int count>
  __device__ __forceinline__ void update(const float (&scores)[N / 2], float c, float (&out)[count]) {
    float rescale[2];
    if (!update_maximum<N>(scores, state, rescale, c)) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float before = shift[h];
      shift[h] = state.maximum[h] == kMinusInfinity ? 0.0f : fmaf(-state.maximum[h], c, kWeightBits);
      rescale[h] = rescale[h] == 0.0f ? 0.0f : arch::exp2(shift[h] - before);
      sum[h] *= rescale[h];
    }
    scale_rows(out, rescale);
  }
};

/// The logarithm of a sum that belongs to weights of 2^(scores - shift), to the last bits: it is in every weight of the backward,
/// and the approximate one of a sum near 2^16 is off by an ulp of 16.
__device__ __forceinline__ float log_sum_exp(const RowEnd& end, float shift) {
  constexpr float kLn2 = 0.6931471805599453f, kWeights = 1 << static_cast<int>(kWeightBits);
  return end.factor > 0.0f ? (shift + kWeightBits - log2f(end.factor * kWeights)) * kLn2 : end.lse;
}

template <class Shape>
__device__ __forceinline__ void store_rows(const SplitArguments& args, const ForwardItem& item, int warpgroup,
                                           const float (&out)[Shape::D / 2], const SplitRow& rows, float value_scale) {
  const ForwardArguments& first = args.pairs.first;
  const int thread = threadIdx.x % 128;
  const float* sink = first.sinks != nullptr ? first.sinks + item.head : nullptr;
  float* data = static_cast<float*>(args.out.data);
  const bool pairs = (reinterpret_cast<uintptr_t>(data) % 8 | args.out.batch_stride % 2 | args.out.row_stride % 2 |
                      args.out.head_stride % 2 | args.value_dim % 2) == 0;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const RowEnd end = end_row(-rows.shift[h], quad_sum(rows.sum[h]), 1.0f, sink);
    const int row = item.first_row + 64 * warpgroup + tile::accumulator_row(thread) + 8 * h;
    if (row >= item.queries) continue;
    if (first.lse != nullptr && thread % 4 == 0)
      first.lse[item.lse + int64_t{row} * first.problem.heads] = log_sum_exp(end, -rows.shift[h]);
    const float factor = end.factor * value_scale;
    const bool ragged = first.problem.queries.offsets != nullptr;
    const int64_t start = ragged ? first.problem.queries[item.sequence].start : 0;
    float* to = data + (ragged ? 0 : item.sequence * args.out.batch_stride) + (start + row) * args.out.row_stride +
                item.head * args.out.head_stride;
#pragma unroll
    for (int i = 0; i < Shape::D / 8; ++i) {
      const int column = 8 * i + tile::accumulator_column(thread);
      const float x = factor == 0.0f ? 0.0f : factor * out[4 * i + 2 * h],
                  y = factor == 0.0f ? 0.0f : factor * out[4 * i + 2 * h + 1];
      if (pairs) {
        if (column < args.value_dim) *reinterpret_cast<float2*>(to + column) = {x, y};
      } else {
        if (column < args.value_dim) to[column] = x;
        if (column + 1 < args.value_dim) to[column + 1] = y;
      }
    }
  }
}

template <class Shape>
__device__ __forceinline__ void consume_split(const SplitArguments& args, PairStorage<Shape>& shared, int warpgroup) {
  constexpr int N = Shape::keys, D = Shape::D, M = Shape::rows;
  constexpr Element element = Shape::element;
  const DeviceProblem& problem = args.pairs.first.problem;
  Ring<1> q;
  Ring<Shape::stages> kv;
  for (;;) {
    arch::wait(shared.q_full, q.parity);
    const ForwardItem& item = shared.item;
    if (arch::uniform(item.head) < 0) return;
    const int q_exponent = part_exponent(args.q_peaks[item.sequence * problem.heads + item.head]);
    const int64_t kv_index = item.sequence * problem.kv_heads + item.kv_head;
    const float c = fmaxf(ldexpf(problem.scale_log2, -(q_exponent + part_exponent(args.k_peaks[kv_index]))), 1e-30f);
    const float value_scale = power_of_two(-part_exponent(args.v_peaks[kv_index]));
    const tile::Operand q_high = tile::operand(shared.q[0].address(), M, 64 * warpgroup);
    const tile::Operand q_low = tile::operand(shared.q[1].address(), M, 64 * warpgroup);
    float out[D / 2];
#pragma unroll
    for (float& x : out) x = 0.0f;
    SplitRow rows;
    rows.state.reset();
    walk_keys<Shape>(args.pairs.first, shared, item, warpgroup, kv, [&](int j, bool edge) {
      float scores[N / 2];
      uint32_t high[N / 4], low[N / 4];
      arch::wait(shared.k_full[kv.slot], kv.parity);
      const tile::Operand k_high = tile::operand(shared.k[kv.slot][0].address(), N);
      const tile::Operand k_low = tile::operand(shared.k[kv.slot][1].address(), N);
      const auto multiply = [&] {
        tile::multiply_transposed<element, N, D, M, N, true>(scores, q_low, k_high);
        tile::multiply_transposed<element, N, D, M, N, false>(scores, q_high, k_low);
        tile::multiply_transposed<element, N, D, M, N, false>(scores, q_high, k_high);
      };
      tile::issue(multiply, scores).wait();
      arch::release_tile(shared.k_empty[kv.slot]);
      if (edge) mask_tile<Shape>(problem, item, warpgroup, j, scores);
      rows.template update<N>(scores, c, out);
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        scores[i] = arch::exp2(fmaf(scores[i], c, rows.shift[(i >> 1) & 1]));
        rows.sum[(i >> 1) & 1] += scores[i];
      }
      split_tile<N>(scores, high, low);

      float sums[D / 2];
      arch::wait(shared.v_full[kv.slot], kv.parity);
      tile::settle(high, low);
      const tile::Operand v_high = tile::operand(shared.v[kv.slot][0].address(), N);
      const tile::Operand v_low = tile::operand(shared.v[kv.slot][1].address(), N);
      const auto multiply_values = [&] {
        tile::multiply<element, D, N, true>(sums, low, v_high);
        tile::multiply<element, D, N, false>(sums, high, v_low);
        tile::multiply<element, D, N, false>(sums, high, v_high);
      };
      tile::issue(multiply_values, sums, high, low).wait();
      arch::release_tile(shared.v_empty[kv.slot]);
#pragma unroll
      for (int i = 0; i < D / 2; ++i) out[i] += sums[i];
    });
    store_rows<Shape>(args, item, warpgroup, out, rows, value_scale);
    arch::release(shared.q_empty);
    q.advance();
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) split_attention_forward_kernel(const __grid_constant__ SplitArguments args) {
  walk_pairs<Shape>(args.pairs,
                    [&](PairStorage<Shape>& shared, int warpgroup) { consume_split<Shape>(args, shared, warpgroup); });
}

//                                                 D   keys stages
using Narrow = PairShape<Element::f16, 64, 128, 2>;
using Wide = PairShape<Element::f16, 128, 64, 2>;

/// Where everything lies in the workspace, in bytes from its start: the counter or list of the work, peaks, parts.
struct SplitWorkspace {
  explicit SplitWorkspace(const AttentionSizes& sizes) {
    width = std::max(sizes.head_dim, sizes.value_dim) <= 64 ? 64 : 128;
    const int64_t batches = sizes.ragged() ? 1 : sizes.batch;
    q_part = batches * sizes.query_rows * sizes.heads * width;
    kv_part = batches * sizes.key_rows * sizes.kv_heads * width;
    const auto up = [](int64_t bytes) { return (bytes + 255) / 256 * 256; };
    peaks = up(work_list_bytes(sizes, Side::queries, Narrow::rows));
    found = {int64_t{sizes.batch} * (sizes.heads + 2 * sizes.kv_heads), width};
    q = peaks + up(found.bytes());
    k = q + up(4 * q_part);
    v = k + up(4 * kv_part);
    bytes = v + up(4 * kv_part);
  }
  int width;
  FoundSpace found;
  int64_t q_part, kv_part, peaks, q, k, v, bytes;
};

/// Powers of two between the largest rows of v and others: weights have 2^-33 of the largest.
constexpr int kValueRange = 9, kAnyRange = 256;

template <class Shape>
const int* launch(const CudaAttentionProblem& given, cudaStream_t stream) {
  const AttentionSizes& sizes = given.sizes;
  const SplitWorkspace workspace(sizes);
  char* memory = static_cast<char*>(given.workspace);
  const DeviceProblem device = device_problem(given);
  int* peaks = reinterpret_cast<int*>(memory + workspace.peaks);
  const auto side = [&](const AttentionTensor& tensor, bool key_side, int columns, int64_t parts, int* of, int range) {
    const float* data = static_cast<const float*>(tensor.data);
    return SplitSide{data,
                     tensor.batch_stride,
                     tensor.row_stride,
                     tensor.head_stride,
                     key_side ? device.keys : device.queries,
                     key_side ? sizes.kv_heads : sizes.heads,
                     columns,
                     of,
                     workspace.found.depths(of),
                     range,
                     range != kAnyRange ? workspace.found.columns(peaks, of) : nullptr,
                     reinterpret_cast<__half*>(memory + parts),
                     key_side ? workspace.kv_part : workspace.q_part,
                     nullptr};
  };
  int* const k_peaks = peaks + int64_t{sizes.batch} * sizes.heads;
  int* const v_peaks = k_peaks + int64_t{sizes.batch} * sizes.kv_heads;
  SplitSides sides{{}, 3, sizes.batch, workspace.width, 1, given.scale, workspace.found.unsuited(peaks)};
  sides.side[0] = side(given.q, false, sizes.head_dim, workspace.q, peaks, kAnyRange);
  sides.side[1] = side(given.k, true, sizes.head_dim, workspace.k, k_peaks, kAnyRange);
  sides.side[2] = side(given.v, true, sizes.value_dim, workspace.v, v_peaks, kValueRange);

  // The parts as 16-bit tensors.
  CudaAttentionProblem problem = given;
  problem.sizes.head_dim = problem.sizes.value_dim = Shape::D;
  const auto part = [&](int64_t at, int64_t elements, bool key_side, int box_rows) {
    const int64_t heads = key_side ? sizes.kv_heads : sizes.heads, rows = key_side ? sizes.key_rows : sizes.query_rows;
    const AttentionTensor tensor{memory + at + 2 * elements, rows * heads * Shape::D, heads * Shape::D, Shape::D};
    return operand_map(problem, tensor, key_side, Shape::D, box_rows);
  };
  SplitArguments args{};
  ForwardArguments& first = args.pairs.first;
  first.q = part(workspace.q, 0, false, Shape::rows);
  first.k = part(workspace.k, 0, true, Shape::keys);
  first.v = part(workspace.v, 0, true, Shape::keys);
  args.pairs.q = part(workspace.q, workspace.q_part, false, Shape::rows);
  args.pairs.k = part(workspace.k, workspace.kv_part, true, Shape::keys);
  args.pairs.v = part(workspace.v, workspace.kv_part, true, Shape::keys);
  args.pairs.has_q = args.pairs.has_k = args.pairs.has_v = true;
  first.problem = device;
  first.head_group = heads_together(problem.sizes, equal_costs(problem), int64_t{8} * Shape::D);
  first.lse = given.lse;
  first.sinks = given.sinks;
  first.split.parts = 1;
  args.q_peaks = peaks;
  args.k_peaks = k_peaks;
  args.v_peaks = v_peaks;
  args.out = given.out;
  args.value_dim = sizes.value_dim;
  constexpr int kSharedBytes = sizeof(PairStorage<Shape>);
  static_assert(kSharedBytes <= kMaxSharedBytes);
  allow_shared_memory(reinterpret_cast<const void*>(split_attention_forward_kernel<Shape>), kSharedBytes);

  check(cudaMemsetAsync(peaks, 0, workspace.found.bytes(), stream), kName);
  split_operands(sides, stream);
  first.work = own_work(problem, Side::queries, Shape::rows, memory, stream);
  const int64_t items = max_tiles(sizes, Side::queries, Shape::rows) * sizes.heads;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(multiprocessors(), items));
  launch_kernel(kName, split_attention_forward_kernel<Shape>, blocks, Shape::threads, kSharedBytes, stream, args);
  return sides.unsuited;
}

}  // namespace
}  // namespace attention

using namespace attention;

std::string split_attention_forward_why_not(const CudaAttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  if (sizes.head_dim < 1 || sizes.value_dim < 1 || std::max(sizes.head_dim, sizes.value_dim) > 128)
    return "D = " + std::to_string(sizes.head_dim) + ", Dv = " + std::to_string(sizes.value_dim) + " (serves 1 to 128)";
  CudaAttentionProblem others = problem;  // no copy engine reads these tensors
  alignas(16) static char anywhere[16];
  others.q = others.k = others.v = others.out = {anywhere, 8, 8, 8};
  if (std::string reason = problem_why_not(others); !reason.empty()) return reason;
  if (std::string reason = features_why_not(problem); !reason.empty()) return reason;
  if (std::string reason = pairs_why_not(sizes); !reason.empty()) return reason;
  return device_why_not(problem.device, 9, 9);
}

int64_t split_attention_forward_workspace_bytes(const CudaAttentionProblem& problem) {
  return SplitWorkspace(problem.sizes).bytes;
}

const int* split_attention_forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  refuse_if(split_attention_forward_why_not(problem), kName);
  refuse_if(workspace_why_not(problem, split_attention_forward_workspace_bytes(problem)), kName);
  const OnDevice device(problem.device);
  refuse_if(stream_why_not(stream), kName);
  const AttentionSizes& sizes = problem.sizes;
  if (sizes.heads == 0 || sizes.batch == 0 || sizes.query_rows == 0) return nullptr;
  return SplitWorkspace(sizes).width == 64 ? launch<Narrow>(problem, stream) : launch<Wide>(problem, stream);
}

}  // namespace deckle::kernels::cuda
