// Naive float64 attention on the GPU, the one reference of all tests here. Every (row, key) pair is tested against the mask on
// its own: nothing here is fast, shares code with the kernels, or knows of tiles, bands or live rows.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "deckle/kernels/args/attention_cuda.h"

namespace deckle::testing {

/// Results in float64, contiguous: [B, M, H, D] (or [rows, H, D] if ragged) for tensors, [B, M, H] (or [rows, H]) for lse.
struct ReferenceForward {
  double* out;
  double* lse;
  const uint8_t* keep =
      nullptr;  // what dropout keeps of (head, row, key) of a sequence, from keep_starts[sequence] on; null: all
  const int64_t* keep_starts = nullptr;
  bool rounds_scores = false;  // to float32: beside a bias far from 0 that decides which of them are equal
};

struct ReferenceBackward {
  double* grad_q;
  double* grad_k;
  double* grad_v;
  double* grad_sinks;  // [heads], and behind them the sums of their terms' magnitudes
  double* grad_slopes;
  double* grad_table;  // [heads, 2 reach + 1], likewise
  double* grad_bias;   // as the gradient that is asked for lies in memory, likewise
  int64_t bias_elements;
};

void reference_forward(const kernels::CudaAttentionProblem& problem, ReferenceForward result);

/// Out and lse of the problem are not read: `forward` holds reference_forward's results. Nor is grad_out of rows that attend no
/// key.
void reference_backward(const kernels::AttentionBackward& arguments, ReferenceForward forward, ReferenceBackward result);

/// Writes out, rounded, and lse where a forward would: into the problem's own tensors.
void store_forward(const kernels::CudaAttentionProblem& problem, ReferenceForward forward);

/// The other way round: reads the problem's rounded out and lse.
void load_forward(const kernels::CudaAttentionProblem& problem, ReferenceForward forward);

}  // namespace deckle::testing
