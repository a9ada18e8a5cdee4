// Each gradient by a kernel of its own, a walk of pair_gradients.cuh: with w = P (dP - delta), dQ += w k and dK += wᵀ q, and
// with w = P, dV += wᵀ dO.
//
// 8 products, 3 times each, in place of 5. Every row of w is brought to the largest float16 of its tile before it is split; the
// product with w of each tile is summed by itself and added in registers, where that is undone. Sums have one owner: bit-equal
// from run to run.
#include "deckle/kernels/cuda/attention/split_backward.h"

#include <algorithm>

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/split_gradients.cuh"

namespace deckle::kernels::cuda {
namespace attention {
namespace {

constexpr const char* kName = "split_attention_backward";

/// Rows of a walked tile at most.
constexpr int kMostWalked = 64;

/// Where everything lies in the workspace, in bytes from its start: the work of queries and of keys, peaks, statistics, parts.
struct BackwardSpace {
  explicit BackwardSpace(const AttentionSizes& sizes) {
    width = std::max(sizes.head_dim, sizes.value_dim) <= 64 ? 64 : 128;
    const int64_t batches = sizes.ragged() ? 1 : sizes.batch;
    q_rows = batches * sizes.query_rows;
    q_part = q_rows * sizes.heads * width;
    kv_part = batches * sizes.key_rows * sizes.kv_heads * width;
    const auto up = [](int64_t size) { return (size + 255) / 256 * 256; };
    keys = up(work_list_bytes(sizes, Side::queries, 128));
    peaks = keys + up(work_list_bytes(sizes, Side::keys, 128));
    values = peaks;  // the work of dV has a counter of its own
    peaks += up(work_list_bytes(sizes, Side::keys, 128));
    found = {int64_t{sizes.batch} * (2 * sizes.heads + 2 * sizes.kv_heads), width};
    statistics = peaks + up(found.bytes());
    q = statistics + up((q_rows * sizes.heads + kMostWalked) * int64_t{sizeof(RowStatistics)});
    grad = q + up(4 * q_part);
    k = grad + up(4 * q_part);
    v = k + up(4 * kv_part);
    bytes = v + up(4 * kv_part);
  }
  int width;
  FoundSpace found;
  int64_t q_rows, q_part, kv_part, keys, values, peaks, statistics, q, grad, k, v, bytes;
};

/// Powers of two between the largest rows and others. Rows of dO, as those of tokens that are all but sure, may be small: the
/// gradients of their queries alone err by up to 2^-19 then.
constexpr int kRange = 12, kGradientRange = 20;

/// One backward, whose operands are split once for its three kernels.
class SplitPass {
 public:
  SplitPass(const AttentionBackward& given, cudaStream_t stream) : given_(given), stream_(stream) {
    common_.walk.problem = device_problem(given.problem);
    common_.q_peaks = peaks();
    common_.grad_peaks = peaks() + int64_t{sizes_.batch} * sizes_.heads;
    common_.k_peaks = peaks() + int64_t{sizes_.batch} * 2 * sizes_.heads;
    common_.v_peaks = common_.k_peaks + int64_t{sizes_.batch} * sizes_.kv_heads;
    common_.walk.statistics = reinterpret_cast<const RowStatistics*>(memory_ + space_.statistics);
    common_.walk.statistics_rows = space_.q_rows;
  }

  int* unsuited() const { return space_.found.unsuited(peaks()); }

  void run() {
    check(cudaMemsetAsync(peaks(), 0, space_.found.bytes(), stream_), kName);
    split();
    pair_statistics({given_.problem.out,
                     {},
                     given_.grad_out,
                     {},
                     given_.problem.lse,
                     nullptr,
                     given_.grad_lse,
                     nullptr,
                     space_.q_rows,
                     sizes_.query_rows,
                     sizes_.heads,
                     sizes_.value_dim,
                     false,
                     reinterpret_cast<RowStatistics*>(memory_ + space_.statistics)},
                    stream_);
    if (space_.width == 64) {
      gradient<GradientShape<Element::f16, Role::of_q, 64, 64, 3>>(given_.grad_q, sizes_.head_dim, 0);
      gradient<GradientShape<Element::f16, Role::of_k, 64, 64, 3>>(given_.grad_k, sizes_.head_dim, space_.keys);
      gradient<GradientShape<Element::f16, Role::of_v, 64, 64, 4>>(given_.grad_v, sizes_.value_dim, space_.values);
    } else {
      gradient<GradientShape<Element::f16, Role::of_q, 128, 48, 2>>(given_.grad_q, sizes_.head_dim, 0);
      gradient<GradientShape<Element::f16, Role::of_k, 128, 48, 2>>(given_.grad_k, sizes_.head_dim, space_.keys);
      gradient<GradientShape<Element::f16, Role::of_v, 128, 64, 2>>(given_.grad_v, sizes_.value_dim, space_.values);
    }
  }

 private:
  int* peaks() const { return reinterpret_cast<int*>(memory_ + space_.peaks); }

  void split() const {
    const CudaAttentionProblem& p = given_.problem;
    SplitSides sides{{}, 4, sizes_.batch, space_.width, 2, p.scale, unsuited()};
    const auto side = [&](const AttentionTensor& tensor, bool key_side, int columns, int64_t parts, const int* of, int range) {
      return SplitSide{static_cast<const float*>(tensor.data),
                       tensor.batch_stride,
                       tensor.row_stride,
                       tensor.head_stride,
                       key_side ? common_.walk.problem.keys : common_.walk.problem.queries,
                       key_side ? sizes_.kv_heads : sizes_.heads,
                       columns,
                       const_cast<int*>(of),
                       space_.found.depths(const_cast<int*>(of)),
                       range,
                       space_.found.columns(peaks(), of),
                       reinterpret_cast<__half*>(memory_ + parts),
                       key_side ? space_.kv_part : space_.q_part,
                       key_side ? nullptr : p.lse};
    };
    sides.side[0] = side(p.q, false, sizes_.head_dim, space_.q, common_.q_peaks, kRange);
    sides.side[1] = side(given_.grad_out, false, sizes_.value_dim, space_.grad, common_.grad_peaks, kGradientRange);
    sides.side[2] = side(p.k, true, sizes_.head_dim, space_.k, common_.k_peaks, kRange);
    sides.side[3] = side(p.v, true, sizes_.value_dim, space_.v, common_.v_peaks, kRange);
    split_operands(sides, stream_);
  }

  template <class Shape>
  void gradient(const AttentionTensor& to, int columns, int64_t work) {
    if (to.data == nullptr || (Shape::of_queries ? sizes_.query_rows : sizes_.key_rows) == 0) return;
    CudaAttentionProblem problem = given_.problem;
    problem.sizes.head_dim = problem.sizes.value_dim = Shape::D;
    const auto map = [&](int64_t at, int part, bool key_side, int box_rows) {
      const int64_t of_heads = key_side ? sizes_.kv_heads : sizes_.heads, rows = key_side ? sizes_.key_rows : sizes_.query_rows;
      const int64_t elements = part * (key_side ? space_.kv_part : space_.q_part);
      const AttentionTensor tensor{memory_ + at + 2 * elements, rows * of_heads * Shape::D, of_heads * Shape::D, Shape::D};
      return operand_map(problem, tensor, key_side, Shape::D, box_rows);
    };
    SplitGradientArguments args = common_;
    GradientArguments& walk = args.walk;
    const int of_queries = Shape::of_queries ? Shape::rows : Shape::walked,
              of_keys = Shape::of_queries ? Shape::walked : Shape::rows;
    for (int part = 0; part < 2; ++part) {
      (Shape::of_queries ? walk.owned : walk.walked)[0][part] = map(space_.q, part, false, of_queries);
      (Shape::of_queries ? walk.owned : walk.walked)[1][part] = map(space_.grad, part, false, of_queries);
      (Shape::of_queries ? walk.walked : walk.owned)[0][part] = map(space_.k, part, true, of_keys);
      (Shape::of_queries ? walk.walked : walk.owned)[1][part] = map(space_.v, part, true, of_keys);
    }
    for (int i = 0; i < 2; ++i) walk.has_owned[i] = walk.has_walked[i] = true;
    args.gradient = to;
    args.columns = columns;
    launch_gradient<Shape>(kName, split_gradients<Shape>, problem, memory_ + work, args, stream_);
  }

  const AttentionBackward& given_;
  const AttentionSizes& sizes_ = given_.problem.sizes;
  const cudaStream_t stream_;
  const BackwardSpace space_{sizes_};
  char* const memory_ = static_cast<char*>(given_.problem.workspace);
  SplitGradientArguments common_{};
};

}  // namespace
}  // namespace attention

using namespace attention;

std::string split_attention_backward_why_not(const AttentionBackward& arguments) {
  const CudaAttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  if (sizes.head_dim < 1 || sizes.value_dim < 1 || std::max(sizes.head_dim, sizes.value_dim) > 128)
    return "D = " + std::to_string(sizes.head_dim) + ", Dv = " + std::to_string(sizes.value_dim) + " (serves 1 to 128)";
  alignas(16) static char anywhere[16];
  AttentionBackward others = arguments;  // no copy engine reads these tensors
  for (AttentionTensor* tensor : {&others.problem.q, &others.problem.k, &others.problem.v, &others.problem.out, &others.grad_out,
                                  &others.grad_q, &others.grad_k, &others.grad_v}) {
    *tensor = {anywhere, 8, 8, 8};
  }
  if (std::string reason = backward_why_not(others); !reason.empty()) return reason;
  if (std::string reason = features_why_not(problem); !reason.empty()) return reason;
  if (problem.sinks != nullptr) return "sinks are given (serves none)";
  if (sizes.key_lengths != nullptr) return "key lengths are given (serves none)";
  if (std::string reason = gradients_why_not(sizes); !reason.empty()) return reason;
  return device_why_not(problem.device, 9, 9);
}

int64_t split_attention_backward_workspace_bytes(const AttentionBackward& arguments) {
  return BackwardSpace(arguments.problem.sizes).bytes;
}

const int* split_attention_backward(const AttentionBackward& arguments, cudaStream_t stream) {
  const CudaAttentionProblem& problem = arguments.problem;
  refuse_if(split_attention_backward_why_not(arguments), kName);
  refuse_if(workspace_why_not(problem, split_attention_backward_workspace_bytes(arguments)), kName);
  const OnDevice device(problem.device);
  refuse_if(stream_why_not(stream), kName);
  if (problem.sizes.heads == 0 || problem.sizes.batch == 0) return nullptr;
  SplitPass pass(arguments, stream);
  pass.run();
  return pass.unsuited();
}

}  // namespace deckle::kernels::cuda
