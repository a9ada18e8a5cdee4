#include "deckle/kernels/cuda/attention/portable.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "deckle/kernels/cuda/attention/checks.h"
#include "deckle/kernels/cuda/attention/launch.h"
#include "deckle/kernels/cuda/attention/portable_features.h"
#include "deckle/kernels/cuda/attention/portable_planes.h"

namespace deckle::kernels::cuda {
namespace attention::portable {

void forward(const CudaAttentionProblem& problem, cudaStream_t stream);
void backward(const AttentionBackward& arguments, cudaStream_t stream);
int64_t backward_bytes(const CudaAttentionProblem& problem);
int forward_shared_bytes(const CudaAttentionProblem& problem);
int backward_shared_bytes(const CudaAttentionProblem& problem);

}  // namespace attention::portable

namespace {

std::string head_dims_why_not(const AttentionSizes& sizes) {
  for (const auto& [name, dim] : {std::pair("D", sizes.head_dim), {"Dv", sizes.value_dim}}) {
    if (dim <= 0 || dim % 8 != 0 || dim > 256) {
      return std::string(name) + " = " + std::to_string(dim) + " (serves multiples of 8 up to 256)";
    }
  }
  return {};
}

std::string device_why_not(const CudaAttentionProblem& problem, int shared_bytes) {
  if (std::string reason = attention::device_why_not(problem.device, 8, INT_MAX); !reason.empty()) return reason;
  return attention::shared_memory_of_device_why_not(shared_bytes, problem.device);
}

bool empty(const AttentionSizes& sizes) { return sizes.batch == 0 || sizes.heads == 0; }

}  // namespace

std::string portable_attention_forward_why_not(const CudaAttentionProblem& problem) {
  const std::string reason = attention::problem_why_not(problem);
  if (!reason.empty()) return reason;
  if (std::string reason = head_dims_why_not(problem.sizes); !reason.empty()) return reason;
  if (std::string reason = attention::dropout_why_not(problem.dropout); !reason.empty()) return reason;
  return device_why_not(problem, attention::portable::forward_shared_bytes(problem));
}

std::string portable_attention_backward_why_not(const AttentionBackward& arguments) {
  const std::string reason = attention::backward_why_not(arguments);
  if (!reason.empty()) return reason;
  if (std::string reason = head_dims_why_not(arguments.problem.sizes); !reason.empty()) return reason;
  if (std::string reason = attention::dropout_why_not(arguments.problem.dropout); !reason.empty()) return reason;
  return device_why_not(arguments.problem, std::max(attention::portable::backward_shared_bytes(arguments.problem),
                                                    attention::portable::plane_shared_bytes(arguments.problem)));
}

void portable_attention_forward(const CudaAttentionProblem& problem, cudaStream_t stream) {
  constexpr const char* kName = "portable_attention_forward";
  attention::refuse_if(portable_attention_forward_why_not(problem), kName);
  const attention::OnDevice device(problem.device);
  attention::refuse_if(attention::stream_why_not(stream), kName);
  if (!empty(problem.sizes)) attention::portable::forward(problem, stream);
}

int64_t portable_attention_backward_workspace_bytes(const AttentionBackward& arguments) {
  return attention::portable::backward_bytes(arguments.problem);
}

void portable_attention_backward(const AttentionBackward& arguments, cudaStream_t stream) {
  constexpr const char* kName = "portable_attention_backward";
  attention::refuse_if(portable_attention_backward_why_not(arguments), kName);
  attention::refuse_if(attention::workspace_why_not(arguments.problem, portable_attention_backward_workspace_bytes(arguments)),
                       kName);
  const attention::OnDevice device(arguments.problem.device);
  attention::refuse_if(attention::stream_why_not(stream), kName);
  if (arguments.problem.sizes.heads == 0) return;
  if (arguments.problem.sizes.batch == 0) {
    const size_t bytes = sizeof(float) * arguments.problem.sizes.heads;
    if (arguments.grad_slopes != nullptr) attention::check(cudaMemsetAsync(arguments.grad_slopes, 0, bytes, stream), kName);
    if (arguments.grad_table != nullptr)
      attention::check(cudaMemsetAsync(arguments.grad_table, 0, bytes * (2 * arguments.problem.table_reach + 1), stream), kName);
    attention::portable::plane_gradients(arguments, {}, nullptr, stream);
    return attention::portable::sink_gradients(arguments, nullptr, stream);
  }
  attention::portable::backward(arguments, stream);
}

}  // namespace deckle::kernels::cuda
