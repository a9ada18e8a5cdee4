// The C interface of the mma.sync kernels.
#include "benchmarks/attention_cuda/guarded.h"
#include "deckle/kernels/cuda/attention/portable.h"

extern "C" {

const char* deckle_portable_forward(const deckle::kernels::AttentionProblem* problem, void* stream) {
  return deckle::benchmarks::guarded(
      [&] { deckle::kernels::cuda::portable_attention_forward(*problem, static_cast<cudaStream_t>(stream)); });
}

const char* deckle_portable_backward(const deckle::kernels::AttentionBackward* arguments, void* stream) {
  return deckle::benchmarks::guarded(
      [&] { deckle::kernels::cuda::portable_attention_backward(*arguments, static_cast<cudaStream_t>(stream)); });
}
}
