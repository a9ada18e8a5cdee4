#include "deckle/kernels/cuda/attention/backward.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "deckle/kernels/args/attention_limits.h"
#include "deckle/kernels/cuda/attention/backward_pass.h"
#include "deckle/kernels/cuda/attention/backward_plan.h"
#include "deckle/kernels/cuda/attention/bias_gradient.h"
#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_features.h"
#include "deckle/kernels/cuda/attention/ragged_bias.h"
#include "deckle/kernels/cuda/attention/tile_walks.cuh"

namespace deckle::kernels::cuda {
namespace {

using namespace attention;

constexpr const char* kName = "attention_backward";

/// Why the gradients of scores with features are left to others.
std::string scored_why_not(const AttentionBackward& arguments) {
  const CudaAttentionProblem& problem = arguments.problem;
  const AttentionSizes& sizes = problem.sizes;
  CudaAttentionProblem others = problem;
  others.bias = {};
  others.dropout = {};
  others.soft_cap = 0;
  others.slopes = nullptr;
  others.ranges = {};
  others.forbidden = {};
  if (std::string reason = features_why_not(others); !reason.empty()) return reason;
  if (problem.soft_cap > 0 && problem.soft_cap < kLeastSoftCapOfHopperBackward)
    return "the soft cap is " + std::to_string(problem.soft_cap) + " (serves 0, none, and from " +
           std::to_string(kLeastSoftCapOfHopperBackward) + " on)";
  if (problem.dropout.threshold != 0) {
    if (problem.bias.data != nullptr) return "there are both a bias and dropout (serves one of them)";
    if (std::string reason = dropout_why_not(problem.dropout); !reason.empty()) return reason;
  }
  if (const BackwardPlan plan(problem); plan.one_pass) {
    const int owned_rows = plan.owner_of_keys().owned_rows;
    if (std::string reason = walks_why_not(problem, Side::keys, owned_rows, plan.unit); !reason.empty()) return reason;
  }
  if (problem.bias.data == nullptr) return {};
  if (has_walks(problem)) return "there is a bias beside a mask of ranges or bytes (serves one of them)";
  if (problem.soft_cap != 0 || problem.slopes != nullptr)
    return "there is a bias beside a soft cap or slopes (serves it with neither)";
  if (sizes.ragged()) {  // copies of it are read
    for (const CudaAttentionPlane* plane : {&problem.bias, &arguments.grad_bias}) {
      if (plane->data != nullptr && (plane->row_stride == 0 || plane->column_stride == 0))
        return "the bias of the ragged batch is broadcast over rows or keys (serves one of each row and key)";
    }
    return {};
  }
  for (const auto& [name, plane] : {std::pair("bias", &problem.bias), {"gradient of the bias", &arguments.grad_bias}}) {
    if (plane->data != nullptr && !(reads_wide(*plane) && plane->row_stride != 0))
      return "the " + std::string(name) + " is broadcast over rows or keys, or has rows that are no multiples of 16 bytes";
  }
  return {};
}

}  // namespace

int64_t attention_backward_workspace_bytes(const AttentionBackward& arguments) {
  return BackwardPlan(arguments.problem, arguments.grad_bias).bytes;
}

std::string attention_backward_why_not(const AttentionBackward& arguments) {
  const CudaAttentionProblem& problem = arguments.problem;
  if (!BackwardPlan(problem).served()) {
    std::string served;
    for (const BackwardInstance& instance : backward_instances()) {
      if (instance.element != problem.element || instance.kernels.key_gradients.function == nullptr) continue;
      served += (served.empty() ? "" : ", ") + std::to_string(instance.head_dim) + "/" + std::to_string(instance.value_dim);
    }
    return "D = " + std::to_string(problem.sizes.head_dim) + ", Dv = " + std::to_string(problem.sizes.value_dim) +
           " (serves multiples of 8 up to " + served + " with as many panels of 64 columns)";
  }
  if (std::string reason = backward_why_not(arguments); !reason.empty()) return reason;
  if (std::string reason = scored_why_not(arguments); !reason.empty()) return reason;
  // No tile has fewer rows than a short one, and every tile has its head.
  const AttentionSizes& sizes = problem.sizes;
  for (const Side side : {Side::queries, Side::keys}) {
    if (std::string reason = tiles_why_not(sizes, side, kShortRows, sizes.heads); !reason.empty()) return reason;
  }
  return device_why_not(problem.device, 9, 9);
}

void attention_backward(const AttentionBackward& arguments, cudaStream_t stream) {
  refuse_if(attention_backward_why_not(arguments), kName);
  refuse_if(workspace_why_not(arguments.problem, attention_backward_workspace_bytes(arguments)), kName);
  const OnDevice device(arguments.problem.device);
  refuse_if(stream_why_not(stream), kName);
  if (arguments.problem.sizes.heads == 0) return;
  if (arguments.problem.sizes.batch == 0) {
    if (arguments.grad_bias.offsets == nullptr && is_sum(arguments.problem.sizes, arguments.grad_bias))  // of no terms
      add_bias_gradient(arguments, {}, {kShortRows, arguments.problem.sizes.heads}, stream);
    if (arguments.grad_slopes != nullptr && arguments.problem.slopes != nullptr)
      portable::add_parts(nullptr, arguments.grad_slopes, arguments.problem.sizes.heads, 0, stream);
    return portable::sink_gradients(arguments, nullptr, stream);
  }
  run_backward(arguments, stream);
}

}  // namespace deckle::kernels::cuda
