// Naive float64 attention on the GPU, and the random data it is compared on. Nothing here is fast or shares code with the kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::testing {

/// Results in float64, contiguous: [B, M, H, D] (or [rows, H, D] if ragged) for tensors, [B, H, M] (or [H, rows]) for lse.
struct ReferenceForward {
  double* out;
  double* lse;
};

struct ReferenceBackward {
  double* grad_q;
  double* grad_k;
  double* grad_v;
};

void reference_forward(const kernels::AttentionProblem& problem, ReferenceForward result);

/// Recomputes the forward in float64: out and lse of the problem are not read. `forward` holds reference_forward's results.
void reference_backward(const kernels::AttentionBackward& arguments, ReferenceForward forward, ReferenceBackward result);

/// count standard normal values times `scale`, rounded to the element type; a function of (seed, index).
void fill_normal(kernels::AttentionElement element, void* data, int64_t count, uint64_t seed, float scale);

}  // namespace deckle::testing
