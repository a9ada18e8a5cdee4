#include "deckle/kernels/cuda/attention/portable.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace deckle::kernels::cuda {
namespace attention::portable {

void forward(const AttentionProblem& problem, cudaStream_t stream);
void backward(const AttentionBackward& arguments, cudaStream_t stream);
int64_t backward_bytes(const AttentionSizes& sizes);

}  // namespace attention::portable

namespace {

void require(const AttentionProblem& problem, const char* what) {
  if (const std::string reason = portable_attention_why_not(problem); !reason.empty()) {
    throw std::runtime_error(std::string(what) + ": " + reason);
  }
}

}  // namespace

std::string portable_attention_why_not(const AttentionProblem& problem) {
  const AttentionSizes& sizes = problem.sizes;
  for (const auto& [name, dim] : {std::pair("D", sizes.head_dim), {"Dv", sizes.value_dim}}) {
    if (dim <= 0 || dim % 16 != 0 || dim > 256) {
      return std::string(name) + " = " + std::to_string(dim) + " (serves multiples of 16 up to 256)";
    }
  }
  if (sizes.kv_heads <= 0 || sizes.heads % sizes.kv_heads != 0) {
    return std::to_string(sizes.heads) + " heads are not a multiple of " + std::to_string(sizes.kv_heads) + " kv heads";
  }
  if (sizes.heads > 65535) return std::to_string(sizes.heads) + " heads (serves up to 65535)";
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (major < 8) return "compute capability " + std::to_string(major) + " (serves 8.0 and newer)";
  return {};
}

void portable_attention_forward(const AttentionProblem& problem, cudaStream_t stream) {
  require(problem, "portable_attention_forward");
  attention::portable::forward(problem, stream);
}

int64_t portable_attention_backward_workspace_bytes(const AttentionBackward& arguments) {
  return attention::portable::backward_bytes(arguments.problem.sizes);
}

void portable_attention_backward(const AttentionBackward& arguments, cudaStream_t stream) {
  require(arguments.problem, "portable_attention_backward");
  if (arguments.problem.workspace_bytes < portable_attention_backward_workspace_bytes(arguments)) {
    throw std::runtime_error("portable_attention_backward: a workspace of " + std::to_string(arguments.problem.workspace_bytes) +
                             " bytes was given, " + std::to_string(portable_attention_backward_workspace_bytes(arguments)) + " are needed");
  }
  attention::portable::backward(arguments, stream);
}

}  // namespace deckle::kernels::cuda
