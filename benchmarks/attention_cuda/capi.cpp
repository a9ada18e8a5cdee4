// The C interface that the Python benchmark loads: argument structs by pointer, an error message or null back.
#include <exception>
#include <string>

#include "deckle/kernels/cuda/attention/backward.h"
#include "deckle/kernels/cuda/attention/forward.h"
#include "deckle/kernels/cuda/attention/plan.h"
#include "deckle/kernels/cuda/attention/portable.h"
#include "deckle/kernels/cuda/attention/portable_decode.h"

namespace {

using deckle::kernels::AttentionBackward;
using deckle::kernels::CudaAttentionProblem;

// Null, or the message of an exception; it is valid until the thread's next call.
template <class Call>
const char* guarded(Call call) {
  static thread_local std::string message;
  try {
    call();
    return nullptr;
  } catch (const std::exception& error) {
    message = error.what();
    return message.c_str();
  }
}

}  // namespace

extern "C" {

int64_t deckle_attention_forward_workspace(const CudaAttentionProblem* problem) {
  return deckle::kernels::cuda::attention_forward_workspace_bytes(*problem);
}

const char* deckle_attention_forward(const CudaAttentionProblem* problem, void* stream) {
  return guarded([&] { deckle::kernels::cuda::attention_forward(*problem, static_cast<cudaStream_t>(stream)); });
}

int64_t deckle_attention_backward_workspace(const AttentionBackward* arguments) {
  return deckle::kernels::cuda::attention_backward_workspace_bytes(*arguments);
}

const char* deckle_attention_backward(const AttentionBackward* arguments, void* stream) {
  return guarded([&] { deckle::kernels::cuda::attention_backward(*arguments, static_cast<cudaStream_t>(stream)); });
}

int64_t deckle_attention_decode_workspace(const CudaAttentionProblem* problem) {
  return deckle::kernels::cuda::attention_decode_workspace_bytes(*problem);
}

const char* deckle_attention_decode(const CudaAttentionProblem* problem, void* stream) {
  return guarded([&] { deckle::kernels::cuda::attention_decode(*problem, static_cast<cudaStream_t>(stream)); });
}

int64_t deckle_attention_plan_bytes(const CudaAttentionProblem* problem) {
  return deckle::kernels::cuda::attention_plan_bytes(*problem);
}

const char* deckle_attention_make_plan(const CudaAttentionProblem* problem, void* memory, void* stream) {
  return guarded([&] { deckle::kernels::cuda::attention_make_plan(*problem, memory, static_cast<cudaStream_t>(stream)); });
}

const char* deckle_portable_forward(const CudaAttentionProblem* problem, void* stream) {
  return guarded([&] { deckle::kernels::cuda::portable_attention_forward(*problem, static_cast<cudaStream_t>(stream)); });
}

const char* deckle_portable_backward(const AttentionBackward* arguments, void* stream) {
  return guarded([&] { deckle::kernels::cuda::portable_attention_backward(*arguments, static_cast<cudaStream_t>(stream)); });
}

/// Sizes of the structs, so that the Python mirror can refuse to run when it has drifted.
int64_t deckle_attention_struct_bytes(int which) { return which == 0 ? sizeof(CudaAttentionProblem) : sizeof(AttentionBackward); }
}
