// Each gradient's tangent by a kernel of its own, a walk of pair_gradients.cuh. With z = scale q kᵀ, z' its tangent and lse'
// that of lse:
//
//   P' = P (z' - lse')      dS = P (dP - delta)      dS' = P [(z' - lse')(dP - delta) + dP' - delta']
//
//   dQ' = scale (dS' k + dS k')      dK' = scale (dS'ᵀ q + dSᵀ q')      dV' = P'ᵀ dO + Pᵀ dO'
//
// 8, 8 and 5 products; lse' and delta' come from forward mode (tangent_forward, 6 more) and a kernel of row statistics.
#include "deckle/kernels/cuda/attention/second_backward.h"

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/pair_gradients.cuh"

namespace deckle::kernels::cuda {
namespace attention {
namespace {

constexpr const char* kName = "second_attention";

struct SecondArguments {
  GradientArguments walk;
  CUtensorMap gradient;  // boxes of 16 rows
};

/// Leaves through the first owned tile.
template <class Shape>
__device__ __forceinline__ void store_second(const SecondArguments& args, GradientStorage<Shape>& shared,
                                             const GradientItem& item, int warpgroup, float (&out)[Shape::D / 2]) {
  const int thread = threadIdx.x % 128;
  const float scale = Shape::role == Role::of_v ? 1.0f : args.walk.problem.scale;
#pragma unroll
  for (float& x : out) x *= scale;
  arch::named_sync<128>(1 + warpgroup);  // all four warps are done with it
  const auto& buffer = shared.owned[0][0];
  tile::store_accumulators<Shape::element, Shape::D>(buffer.address(), Shape::rows, 64 * warpgroup, thread, out);
  arch::fence_shared_for_async();
  __syncwarp();
  if (thread % 32 == 0) {
    const int local = 64 * warpgroup + 16 * (thread / 32);
    tile::store_rows<Shape::D>(buffer, local, args.gradient, item.row + local, item.head, item.batch);
    arch::commit_stores();
    arch::wait_stores_read();
    arch::arrive(shared.owned_empty);
  }
  __syncwarp();
}

template <class Shape>
__device__ __forceinline__ void consume_second(const SecondArguments& args, GradientStorage<Shape>& shared, int warpgroup) {
  constexpr int N = Shape::walked, D = Shape::D, M = Shape::rows, kY = Shape::twice ? N / 2 : 1;
  constexpr Element element = Shape::element;
  const DeviceProblem& problem = args.walk.problem;
  const int thread = threadIdx.x % 128, group = problem.heads / problem.kv_heads;
  const float c = problem.scale_log2 * problem.scale_sign, scale = problem.scale;
  Ring<1> owned;
  Ring<Shape::stages> ring;
  for (;;) {
    arch::wait(shared.owned_full, owned.parity);
    const GradientItem& item = shared.item;
    if (arch::uniform(item.head) < 0) return;
    const OwnedRows rows = owned_rows<Shape>(problem, item, warpgroup);
    float out[D / 2];
#pragma unroll
    for (float& x : out) x = 0.0f;
    for (int g = 0; g < walked_heads<Shape>(problem); ++g) {
      const int head = Shape::of_queries ? item.head : item.head * group + g;
      const auto statistics_of = accumulator_statistics(args.walk, shared, ring, head, rows.row);
#pragma unroll 1
      for (int j = arch::uniform(item.tile_begin); j < arch::uniform(item.tile_end); ++j) {
        float x[N / 2], x_tangent[N / 2], y[kY], y_tangent[kY];
        uint32_t weights[N / 4], tangents[N / 4];
        arch::wait(shared.full[ring.slot], ring.parity);
        const auto of_owned = [&](int i, int part) { return tile::operand(shared.owned[i][part].address(), M, 64 * warpgroup); };
        const auto of_walked = [&](int i, int part) { return tile::operand(shared.walked[ring.slot][i][part].address(), N); };
        const auto multiply_scores = [&] {
          tile::multiply_transposed<element, N, D, M, N, true>(x, of_owned(0, 0), of_walked(0, 0));
          tile::multiply_transposed<element, N, D, M, N, true>(x_tangent, of_owned(0, 1), of_walked(0, 0));
          tile::multiply_transposed<element, N, D, M, N, false>(x_tangent, of_owned(0, 0), of_walked(0, 1));
        };
        const auto scores_under_way = tile::issue(multiply_scores, x, x_tangent);
        const auto exponentials = [&] {
          if (rows.edge(j)) mask_scores<N>(x, rows.of, j * N, thread);
#pragma unroll
          for (int i = 0; i < N / 2; ++i) {
            const RowStatistics row = statistics_of(i);
            const bool masked = x[i] == kMinusInfinity;
            x[i] = masked ? 0.0f : arch::exp2(fmaf(x[i], c, -row.lse2));
            x_tangent[i] = masked ? 0.0f : fmaf(x_tangent[i], scale, -row.mean);
          }
        };
        if constexpr (Shape::twice) {
          const auto multiply_gradients = [&] {
            tile::multiply_transposed<element, N, D, M, N, true>(y, of_owned(1, 0), of_walked(1, 0));
            tile::multiply_transposed<element, N, D, M, N, true>(y_tangent, of_owned(1, 1), of_walked(1, 0));
            tile::multiply_transposed<element, N, D, M, N, false>(y_tangent, of_owned(1, 0), of_walked(1, 1));
          };
          const auto gradients_under_way = tile::issue(multiply_gradients, y, y_tangent);
          scores_under_way.template wait<1>();
          exponentials();
          gradients_under_way.wait();
#pragma unroll
          for (int i = 0; i < N / 2; ++i) {
            const RowStatistics row = statistics_of(i);
            const float gradient = y[i] - row.delta;
            x_tangent[i] = x[i] == 0.0f ? 0.0f : x[i] * fmaf(x_tangent[i], gradient, y_tangent[i] - row.delta_tangent);
            x[i] = x[i] == 0.0f ? 0.0f : x[i] * gradient;
          }
        } else {
          scores_under_way.wait();
          exponentials();
#pragma unroll
          for (int i = 0; i < N / 2; ++i) x_tangent[i] *= x[i];
        }
        tile::pack_operand<element>(weights, x);
        tile::pack_operand<element>(tangents, x_tangent);
        tile::settle(out, weights, tangents);
        constexpr int kWith = Shape::role == Role::of_v ? 1 : 0;
        const auto multiply = [&] {
          tile::multiply<element, D, N, false>(out, tangents, of_walked(kWith, 0));
          tile::multiply<element, D, N, false>(out, weights, of_walked(kWith, 1));
        };
        tile::issue(multiply, out, weights, tangents).wait();
        arch::release_tile(shared.empty[ring.slot]);
        ring.advance();
      }
    }
    store_second<Shape>(args, shared, item, warpgroup, out);
    owned.advance();
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::threads, 1) second_gradients(const __grid_constant__ SecondArguments args) {
  walk_gradient<Shape>(args.walk,
                       [&](GradientStorage<Shape>& shared, int warpgroup) { consume_second<Shape>(args, shared, warpgroup); });
}

constexpr int kMostWalked = 64;

/// Where everything lies in the workspace, in bytes from its start: the work of queries, of keys twice, statistics.
struct SecondSpace {
  explicit SecondSpace(const AttentionSizes& sizes) {
    const auto up = [](int64_t size) { return (size + 255) / 256 * 256; };
    q_rows = sizes.query_rows * (sizes.ragged() ? 1 : sizes.batch);
    keys = up(work_list_bytes(sizes, Side::queries, 128));
    values = keys + up(work_list_bytes(sizes, Side::keys, 128));
    statistics = values + up(work_list_bytes(sizes, Side::keys, 128));
    bytes = statistics + up((q_rows * sizes.heads + kMostWalked) * int64_t{sizeof(RowStatistics)});
  }
  int64_t q_rows, keys, values, statistics, bytes;
};

class SecondPass {
 public:
  SecondPass(const AttentionSecond& given, cudaStream_t stream) : given_(given), stream_(stream) {
    common_.walk.problem = device_problem(given.problem);
    common_.walk.statistics = reinterpret_cast<const RowStatistics*>(memory_ + space_.statistics);
    common_.walk.statistics_rows = space_.q_rows;
  }

  void run() {
    pair_statistics({given_.problem.out, given_.out, given_.grad_out, given_.grad_out_tangent, given_.problem.lse,
                     given_.lse_tangent, given_.grad_lse, given_.grad_lse_tangent, space_.q_rows, sizes_.query_rows, sizes_.heads,
                     sizes_.value_dim, true, reinterpret_cast<RowStatistics*>(memory_ + space_.statistics)},
                    stream_);
    if (compiled_dims_serve(64, 64, sizes_.head_dim, sizes_.value_dim)) {
      gradient<GradientShape<Element::bf16, Role::of_q, 64, 64, 3>>(given_.grad_q, sizes_.head_dim, 0);
      gradient<GradientShape<Element::bf16, Role::of_k, 64, 64, 3>>(given_.grad_k, sizes_.head_dim, space_.keys);
      gradient<GradientShape<Element::bf16, Role::of_v, 64, 64, 4>>(given_.grad_v, sizes_.value_dim, space_.values);
    } else {
      gradient<GradientShape<Element::bf16, Role::of_q, 128, 48, 2>>(given_.grad_q, sizes_.head_dim, 0);
      gradient<GradientShape<Element::bf16, Role::of_k, 128, 48, 2>>(given_.grad_k, sizes_.head_dim, space_.keys);
      gradient<GradientShape<Element::bf16, Role::of_v, 128, 64, 2>>(given_.grad_v, sizes_.value_dim, space_.values);
    }
  }

 private:
  template <class Shape>
  void gradient(const AttentionTensor& to, int columns, int64_t work) {
    const CudaAttentionProblem& problem = given_.problem;
    if (to.data == nullptr || (Shape::of_queries ? sizes_.query_rows : sizes_.key_rows) == 0) return;
    SecondArguments args = common_;
    GradientArguments& walk = args.walk;
    const int of_queries = Shape::of_queries ? Shape::rows : Shape::walked,
              of_keys = Shape::of_queries ? Shape::walked : Shape::rows;
    const auto set = [&](bool key_side, int i, const AttentionTensor& tensor, const AttentionTensor& tangent, int dim) {
      const bool owned = key_side != Shape::of_queries;
      auto& maps = owned ? walk.owned[i] : walk.walked[i];
      maps[0] = operand_map(problem, tensor, key_side, dim, key_side ? of_keys : of_queries);
      (owned ? walk.has_owned : walk.has_walked)[i] = tangent.data != nullptr;
      if (tangent.data != nullptr) maps[1] = operand_map(problem, tangent, key_side, dim, key_side ? of_keys : of_queries);
    };
    set(false, 0, problem.q, given_.q, sizes_.head_dim);
    set(false, 1, given_.grad_out, given_.grad_out_tangent, sizes_.value_dim);
    set(true, 0, problem.k, given_.k, sizes_.head_dim);
    set(true, 1, problem.v, given_.v, sizes_.value_dim);
    args.gradient = operand_map(problem, to, !Shape::of_queries, columns, 16);
    launch_gradient<Shape>(kName, second_gradients<Shape>, problem, memory_ + work, args, stream_);
  }

  const AttentionSecond& given_;
  const AttentionSizes& sizes_ = given_.problem.sizes;
  const cudaStream_t stream_;
  const SecondSpace space_{sizes_};
  char* const memory_ = static_cast<char*>(given_.problem.workspace);
  SecondArguments common_{};
};

}  // namespace
}  // namespace attention

using namespace attention;

std::string second_attention_why_not(const AttentionSecond& arguments) {
  const CudaAttentionProblem& problem = arguments.problem;
  if (std::string reason = tangent_attention_why_not({problem, arguments.q, arguments.k, arguments.v}); !reason.empty())
    return reason;
  if (problem.sizes.key_lengths != nullptr) return "key lengths are given (serves none)";
  if (std::string reason = gradients_why_not(problem.sizes); !reason.empty()) return reason;
  AttentionBackward backward{problem, arguments.grad_out};
  const auto or_else = [](const AttentionTensor& tensor, const AttentionTensor& other) {
    return tensor.data != nullptr ? tensor : other;
  };
  backward.grad_q = or_else(arguments.grad_q, problem.q);
  backward.grad_k = or_else(arguments.grad_k, problem.k);
  backward.grad_v = or_else(arguments.grad_v, problem.v);
  if (std::string reason = backward_why_not(backward); !reason.empty()) return reason;
  backward.problem.out = arguments.out;
  if (arguments.grad_out_tangent.data != nullptr) backward.grad_out = arguments.grad_out_tangent;
  if (std::string reason = backward_why_not(backward); !reason.empty()) return "of the tangents: " + reason;
  return arguments.lse_tangent == nullptr && problem.sizes.query_rows > 0 ? "the tangent of lse is null" : std::string();
}

int64_t second_attention_workspace_bytes(const AttentionSecond& arguments) { return SecondSpace(arguments.problem.sizes).bytes; }

void second_attention(const AttentionSecond& arguments, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  refuse_if(second_attention_why_not(arguments), kName);
  refuse_if(workspace_why_not(problem, second_attention_workspace_bytes(arguments)), kName);
  const OnDevice device(problem.device);
  refuse_if(stream_why_not(stream), kName);
  if (problem.sizes.heads == 0 || problem.sizes.batch == 0) return;
  SecondPass(arguments, stream).run();
}

}  // namespace deckle::kernels::cuda
