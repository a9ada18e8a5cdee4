// With z = scale q kᵀ and its tangent z' = scale (q' kᵀ + q k'ᵀ), the tangents of out and lse in one walk over keys:
//
//   lse' = sum P z'        out' = sum P [(z' - lse') v + v']
//
// 6 products a tile, 3 of which end in scores: their exponentials run under the other two. The sum with v is centred on the mean
// of z' so far in place of lse', which nobody knows before the last tile: moved = sum p [(z' - mean) v + v'], and where the mean
// moves by d, moved -= d sum p v. So nothing large is rounded to 16 bits, or cancels at the end.
#include "deckle/kernels/cuda/attention/tangent_forward.h"

#include <algorithm>

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/pair_work.cuh"

namespace deckle::kernels::cuda {
namespace attention {
namespace {

constexpr const char* kName = "tangent_attention";

/// Writes the tangents of out, through the buffer of q, and of lse.
template <class Shape>
__device__ __forceinline__ void store_tangents(const ForwardArguments& args, PairStorage<Shape>& shared, const ForwardItem& item,
                                               int warpgroup, const float (&out)[Shape::D / 2], float (&moved)[Shape::D / 2],
                                               const RowState& state, const float (&mean)[2], const float (&offset)[2]) {
  const int thread = threadIdx.x % 128, warp = thread / 32;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = quad_sum(state.sum[h]);
    const float factor = sum > 0.0f || sum != sum ? 1.0f / sum : 0.0f;
    const float rest = quad_sum(offset[h]) * factor;
    const int row = item.first_row + 64 * warpgroup + tile::accumulator_row(thread) + 8 * h;
    if (args.lse != nullptr && thread % 4 == 0 && row < item.queries)
      args.lse[item.lse + int64_t{row} * args.problem.heads] = factor == 0.0f ? 0.0f : mean[h] + rest;
#pragma unroll
    for (int i = 0; i < Shape::D / 8; ++i) {
#pragma unroll
      for (int e = 4 * i + 2 * h; e < 4 * i + 2 * h + 2; ++e)
        moved[e] = factor == 0.0f ? 0.0f : factor * fmaf(-rest, out[e], moved[e]);
    }
  }
  arch::named_sync<128>(1 + warpgroup);  // all four warps are done with q
  const auto& buffer = shared.q[0];
  tile::store_accumulators<Shape::element, Shape::D>(buffer.address(), Shape::rows, 64 * warpgroup, thread, moved);
  arch::fence_shared_for_async();
  __syncwarp();
  if (thread % 32 == 0) {
    const int local = 64 * warpgroup + 16 * warp;
    tile::store_rows<Shape::D>(buffer, local, args.out, item.row + local, item.head, item.batch);
    arch::commit_stores();
    arch::wait_stores_read();
    arch::arrive(shared.q_empty);
  }
  __syncwarp();
}

template <class Shape>
__device__ __forceinline__ void consume_tangents(const PairArguments& args, PairStorage<Shape>& shared, int warpgroup) {
  constexpr int N = Shape::keys, D = Shape::D, M = Shape::rows;
  constexpr Element element = Shape::element;
  const DeviceProblem& problem = args.first.problem;
  const float c = problem.scale_log2, scale = problem.scale;
  Ring<1> q;
  Ring<Shape::stages> kv;
  for (;;) {
    arch::wait(shared.q_full, q.parity);
    const ForwardItem& item = shared.item;
    if (arch::uniform(item.head) < 0) return;
    const tile::Operand rows = tile::operand(shared.q[0].address(), M, 64 * warpgroup);
    const tile::Operand moving_rows = tile::operand(shared.q[1].address(), M, 64 * warpgroup);
    float out[D / 2], moved[D / 2], mean[2] = {0, 0}, offset[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < D / 2; ++i) out[i] = moved[i] = 0.0f;
    RowState state;
    state.reset();
    walk_keys<Shape>(args.first, shared, item, warpgroup, kv, [&](int j, bool edge) {
      float p[N / 2], tangent[N / 2], rescale[2];
      uint32_t packed[N / 4], weights[N / 4];
      arch::wait(shared.k_full[kv.slot], kv.parity);
      const tile::Operand k = tile::operand(shared.k[kv.slot][0].address(), N);
      const tile::Operand moving_k = tile::operand(shared.k[kv.slot][1].address(), N);
      const auto scores_under_way = tile::issue([&] { tile::multiply_transposed<element, N, D, M, N, true>(p, rows, k); }, p);
      const auto multiply = [&] {
        tile::multiply_transposed<element, N, D, M, N, true>(tangent, moving_rows, k);
        tile::multiply_transposed<element, N, D, M, N, false>(tangent, rows, moving_k);
      };
      const auto tangents_under_way = tile::issue(multiply, tangent);
      scores_under_way.template wait<1>();
      if (edge) mask_tile<Shape>(problem, item, warpgroup, j, p);
      if (update_maximum<N>(p, state, rescale, c)) {
        scale_rows(out, rescale);
        scale_rows(moved, rescale);
        offset[0] *= rescale[0];
        offset[1] *= rescale[1];
      }
      exponentiate<N>(p, state, c);
      tile::pack_operand<element>(packed, p);
      tangents_under_way.wait();
      arch::release_tile(shared.k_empty[kv.slot]);
      if (edge) {  // of whatever is masked, a NaN too
#pragma unroll
        for (int i = 0; i < N / 2; ++i) tangent[i] = p[i] == 0.0f ? 0.0f : tangent[i];
      }
      // The centre moves to the mean of all tiles so far, and what has been summed with it.
      float total[2] = {offset[0], offset[1]}, shift[2];
#pragma unroll
      for (int i = 0; i < N / 2; ++i) {
        const int h = (i >> 1) & 1;
        total[h] = fmaf(p[i], fmaf(scale, tangent[i], -mean[h]), total[h]);
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float sum = quad_sum(state.sum[h]), all = quad_sum(total[h]);
        shift[h] = sum > 0.0f ? all / sum : 0.0f;
        mean[h] += shift[h];
        offset[h] = fmaf(-shift[h], state.sum[h], total[h]);
      }
#pragma unroll
      for (int i = 0; i < D / 2; ++i) moved[i] = fmaf(-shift[(i >> 1) & 1], out[i], moved[i]);
#pragma unroll
      for (int i = 0; i < N / 2; ++i) p[i] *= fmaf(scale, tangent[i], -mean[(i >> 1) & 1]);
      tile::pack_operand<element>(weights, p);

      arch::wait(shared.v_full[kv.slot], kv.parity);
      tile::settle(out, moved, packed, weights);
      const tile::Operand v = tile::operand(shared.v[kv.slot][0].address(), N);
      const tile::Operand moving_v = tile::operand(shared.v[kv.slot][1].address(), N);
      const auto multiply_values = [&] {
        tile::multiply<element, D, N, false>(moved, weights, v);
        tile::multiply<element, D, N, false>(out, packed, v);
        tile::multiply<element, D, N, false>(moved, packed, moving_v);
      };
      tile::issue(multiply_values, out, moved, packed, weights).wait();
      arch::release_tile(shared.v_empty[kv.slot]);
    });
    store_tangents<Shape>(args.first, shared, item, warpgroup, out, moved, state, mean, offset);
    q.advance();
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) tangent_attention_kernel(const __grid_constant__ PairArguments args) {
  walk_pairs<Shape>(args, [&](PairStorage<Shape>& shared, int warpgroup) { consume_tangents<Shape>(args, shared, warpgroup); });
}

//                                   D   keys stages
using Narrow = PairShape<Element::bf16, 64, 96, 3>;
using Wide = PairShape<Element::bf16, 128, 64, 2>;

template <class Shape>
void launch(const AttentionTangent& arguments, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  PairArguments args{};
  ForwardArguments& first = args.first;
  const auto rows = [&](const AttentionTensor& tensor) {
    return operand_map(problem, tensor, false, sizes.head_dim, Shape::rows);
  };
  const auto keys = [&](const AttentionTensor& tensor, int columns) {
    return operand_map(problem, tensor, true, columns, Shape::keys);
  };
  first.q = rows(problem.q);
  first.k = keys(problem.k, sizes.head_dim);
  first.v = keys(problem.v, sizes.value_dim);
  first.out = operand_map(problem, problem.out, false, sizes.value_dim, 16);
  args.has_q = arguments.q.data != nullptr;
  args.has_k = arguments.k.data != nullptr;
  args.has_v = arguments.v.data != nullptr;
  if (args.has_q) args.q = rows(arguments.q);
  if (args.has_k) args.k = keys(arguments.k, sizes.head_dim);
  if (args.has_v) args.v = keys(arguments.v, sizes.value_dim);
  first.problem = device_problem(problem);
  first.head_group = heads_together(sizes, equal_costs(problem), int64_t{8} * Shape::D);
  first.lse = problem.lse;
  first.split.parts = 1;
  constexpr int kSharedBytes = sizeof(PairStorage<Shape>);
  static_assert(kSharedBytes <= kMaxSharedBytes);
  allow_shared_memory(reinterpret_cast<const void*>(tangent_attention_kernel<Shape>), kSharedBytes);
  first.work = own_work(problem, Side::queries, Shape::rows, problem.workspace, stream);
  const int64_t items = max_tiles(sizes, Side::queries, Shape::rows) * sizes.heads;
  const auto blocks = static_cast<unsigned>(std::min<int64_t>(multiprocessors(), items));
  launch_kernel(kName, tangent_attention_kernel<Shape>, blocks, Shape::threads, kSharedBytes, stream, args);
}

bool serves(const AttentionSizes& sizes, int dim) { return compiled_dims_serve(dim, dim, sizes.head_dim, sizes.value_dim); }

}  // namespace
}  // namespace attention

using namespace attention;

std::string tangent_attention_why_not(const AttentionTangent& arguments) {
  const CudaAttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  if (problem.element != AttentionElement::bf16) return "the element type is float16 (serves bfloat16)";
  if (!serves(sizes, 64) && !serves(sizes, 128))
    return "D = " + std::to_string(sizes.head_dim) + ", Dv = " + std::to_string(sizes.value_dim) +
           " (serves multiples of 8 up to 64/64, 128/128 with as many panels of 64 columns)";
  if (std::string reason = problem_why_not(problem); !reason.empty()) return reason;
  CudaAttentionProblem tangents = problem;
  if (arguments.q.data != nullptr) tangents.q = arguments.q;
  if (arguments.k.data != nullptr) tangents.k = arguments.k;
  if (arguments.v.data != nullptr) tangents.v = arguments.v;
  if (std::string reason = problem_why_not(tangents); !reason.empty()) return "of the tangents: " + reason;
  if (std::string reason = features_why_not(problem); !reason.empty()) return reason;
  if (problem.sinks != nullptr) return "sinks are given (serves none)";
  if (std::string reason = pairs_why_not(sizes); !reason.empty()) return reason;
  return device_why_not(problem.device, 9, 9);
}

int64_t tangent_attention_workspace_bytes(const AttentionTangent& arguments) {
  return work_list_bytes(arguments.problem.sizes, Side::queries, Narrow::rows);
}

void tangent_attention(const AttentionTangent& arguments, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  refuse_if(tangent_attention_why_not(arguments), kName);
  refuse_if(workspace_why_not(problem, tangent_attention_workspace_bytes(arguments)), kName);
  const OnDevice device(problem.device);
  refuse_if(stream_why_not(stream), kName);
  const AttentionSizes& sizes = problem.sizes;
  if (sizes.heads == 0 || sizes.batch == 0 || sizes.query_rows == 0) return;
  serves(sizes, 64) ? launch<Narrow>(arguments, stream) : launch<Wide>(arguments, stream);
}

}  // namespace deckle::kernels::cuda
